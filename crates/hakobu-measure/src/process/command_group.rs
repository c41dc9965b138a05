//! A command with everything that it starts.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::running::{CommandCost, MeasuredCommand};
use crate::{MeasureError, MeasureResult};

/// The interval at which a caller that waits may look at other things.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// The time that a group has to exit on SIGTERM before it is killed. On SIGTERM ssh also ends its proxy commands.
const EXIT_LIMIT: Duration = Duration::from_millis(300);
/// The number of last lines of the output that are quoted.
const LAST_LINES: usize = 3;
/// The maximum number of bytes read for them.
const WORDS_BYTES_MAX: u64 = 4096;

/// The reason why a run does not count, in words.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RunFailure(pub String);

impl From<MeasureError> for RunFailure {
    fn from(error: MeasureError) -> Self {
        Self(error.to_string())
    }
}

/// A command in a process group of its own, whose output goes to a file. If it is dropped before it has ended, the whole
/// group is ended.
#[derive(Debug)]
pub struct CommandGroup {
    running: Option<MeasuredCommand>,
    pid: u32,
    log: PathBuf,
}

impl CommandGroup {
    /// Starts a command. Its standard output and error go to the file `log`, which is replaced.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or the command not started.
    pub fn start(mut command: Command, log: &Path) -> MeasureResult<Self> {
        let file = File::create(log).map_err(MeasureError::io("create", log))?;
        let other = file.try_clone().map_err(MeasureError::io("open", log))?;
        let running = MeasuredCommand::start(command.stdout(file).stderr(other).process_group(0))?;
        Ok(Self { pid: running.pid(), running: Some(running), log: log.to_owned() })
    }

    /// Returns the ID of the process, which is that of the group as well.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Waits for at most `wait`, and returns true if the command has ended. Processes that it left behind may run on.
    ///
    /// # Errors
    ///
    /// Waiting failed.
    pub fn ended_within(&self, wait: Duration) -> MeasureResult<bool> {
        self.running.as_ref().map_or(Ok(true), |running| running.ended_within(wait))
    }

    /// Waits for the end, and calls `look` meanwhile.
    ///
    /// # Errors
    ///
    /// The command failed, still runs when `limit` has passed from now on, or `look` failed. Then the group is ended.
    pub fn finish<E: From<RunFailure>>(
        mut self,
        limit: Duration,
        mut look: impl FnMut() -> Result<(), E>,
    ) -> Result<CommandCost, E> {
        let failed = |error: MeasureError| RunFailure::from(error);
        let deadline = Instant::now() + limit;
        while !self.ended_within(LOOK_EVERY).map_err(failed)? {
            look()?;
            if Instant::now() > deadline {
                let words = self.last_words();
                return Err(RunFailure(format!("still running after {} s. {words}", limit.as_secs())).into());
            }
        }
        let Some(running) = self.running.take() else { return Err(RunFailure(String::new()).into()) };
        let cost = running.finish().map_err(failed)?;
        if cost.status.success() {
            return Ok(cost);
        }
        let words = self.last_words();
        Err(RunFailure(if words.is_empty() { cost.status.to_string() } else { words }).into())
    }

    /// Ends the group: with SIGTERM, and with SIGKILL if the command still runs after `limit`.
    pub fn end(&self, limit: Duration) {
        let group = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (Some(running), Some(group)) = (&self.running, group) {
            // It may have ended by itself.
            let _ = kill_process_group(group, Signal::TERM);
            if !running.ended_within(limit).unwrap_or(false) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }

    /// Returns the last lines of the output, without empty ones.
    #[must_use]
    pub fn last_words(&self) -> String {
        let text = String::from_utf8_lossy(&end_of(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join(" / ")
    }
}

fn end_of(log: &Path) -> io::Result<Vec<u8>> {
    let file = File::open(log)?;
    let length = file.metadata()?.len();
    let mut bytes = vec![0; length.min(WORDS_BYTES_MAX) as usize];
    file.read_exact_at(&mut bytes, length.saturating_sub(WORDS_BYTES_MAX))?;
    Ok(bytes)
}

impl Drop for CommandGroup {
    fn drop(&mut self) {
        self.end(EXIT_LIMIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Result<CommandCost, RunFailure> {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        CommandGroup::start(command, &place.path().join("log"))?.finish(limit, || Ok(()))
    }

    #[test]
    fn a_failure_has_its_own_words() {
        let words = |script| run(script, Duration::from_secs(100)).unwrap_err().0;
        assert_eq!(words("echo first; echo why >&2; exit 3"), "first / why");
        assert_eq!(words("exit 3"), "exit status: 3");
        assert!(run("echo well", Duration::from_secs(100)).is_ok());
    }

    #[test]
    fn a_look_that_fails_ends_all() {
        let place = tempfile::tempdir().unwrap();
        let mut command = Command::new("sleep");
        command.arg("600");
        let group = CommandGroup::start(command, &place.path().join("log")).unwrap();
        let pid = group.pid();
        let stopped = group.finish(Duration::from_secs(100), || Err(RunFailure("stop".to_owned())));
        assert_eq!(stopped.unwrap_err().0, "stop");
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn a_command_that_does_not_end_is_ended_with_all_it_started() {
        let place = tempfile::tempdir().unwrap();
        let pid = place.path().join("pid");
        let script = format!("sleep 600 & echo $! >{}; wait", pid.display());
        let words = run(&script, Duration::from_millis(400)).unwrap_err().0;
        assert!(words.starts_with("still running"), "{words}");
        let pid = std::fs::read_to_string(pid).unwrap();
        // On a busy machine a terminated process may take a while to exit.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                return;
            }
            assert!(Instant::now() < deadline, "{stat}");
        }
    }
}
