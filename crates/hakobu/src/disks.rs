//! The verb `disks`, from the arguments to the exit code.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use hakobu_agent::disks;
use hakobu_core::error::Error;
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::SshHost;
use hakobu_core::path::lossy;

use crate::cli::DisksArguments;
use crate::prompts::Terminal;
use crate::render::disks::{json, table};
use crate::words::{self, Machines};
use crate::{exit, output, settings, signals};

/// Lists the disks of a machine; returns the exit code.
pub fn disks(typed: &DisksArguments) -> u8 {
    let request = match settings::disks_request(typed, std::env::var_os("HAKOBU_SSH")) {
        Ok(request) => request,
        Err(errors) => return exit::errors(&errors),
    };
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    end_when_interrupted(Arc::clone(&cancel));
    let host = request.host.as_ref().map(SshHost::destination);
    let machines = Machines { far: host.iter().cloned().collect(), sudo: request.sudo };
    let listed = disks::disks(&request, &mut Terminal { cancel }, &Remarks);
    let shown = listed.and_then(|disks| match typed.json {
        true => json(host.as_deref(), &disks),
        false => Ok(table(&disks)),
    });
    match shown {
        Ok(text) => output::print(text.as_bytes()),
        Err(error) => {
            crate::tell(&words::report_error(&(&error).into(), &machines));
            exit::code_of(error.kind)
        }
    }
}

/// Ends the program soon after it was interrupted: whatever is under way only looks. A question on
/// the terminal gets the time to show again what is typed.
pub(crate) fn end_when_interrupted(cancel: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !cancel.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(300));
        std::process::exit(i32::from(exit::INTERRUPTED));
    });
}

/// Says on standard error what the user should know.
pub(crate) struct Remarks;

impl Observer for Remarks {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            crate::tell(&format!("hakobu: {}", lossy(words.as_bytes())));
        }
    }
}
