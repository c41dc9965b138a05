//! Processes that end with the test.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// The program that was built for this test.
pub const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");
/// The time for what does not take long.
pub const SOON: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process whose output is kept in a file.
pub struct TestProcess {
    child: Child,
    log: PathBuf,
}

impl TestProcess {
    /// Starts a command. What it writes is appended to a file.
    pub fn start(mut command: Command, log: &Path) -> Self {
        let file = File::options().create(true).append(true).open(log).unwrap();
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        Self { child: command.spawn().unwrap(), log: log.to_owned() }
    }

    /// Returns what it has written, and those before it with the same file.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap()).into_owned()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Kills it.
    pub fn kill(&mut self) {
        let _has_ended = self.child.kill();
        let _code = self.child.wait();
    }

    /// Returns how it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> ExitStatus {
        let log = self.log.clone();
        let mut status = None;
        wait_until(&format!("the end of {}", log.display()), SOON, || {
            status = self.ended();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            println!("--- {}:\n{}", self.log.display(), self.log());
        }
    }
}

/// Runs a command that ends by itself, with a file for what it writes. Returns its exit code and that.
#[track_caller]
pub fn run_to_end(command: Command, log: &Path) -> (Option<i32>, String) {
    let _from_before = std::fs::remove_file(log);
    let mut process = TestProcess::start(command, log);
    (process.wait().code(), process.log())
}

/// Waits until a condition holds.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}
