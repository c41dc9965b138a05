//! The arguments of `doctor`, and their help.

use std::ffi::OsString;

use clap::Args;

use super::login::LoginArguments;

/// What stands below the help.
pub(crate) const DOCTOR_HELP: &str = "\
Nothing is changed. With HOST the round trip to it is measured, and both machines are judged for the
way between them, in both directions; where advice depends on what the way carries, that is measured
as well: up to 256 MiB go to nowhere over there. Without HOST only what is certain of this machine
is said.

Each finding has a fact, what follows from it, the command that changes it and, where it can be
told, the rate before and after: of hakobu with the lanes that it begins with, and of one
connection as other tools have it. Where all is right already, one line says so. What this login
may not read is named.

Examples:
  hakobu doctor                 this machine
  hakobu doctor host            this one, host, and the way between them
  hakobu doctor host --json | jq -r '.findings[].command'

Exit codes: 0 looked at, whatever was found, 1 failed, 2 wrong usage.";

/// The arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArguments {
    /// host, user@host or ssh://host:port [default: only this machine]
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// So many lanes, as hakobu copy --lanes has them: a number, or auto
    #[arg(long, value_name = "N", default_value = "auto")]
    pub lanes: String,

    /// One JSON object on standard output
    #[arg(long)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}
