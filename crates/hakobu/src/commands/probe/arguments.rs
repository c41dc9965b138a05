//! The arguments of `probe`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::headings::{DISKS, OUTPUT, PERFORMANCE};
use crate::commands::shared::limits::LimitArguments;
use crate::commands::shared::login::LoginArguments;
use crate::commands::shared::store::StoreArguments;

/// The text below the help.
pub(crate) const HELP: &str = "\
Takes about ten seconds, longer on links with high latency, and first prints what it will do. It measures:
  * the round-trip time, and the throughput of 1, 2, 4, ... connections in both directions
  * how fast SOURCE is read, bypassing the page cache, and what a tree contains
  * how fast TARGET is written, with an unnamed scratch file and a few hundred small ones
  * ciphers, BLAKE3, zstd and memory copies on both hosts

From that it predicts the rate of a copy and its bottleneck. For a tree it predicts how long the first copy and a run \
without changes will take. If the copy would fail, for example for lack of space or permissions, the first line says so.

An object store is measured from this machine, and nothing is written to it: the round trip, how long its listing takes, \
small and large objects that are there. With SOURCE and TARGET, a dry run counts the requests that a copy takes.

A disk as TARGET is only read, unless --confirm names it: then its own content is read and written back to the same \
place, so it stays as it is. The disk must not be in use: anything written to it meanwhile would be lost.

Examples:
  hakobu probe host:/backup                 the link, and how fast TARGET is
  hakobu probe data/ host:/backup           how long data/ will take
  hakobu probe one:/data two:/data          between two other hosts
  hakobu probe --gentle data/ host:/backup  with little load, beside other users
  hakobu probe --html probe.html /mnt/old /mnt/new
  hakobu probe disk.img host:/dev/sdb --confirm ID
  hakobu probe photos/ s3://media/photos    what a store answers, and the requests of a copy

Exit codes: 0 measured, even if a copy would fail; 1 failed, or a host was lost (what was measured is printed); 2 \
wrong usage; 6 refused: a disk in use, another disk than --confirm names, or --html would overwrite a disk or \
another file; 130 interrupted.";

/// The arguments of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// Source (optional) and target of the copy
    #[arg(value_name = "[SOURCE] TARGET", required = true, num_args = 1..=2)]
    pub places: Vec<OsString>,

    /// Measure briefly, with little load
    ///
    /// One connection and one thread, with pauses; the link is not saturated
    #[arg(long, help_heading = PERFORMANCE)]
    pub gentle: bool,

    /// Write nothing at TARGET, not even a scratch file
    #[arg(long, help_heading = DISKS)]
    pub no_write: bool,

    /// Allow a write test on the disk TARGET
    ///
    /// The ID is that of hakobu disks; the disk's own content is read and written back
    #[arg(long, value_name = "ID", conflicts_with = "no_write", help_heading = DISKS)]
    pub confirm: Vec<String>,

    /// Number of parallel connections, or auto
    #[arg(long, value_name = "N", default_value = "auto", help_heading = PERFORMANCE)]
    pub lanes: String,

    /// The limits of the predicted copy. The prediction takes the current rate limit into account; other limits are only
    /// mentioned.
    #[command(flatten)]
    pub limits: LimitArguments,

    /// How the copy will compress
    ///
    /// The measured figures are without compression; probe says whether the copy would use it
    #[arg(long, value_name = "HOW", default_value = "auto", help_heading = PERFORMANCE)]
    pub compress: String,

    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// Also write an HTML page with charts to this file
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub html: Option<PathBuf>,

    /// The options for reaching object stores.
    #[command(flatten)]
    pub store: StoreArguments,

    /// The login on the other machines.
    #[command(flatten)]
    pub login: LoginArguments,
}
