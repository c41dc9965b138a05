//! Processes that end with the harness, also when it is killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::Signal;

use super::processes;

/// Writes the process's PID to the file `$0`, and runs it until standard input ends, which it does with the harness.
const WATCHER: &str = "\"$@\" </dev/null & echo $! >\"$0\"; read -r end; kill -9 $!; wait $!";
/// The time in which a process starts.
const START_LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A process below a shell that kills it when the harness ends. Dropping it kills it.
#[derive(Debug)]
pub struct WatchedProcess {
    watcher: Child,
    process: u32,
    log: PathBuf,
}

impl WatchedProcess {
    /// Starts a program. Its output is appended to `log`.
    ///
    /// # Errors
    /// Returns an error if it cannot be started.
    pub fn start(
        program: &Path,
        words: &[OsString],
        environment: &[(String, OsString)],
        log: &Path,
    ) -> anyhow::Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let pid_file = log.with_extension("pid");
        // One of an earlier process would be read.
        let _ = fs::remove_file(&pid_file);
        let mut command = Command::new("sh");
        command.args(["-c", WATCHER]).arg(&pid_file).arg(program).args(words);
        command.env_remove("HAKOBU_SSH").envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::piped()).stdout(file.try_clone()?).stderr(file);
        let watcher = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        // Dropping it ends the shell, whatever happens next.
        let mut process = Self { watcher, process: 0, log: log.to_owned() };
        let deadline = Instant::now() + START_LIMIT;
        while process.process == 0 {
            let text = fs::read_to_string(&pid_file).unwrap_or_default();
            process.process = text.strip_suffix('\n').and_then(|text| text.parse().ok()).unwrap_or(0);
            ensure!(Instant::now() < deadline, "{} does not start", program.display());
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(process)
    }

    /// Returns true if it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        processes::is_zombie(self.process)
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: Signal) {
        processes::signal(self.process, signal);
    }

    /// Waits until it has ended by itself. Returns false if it has not within a time.
    #[must_use]
    pub fn waits_for_end(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while !self.has_ended() {
            if Instant::now() > deadline {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    /// Returns everything that has been written to its log.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for WatchedProcess {
    fn drop(&mut self) {
        // Its end makes the shell kill the process.
        drop(self.watcher.stdin.take());
        let _ = self.watcher.wait();
    }
}
