//! The verb `disks`, from the arguments to the exit code.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use clap::Args;
use hakobu_core::error::Error;
use hakobu_core::location::SshHost;
use hakobu_transfer::disks::{self, DisksRequest};
use rustix::termios::tcgetwinsize;

use crate::commands::shared::findings::Findings;
use crate::commands::shared::headings::OUTPUT;
use crate::commands::shared::login::{LoginArguments, agent, host, ssh};
use crate::commands::shared::looking;
use crate::exit;
use crate::render::disks::{json, table};
use crate::settings_file::ssh_variable;

/// The text below the help.
pub(crate) const DISKS_HELP: &str = "\
Nothing is written. As root more is shown: what the disks contain, and which processes write to them.

The ID stays the same when the kernel's names change; it is what --confirm of other commands takes. Partitions are \
listed below their disk. A sector column with two figures shows the logical and the physical size in bytes.

Examples:
  hakobu disks                  the disks of this machine
  hakobu disks host             those of another host
  hakobu disks --json | jq -r '.disks[] | select(.uses == []) | .id'

Exit codes: 0 listed, 1 failed, 2 wrong usage.";

/// The arguments of `disks`.
#[derive(Debug, Args)]
pub struct DisksArguments {
    /// host, user@host or ssh://host:port; default: this machine
    #[arg(value_name = "HOST")]
    pub host: Option<OsString>,

    /// Print one JSON object
    #[arg(long, help_heading = OUTPUT)]
    pub json: bool,

    /// The login on the other machine.
    #[command(flatten)]
    pub login: LoginArguments,
}

/// Returns the request that the arguments of `disks` stand for.
///
/// # Errors
/// `Usage` for each value that is wrong.
pub fn disks_request(
    typed: &DisksArguments,
    environment_ssh: Option<OsString>,
) -> Result<DisksRequest, Vec<Error>> {
    let mut found = Findings::default();
    let request = DisksRequest {
        host: typed.host.as_ref().and_then(|typed| found.keep(host(typed.as_bytes()))),
        ssh: found.keep(ssh(typed.login.ssh.as_ref(), environment_ssh)).unwrap_or_default(),
        agent: found.keep(agent(typed.login.agent.as_ref())).unwrap_or_default(),
        sudo: typed.login.sudo,
    };
    if typed.host.is_none() && typed.login.sudo {
        found.usage("--sudo", "applies to another host; on this machine run sudo hakobu disks");
    }
    if found.errors.is_empty() { Ok(request) } else { Err(found.errors) }
}

/// The time that a run has to end after an interruption. Nothing has to be removed.
const FAREWELL: Duration = Duration::from_millis(300);

/// Returns the width of the terminal that the table goes to.
fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Lists the disks of a machine; returns the exit code.
pub fn disks(typed: &DisksArguments) -> u8 {
    let request = match disks_request(typed, ssh_variable()) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let host = request.host.as_ref().map(SshHost::destination);
    looking::look(request.host.as_ref(), (request.sudo, typed.json), FAREWELL, |terminal, observer, _| {
        let disks = disks::disks(&request, terminal, observer)?;
        match typed.json {
            true => json(host.as_deref(), &disks),
            false => Ok(table(&disks, columns())),
        }
    })
}
