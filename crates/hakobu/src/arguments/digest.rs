//! The arguments of `digest`, and their help.

use std::ffi::OsString;

use clap::Args;
use clap::builder::PossibleValuesParser;

use super::login::LoginArguments;

pub(crate) const DIGEST_HELP: &str = "\
The data is read on the machine where it is, a disk past the page cache, on all cores for BLAKE3;
only digests travel. A link that is named is followed. Of a tree each file has a line, as b3sum
prints it, with its path on that machine and in no particular order; `b3sum --check` reads it there,
but for names that are not UTF-8.

Examples:
  hakobu digest disk.img                     what b3sum disk.img prints
  hakobu digest host:/dev/sdb                of a disk, read on host
  hakobu digest --algorithm sha256 host:/images/disk.img

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 parts could not be read (--on-read-error skip), 5 it
changed while it was read, 6 refused (it is in use), 130 interrupted.";

/// The arguments of `digest`.
#[derive(Debug, Args)]
pub struct DigestArguments {
    /// A file, tree or block device: a path, host:path or ssh://host:port/path
    #[arg(value_name = "LOCATION")]
    pub location: OsString,

    /// blake3, sha256
    #[arg(long, value_name = "NAME", default_value = "blake3", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["blake3", "sha256"]))]
    pub algorithm: String,

    /// Read a disk that is in use; what is written meanwhile may be in it or not
    #[arg(long)]
    pub live: bool,

    /// stop, or skip: take zeros for what cannot be read, and list it
    #[arg(long, value_name = "HOW", default_value = "stop", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["stop", "skip"]))]
    pub on_read_error: String,

    /// Print JSON objects instead of lines
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}
