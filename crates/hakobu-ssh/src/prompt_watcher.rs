//! Detects from outside whether ssh asks somebody while it logs in: ssh itself reports it only in a mode in which the
//! user's messages would be lost among its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The polling interval. Nobody answers faster, but programs do: a missed question costs a refused login.
const LOOK_EVERY: Duration = Duration::from_millis(3);
/// More processes than any chain of jump hosts has.
const PROCESSES_MAX: usize = 100;
/// The variable that names the askpass program, and the program's usual name.
const NAMED: &[u8] = b"SSH_ASKPASS=";
const USUAL: &str = "ssh-askpass";
/// The file that ssh opens to ask a question.
const TERMINAL: &str = "/dev/tty";

/// Watches an ssh process until it is dropped.
#[derive(Debug, Default)]
pub(super) struct PromptWatcher {
    asks: Arc<AtomicBool>,
    ended: Arc<AtomicBool>,
}

impl PromptWatcher {
    /// Watches a process and its descendants until the login is done.
    pub(super) fn watch(process: u32) -> Self {
        let watch = Self::default();
        let (asks, ended) = (watch.asks.clone(), watch.ended.clone());
        let looking = move || {
            while !ended.load(Relaxed) && !asks.load(Relaxed) && is_there(process) {
                asks.store(anybody_asks(process), Relaxed);
                std::thread::sleep(LOOK_EVERY);
            }
        };
        if std::thread::Builder::new().name("ssh questions".to_owned()).spawn(looking).is_err() {
            watch.asks.store(true, Relaxed);
        }
        watch
    }

    /// Ends the watch after the login. Returns true if somebody was seen to be asked.
    pub(super) fn settle(&self) -> bool {
        self.ended.store(true, Relaxed);
        self.asks.load(Relaxed)
    }
}

impl Drop for PromptWatcher {
    fn drop(&mut self) {
        self.ended.store(true, Relaxed);
    }
}

fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

/// Returns true if the process or a descendant has a terminal open, or is the askpass program.
fn anybody_asks(process: u32) -> bool {
    let mut processes = vec![process];
    let mut at = 0;
    while let Some(&process) = processes.get(at).filter(|_| at < PROCESSES_MAX) {
        if has_terminal(process) || is_program(process) {
            return true;
        }
        processes.extend(children(process));
        at += 1;
    }
    false
}

fn has_terminal(process: u32) -> bool {
    let open = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    open.into_iter().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(TERMINAL)))
}

/// Returns true if it is the askpass program, as a binary or as a script. Its environment names it, unless it is the
/// usual one.
fn is_program(process: u32) -> bool {
    let read = |what: &str| fs::read(format!("/proc/{process}/{what}")).unwrap_or_default();
    let environment = read("environ");
    let named = environment.split(|byte| *byte == 0).find_map(|line| line.strip_prefix(NAMED));
    let named = named.filter(|named| !named.is_empty()).map(OsStr::from_bytes);
    read("cmdline").split(|byte| *byte == 0).take(2).any(|word| {
        let word = Path::new(OsStr::from_bytes(word));
        Some(word.as_os_str()) == named || word.file_name() == Some(OsStr::new(USUAL))
    })
}

fn children(process: u32) -> Vec<u32> {
    let said = fs::read_to_string(format!("/proc/{process}/task/{process}/children")).unwrap_or_default();
    said.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::Instant;

    use super::*;

    #[track_caller]
    fn becomes(holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    #[test]
    fn the_program_that_asks_is_seen_below_others() {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("ask");
        crate::start::tests::install(&program, "#!/bin/sh\nsleep 600\n");
        let start = |named: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 600 & \"$1\" & wait", "sh"]).arg(&program);
            command.env("SSH_ASKPASS", named).spawn().unwrap()
        };
        let mut other = start("/other/program");
        let mut child = start(program.to_str().unwrap());
        becomes(|| anybody_asks(child.id()));
        becomes(|| children(other.id()).len() == 2);
        assert!(!anybody_asks(other.id()));
        end(&mut other);
        end(&mut child);
        let watch = PromptWatcher::watch(child.id());
        assert!(!watch.settle());
    }

    /// Ends the process and those that it has started.
    fn end(child: &mut Child) {
        let below = children(child.id());
        for process in below.iter().flat_map(|child| [children(*child), vec![*child]].concat()) {
            let _ = Command::new("kill").arg(process.to_string()).status();
        }
        child.wait().unwrap();
    }

    #[test]
    fn a_terminal_is_seen() {
        // A terminal of its own, which `script` creates.
        let mut child = Command::new("script")
            .args(["-qec", "exec sleep 600 </dev/tty", "/dev/null"])
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let watch = PromptWatcher::watch(child.id());
        becomes(|| watch.asks.load(Relaxed));
        assert!(watch.settle());
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
