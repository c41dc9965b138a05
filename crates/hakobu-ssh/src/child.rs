//! The ssh process, and how it is ended.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::stopping;
use rustix::process::{Pid, Signal, kill_process};

use super::peer_output::ShownFlag;

/// The time for ssh to end once its input is closed, and again after SIGTERM before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// The time instead once the user has asked to stop.
const PATIENCE_AT_A_STOP: Duration = Duration::from_millis(300);
/// The interval at which its end is checked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The running ssh. Dropping it ends it. If its standard input is a pipe, close it first, so that ssh usually ends by
/// itself.
#[derive(Debug)]
pub struct SshChild {
    child: Child,
    /// The other end of its standard input and output, if they are a socket.
    socket: Option<UnixStream>,
    /// The state of its output, if that is shown to the user.
    shown: Option<ShownFlag>,
}

impl SshChild {
    pub(super) fn new(child: Child) -> Self {
        Self { child, socket: None, shown: None }
    }

    /// Returns the process whose standard input and output are the other end of this socket.
    pub(super) fn at(child: Child, socket: UnixStream) -> Self {
        Self { child, socket: Some(socket), shown: None }
    }

    /// Adds the state of its shown output.
    pub(super) fn heard(mut self, shown: ShownFlag) -> Self {
        self.shown = Some(shown);
        self
    }

    /// Returns its process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end for at most `limit`. Returns `None` if it still runs.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                // Its last output must be shown before a message about its end.
                if let Some(shown) = self.shown.take() {
                    shown.wait();
                }
                return Ok(Some(status));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Ends it: waits a little, then sends SIGTERM (ssh then ends its proxy commands too), then SIGKILL. A pipe to it
    /// must be closed before, or the wait is in vain; a socket is shut down here, for all who hold it.
    ///
    /// # Errors
    /// The process cannot be waited for.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(status) = self.wait(patience())? {
            return Ok(status);
        }
        self.kill()
    }

    /// Sends SIGTERM without waiting for the end.
    pub fn tell_to_end(&mut self) {
        let ended = !matches!(self.child.try_wait(), Ok(None));
        // It has not been waited for, so the process ID is still its own.
        if let (false, Some(pid)) = (ended, i32::try_from(self.id()).ok().and_then(Pid::from_raw)) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Ends it like [`end`](Self::end), without the first wait.
    pub(super) fn kill(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        self.tell_to_end();
        if let Some(status) = self.wait(patience())? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }
}

impl Drop for SshChild {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn patience() -> Duration {
    if stopping::is_asked() { PATIENCE_AT_A_STOP } else { PATIENCE }
}

/// Returns "exit code 3" or "signal 9".
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
