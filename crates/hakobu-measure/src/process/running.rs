//! Runs a command to its end and measures its resource usage.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::MeasureError;
use crate::MeasureResult;

/// The cost of a command, including all descendants that it waited for. Processes that it left in the background are
/// not included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CommandCost {
    /// The exit status. A failed command is measured like any other.
    pub status: ExitStatus,
    /// The wall-clock time from before the start until the end.
    pub wall: Duration,
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// The largest peak resident set size of any single process in bytes (not the sum). Until `exec` the kernel counts
    /// this process's own memory for the child, so measure from a small process.
    pub peak_rss_bytes: u64,
}

impl CommandCost {
    /// Returns the sum of user and system time.
    #[must_use]
    pub fn cpu(&self) -> Duration {
        self.user + self.system
    }
}

/// A command that is being measured. If dropped before it is finished, the command is killed.
#[derive(Debug)]
pub struct MeasuredCommand {
    name: String,
    child: Child,
    handle: OwnedFd,
    started: Instant,
    /// True once the child is reaped; its process ID may then belong to another process.
    reaped: bool,
}

/// Runs `command` to its end. Its standard streams are those of `command`. A pipe that nobody reads would block it;
/// use [`MeasuredCommand::start`] for that.
///
/// # Errors
///
/// [`MeasureError::Command`] if it cannot be started.
pub fn measure(command: &mut Command) -> MeasureResult<CommandCost> {
    MeasuredCommand::start(command)?.finish()
}

impl MeasuredCommand {
    /// Starts `command`.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Command`] if that fails.
    pub fn start(command: &mut Command) -> MeasureResult<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        let started = Instant::now();
        let started_child = command.spawn().and_then(|mut child| match watch(&child) {
            Ok(handle) => Ok((child, handle)),
            Err(error) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        });
        match started_child {
            Ok((child, handle)) => Ok(Self { name, child, handle, started, reaped: false }),
            Err(cause) => Err(MeasureError::Command { during: "start", command: name, cause }),
        }
    }

    /// Returns the process ID, for [`peak_rss_bytes`](super::peak_rss_bytes) or a signal.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the child, to take its pipes. The caller must not wait for it.
    pub fn child_mut(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Waits for at most `wait`, and returns true if the command has ended. It still has to be finished.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Command`] if waiting fails.
    pub fn ended_within(&self, wait: Duration) -> MeasureResult<bool> {
        self.wait_for_end(Some(self.started.elapsed() + wait)).map_err(|cause| self.wait_error(cause))
    }

    /// Waits for the end.
    ///
    /// # Errors
    ///
    /// [`MeasureError::Command`] if the child was reaped elsewhere.
    pub fn finish(self) -> MeasureResult<CommandCost> {
        self.finish_by(None)
    }

    /// Waits for the end, at most until `limit` has passed since the start.
    ///
    /// # Errors
    ///
    /// The errors of [`MeasuredCommand::finish`], and [`MeasureError::TimedOut`]. The process is killed then, but processes that it
    /// started may continue.
    pub fn finish_within(self, limit: Duration) -> MeasureResult<CommandCost> {
        self.finish_by(Some(limit))
    }

    fn finish_by(mut self, limit: Option<Duration>) -> MeasureResult<CommandCost> {
        // Closes standard input, since a filter would otherwise wait forever.
        drop(self.child.stdin.take());
        let ended = self.wait_for_end(limit).map_err(|cause| self.wait_error(cause))?;
        if let (false, Some(limit)) = (ended, limit) {
            return Err(MeasureError::TimedOut { command: self.name.clone(), limit });
        }
        let wall = self.started.elapsed();
        let usage =
            hakobu_sys::process::wait_with_usage(self.pid()).map_err(|cause| self.wait_error(cause))?;
        self.reaped = true;
        Ok(CommandCost {
            status: usage.status,
            wall,
            user: usage.user,
            system: usage.system,
            peak_rss_bytes: usage.peak_rss_bytes,
        })
    }

    /// Waits without reaping; returns false if `limit` is reached first.
    fn wait_for_end(&self, limit: Option<Duration>) -> io::Result<bool> {
        loop {
            let left = limit.map(|limit| limit.saturating_sub(self.started.elapsed()));
            let left = left.map(|left| Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            });
            let mut handle = [PollFd::new(&self.handle, PollFlags::IN)];
            match poll(&mut handle, left.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait_error(&self, cause: io::Error) -> MeasureError {
        MeasureError::Command { during: "wait for", command: self.name.clone(), cause }
    }
}

impl Drop for MeasuredCommand {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn watch(child: &Child) -> io::Result<OwnedFd> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidData)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

#[cfg(test)]
mod tests {
    use super::super::peak_rss_bytes;
    use super::*;
    use std::io::{Read, Write};
    use std::process::Stdio;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn cpu_of_a_child_and_its_children_is_counted() {
        // The work is done by a grandchild that the shell waits for.
        let script = "head -c 30000000 /dev/zero | cat > /dev/null; exit 3";
        let measured = measure(&mut shell(script)).unwrap();
        assert_eq!(measured.status.code(), Some(3));
        assert!(measured.cpu() > Duration::ZERO);
        assert!(measured.wall > Duration::ZERO);
        assert!(measured.peak_rss_bytes > 100_000);
    }

    #[test]
    fn peak_memory_is_the_childs() {
        // dd holds its whole 100 MB block in memory at once.
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", "bs=100M", "count=1"]).stderr(Stdio::null());
        let measured = measure(&mut command).unwrap();
        assert!(measured.status.success());
        assert!(measured.peak_rss_bytes > 100_000_000, "{measured:?}");
        assert!(measured.peak_rss_bytes < 200_000_000, "{measured:?}");
    }

    #[test]
    fn pipes_can_be_used_meanwhile() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut running = MeasuredCommand::start(&mut command).unwrap();
        let mut output = running.child_mut().stdout.take().unwrap();
        let input = running.child_mut().stdin.as_mut().unwrap();
        input.write_all(b"through").unwrap();
        let mut text = [0; 7];
        output.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"through");
        // It has answered, so it has memory. Finishing closes its input.
        assert!(peak_rss_bytes(running.pid()).unwrap() > 100_000);
        assert!(running.finish().unwrap().status.success());
    }

    #[test]
    fn what_takes_too_long_is_killed() {
        let running = MeasuredCommand::start(Command::new("sleep").arg("1000")).unwrap();
        let pid = running.pid();
        let error = running.finish_within(Duration::from_millis(50));
        assert!(matches!(error, Err(MeasureError::TimedOut { .. })));
        assert!(peak_rss_bytes(pid).is_err());
    }

    #[test]
    fn what_ends_in_time_is_measured() {
        let running = MeasuredCommand::start(&mut Command::new("true")).unwrap();
        let measured = running.finish_within(Duration::from_secs(1000)).unwrap();
        assert!(measured.status.success());
    }

    #[test]
    fn one_can_look_before_it_is_finished() {
        let mut command = Command::new("cat");
        command.stdin(Stdio::piped());
        let mut running = MeasuredCommand::start(&mut command).unwrap();
        assert!(!running.ended_within(Duration::from_millis(20)).unwrap());
        drop(running.child_mut().stdin.take());
        assert!(running.ended_within(Duration::from_secs(1000)).unwrap());
        assert!(running.ended_within(Duration::ZERO).unwrap());
        assert!(running.finish().unwrap().status.success());
    }

    #[test]
    fn a_missing_program_is_an_error() {
        let error = measure(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.to_string().starts_with("start no-such-program-here"));
    }
}
