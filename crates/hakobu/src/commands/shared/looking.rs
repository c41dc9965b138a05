//! The common part of the commands that only inspect hosts: interruption and error messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::location::SshHost;

use crate::language::Language;
use crate::prompts::Terminal;
use crate::render::progress_bar::shows_progress;
use crate::words::{self, Machines};
use crate::{exit, messages, output, signals};

/// Inspects a host, prints the result of `work`, and returns the exit code. After an interruption the program ends
/// after `farewell` in any case. In that time `work` can clean up, and a hidden prompt restores the terminal.
pub(crate) fn look(
    host: Option<&SshHost>,
    (sudo, json): (bool, bool),
    farewell: Duration,
    work: impl FnOnce(&mut Terminal, &dyn Observer, &Arc<AtomicBool>) -> Result<String>,
) -> u8 {
    let hosts: Vec<_> = host.into_iter().collect();
    look_partly(&hosts, (sudo, json), farewell, |terminal, observer, cancel| {
        work(terminal, observer, cancel).map(|text| (text, None))
    })
}

/// Inspects several hosts. If something fails, the earlier results are still printed where `work` returns them.
pub(crate) fn look_partly(
    hosts: &[&SshHost],
    (sudo, json): (bool, bool),
    farewell: Duration,
    work: impl FnOnce(&mut Terminal, &dyn Observer, &Arc<AtomicBool>) -> Result<(String, Option<Error>)>,
) -> u8 {
    let cancel = match signals::cancel_flag() {
        Ok(cancel) => cancel,
        Err(error) => return exit::errors(&[Error::io("installing signal handlers", &error)]),
    };
    end_when_interrupted(Arc::clone(&cancel), farewell);
    let machines = machines(hosts, sudo);
    let mut terminal = Terminal::new(Arc::clone(&cancel), shows_progress() && !json);
    let (printed, error) = match work(&mut terminal, &RemarkPrinter, &cancel) {
        Ok((text, error)) => (output::print(text.as_bytes()), error),
        Err(error) => (0, Some(error)),
    };
    let Some(mut error) = error else { return printed };
    // Ctrl-C ends ssh as well, whose error would look like a failed login.
    if cancel.load(Relaxed) && error.kind != ErrorKind::Cancelled {
        error = Error { kind: ErrorKind::Cancelled, detail: "it was interrupted".to_owned(), ..error };
    }
    output::tell(&words::report_error(&(&error).into(), &machines, Language::from_environment()));
    exit::code_of(error.kind)
}

/// Returns the hosts that a command inspects.
pub(crate) fn machines(hosts: &[&SshHost], sudo: bool) -> Machines {
    Machines { far: hosts.iter().map(|host| host.destination()).collect(), sudo, only_looks: true }
}

pub(crate) fn end_when_interrupted(cancel: Arc<AtomicBool>, farewell: Duration) {
    std::thread::spawn(move || {
        while !cancel.load(Relaxed) {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(farewell);
        output::tell_translated(&messages::error("interrupted"));
        std::process::exit(i32::from(exit::INTERRUPTED));
    });
}

/// An observer that prints notices to standard error.
struct RemarkPrinter;

impl Observer for RemarkPrinter {
    fn event(&self, event: Event) {
        if let Event::Notice { words } = event {
            static NOTES: AtomicU64 = AtomicU64::new(0);
            if let Some(line) = words::note(NOTES.fetch_add(1, Relaxed), &words, Language::from_environment())
            {
                output::tell(&line);
            }
        }
    }
}
