//! The verb `disks`, from the arguments to the exit code.

use std::ffi::OsString;
use std::time::Duration;

use clap::Args;
use hakobu_agent::disks;
use hakobu_core::location::SshHost;

use crate::login::LoginArguments;
use crate::render::disks::{json, table};
use crate::{exit, looking, settings, settings_file};

/// Nothing is made that would have to be cleared away.
const FAREWELL: Duration = Duration::from_millis(300);

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

/// Lists the disks of a machine; returns the exit code.
pub fn disks(typed: &DisksArguments) -> u8 {
    let request = match settings::disks_request(typed, settings_file::ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let host = request.host.as_ref().map(SshHost::destination);
    looking::look(request.host.as_ref(), request.sudo, FAREWELL, |terminal, observer, _| {
        let disks = disks::disks(&request, terminal, observer)?;
        match typed.json {
            true => json(host.as_deref(), &disks),
            false => Ok(table(&disks)),
        }
    })
}
