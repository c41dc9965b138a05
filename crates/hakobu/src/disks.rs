//! The verb `disks`, from the arguments to the exit code.

use std::io::IsTerminal;
use std::time::Duration;

use hakobu_core::location::SshHost;
use hakobu_transfer::disks;
use rustix::termios::tcgetwinsize;

use crate::arguments::disks::DisksArguments;
use crate::render::disks::{json, table};
use crate::{exit, looking, settings, settings_file};

/// Nothing is made that would have to be cleared away.
const FAREWELL: Duration = Duration::from_millis(300);

/// The width of the terminal that the table goes to.
fn columns() -> Option<usize> {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| tcgetwinsize(&stdout).ok()).flatten();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// Lists the disks of a machine; returns the exit code.
pub fn disks(typed: &DisksArguments) -> u8 {
    let request = match settings::disks_request(typed, settings_file::ssh_variable()) {
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
