//! The arguments of `probe`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::commands::shared::limits::LimitArguments;
use crate::commands::shared::login::LoginArguments;

/// What stands below the help.
pub(crate) const HELP: &str = "\
Takes about ten seconds, on long ways some more, and says first what it will do. Measured are: the
round trip, and the rate of 1, 2, 4, ... connections in both directions until more are no faster;
how SOURCE is read, past what is in memory, and what a tree holds; how TARGET is written, with a
scratch file that has no name and a few hundred small ones; on both machines the ciphers, BLAKE3,
zstd and copying in memory. From that follows what a copy will get, what limits it, and how long the
first copy of a tree and a run that finds nothing to do will take. Where the copy would fail, as for
want of room or rights, the first line says so. A disk as TARGET is only read, unless --confirm
names it: then what it holds is read and written back to where it was, and so its content stays as
it is. It must not be in use: what somebody else writes meanwhile would be lost.

Examples:
  hakobu probe host:/backup                 the way there, and what TARGET takes
  hakobu probe data/ host:/backup           how long data/ will take
  hakobu probe one:/data two:/data          between two other machines
  hakobu probe --gentle data/ host:/backup  beside other users, with little load
  hakobu probe --html probe.html /mnt/old /mnt/new
  hakobu probe disk.img host:/dev/sdb --confirm ID

Exit codes: 0 measured, even if a copy would fail; 1 failed, or a machine was lost (what was
measured is printed), 2 wrong usage, 6 refused: a disk in use, another one than --confirm names, a
page that would overwrite a disk or something else than a page; 130 interrupted.";

/// The arguments of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArguments {
    /// What would be copied, if named, and where to: a path, host:path or ssh://host:port/path
    #[arg(value_name = "[SOURCE] TARGET", required = true, num_args = 1..=2)]
    pub places: Vec<OsString>,

    /// Little load, for less long: one connection and one thread, with pauses; the line is not filled
    #[arg(long)]
    pub gentle: bool,

    /// Write nothing at TARGET, not even a scratch file
    #[arg(long)]
    pub no_write: bool,

    /// The disk that is TARGET, by its ID (see hakobu disks): write to it what it holds
    #[arg(long, value_name = "ID", conflicts_with = "no_write")]
    pub confirm: Vec<String>,

    /// So many lanes, as hakobu copy --lanes has them: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto")]
    pub lanes: String,

    /// What the copy would be held to: a rate is predicted, by what a timetable has now; the others are said.
    #[command(flatten)]
    pub limits: LimitArguments,

    /// How the copy would compress, as hakobu copy --compress; it is said, and not predicted
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub compress: String,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,

    /// Write it to this file as well, as one page of HTML with charts
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,

    /// The login on the other machines.
    #[command(flatten)]
    pub login: LoginArguments,
}
