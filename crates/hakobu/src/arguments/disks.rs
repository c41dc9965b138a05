//! The arguments of `disks`, and their help.

use std::ffi::OsString;

use clap::Args;

use super::login::LoginArguments;

/// What stands below the help.
pub(crate) const DISKS_HELP: &str = "\
Nothing is written. As root more is seen: what is on the disks, and which processes write to them.

The ID stays when the kernel's names change; --confirm of the other verbs takes it. Partitions stand
below their disk. A column of sectors with two figures has the logical and the physical size in
bytes.

Examples:
  hakobu disks                  the disks of this machine
  hakobu disks host             those of another one
  hakobu disks --json | jq -r '.disks[] | select(.uses == []) | .id'

Exit codes: 0 listed, 1 failed, 2 wrong usage.";

/// The arguments of `disks`.
#[derive(Debug, Args)]
pub struct DisksArguments {
    /// host, user@host or ssh://host:port [default: this machine]
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}
