//! Ctrl-C and its relatives: the first asks the run to stop, the second ends it at once, unless something is held still that
//! only this run lets go.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

use hakobu_core::stopping;
use hakobu_transfer::passes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::exit_code::INTERRUPTED;
use crate::output;

/// The message for a further signal that does not end the run.
const HELD: &str = "note: stopping; --after-last-pass runs first, so that the source does not stay frozen (to end \
    at once: kill -9, then thaw it yourself)";

/// A flag that is set by the first SIGINT, SIGTERM or SIGHUP; the second ends the program with code 130, but for a source that
/// is held still ([`passes::holds_still`]). A signal that is ignored when the program starts (nohup, a shell's background job)
/// stays ignored.
///
/// # Errors
/// The system refuses to install a handler.
pub fn cancel_flag() -> io::Result<Arc<AtomicBool>> {
    let cancel = Arc::new(AtomicBool::new(false));
    let mut signals = Signals::new(heeded())?;
    let flag = Arc::clone(&cancel);
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            match flag.swap(true, SeqCst) {
                false => stopping::ask(Instant::now()),
                true if passes::holds_still() => output::tell_translated(HELD),
                true => signal_hook::low_level::exit(i32::from(INTERRUPTED)),
            }
        }
    })?;
    Ok(cancel)
}

/// Two flags: the first SIGINT, SIGTERM or SIGHUP sets the first one, which asks for an orderly end, the second signal sets
/// the second one, which asks for an end at once, and the third ends the program with code 130. Signals that are ignored stay
/// ignored, as with [`cancel_flag`].
///
/// # Errors
/// The system refuses to install a handler.
pub fn ending_flags() -> io::Result<(Arc<AtomicBool>, Arc<AtomicBool>)> {
    let (ending, stopping) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let mut signals = Signals::new(heeded())?;
    let flags = (Arc::clone(&ending), Arc::clone(&stopping));
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if !flags.0.swap(true, SeqCst) {
                continue;
            }
            if flags.1.swap(true, SeqCst) {
                signal_hook::low_level::exit(i32::from(INTERRUPTED));
            }
        }
    })?;
    Ok((ending, stopping))
}

/// Returns the signals that are not ignored.
fn heeded() -> impl Iterator<Item = i32> {
    let ignored = ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |signal| ignored & (1 << (signal - 1)) == 0)
}

/// The mask of ignored signals from the text of `/proc/self/status`, signal 1 in the lowest bit.
fn ignored_signals(status: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// The maximum time that a child process takes, with a margin.
    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn the_mask_of_ignored_signals_is_read() {
        assert_eq!(ignored_signals("Name:\tx\nSigIgn:\t0000000000001001\n"), 0x1001);
        assert_eq!(ignored_signals("SigBlk:\t1\n"), 0);
    }

    /// Runs in a process of its own, started by the next test.
    #[test]
    #[ignore = "ends its process"]
    fn child_that_signals_itself() {
        let raise = || {
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT).unwrap();
        };
        // The tests may run with the signal ignored (nohup, a background job), which children inherit.
        hakobu_sys::signal::heed_all().unwrap();
        let cancel = cancel_flag().unwrap();
        raise();
        let until = Instant::now() + LIMIT;
        while !cancel.load(SeqCst) {
            assert!(Instant::now() < until, "the signal is not heeded");
            std::thread::sleep(Duration::from_millis(5));
        }
        println!("asked to stop");
        raise();
        std::thread::sleep(LIMIT);
    }

    #[test]
    fn the_first_signal_asks_and_the_second_ends() {
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "--nocapture", "signals::tests::child_that_signals_itself"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        assert!(said.contains("asked to stop"), "{said}");
        assert_eq!(child.status.code(), Some(130));
    }

    #[test]
    fn a_signal_that_is_ignored_stays_ignored() {
        let mut command = std::process::Command::new("env");
        command.args(["--ignore-signal=INT", "cat", "/proc/self/status"]);
        let status = String::from_utf8(command.output().unwrap().stdout).unwrap();
        assert_eq!(ignored_signals(&status) & 1 << (SIGINT - 1), 1 << (SIGINT - 1), "{status}");
    }
}
