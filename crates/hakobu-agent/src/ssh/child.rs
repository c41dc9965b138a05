//! The ssh process, and its end.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::stopping;
use rustix::process::{Pid, Signal, kill_process};

use super::spoken::Shown;

/// How long ssh may take to end once its input is closed, before it is told to, and then once more before it is killed.
const PATIENCE: Duration = Duration::from_secs(2);
/// The same once the user has asked to stop.
const PATIENCE_AT_A_STOP: Duration = Duration::from_millis(300);
/// How often its end is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The running ssh. Dropping it ends it: close its standard input first, if that is a pipe, then it mostly ends by itself.
#[derive(Debug)]
pub struct SshChild {
    child: Child,
    /// The other end of its standard input and output, if they are a socket.
    socket: Option<UnixStream>,
    /// Whether its words were shown, where they are.
    shown: Option<Shown>,
}

impl SshChild {
    pub(super) fn new(child: Child) -> Self {
        Self { child, socket: None, shown: None }
    }

    /// One whose standard input and output are the other end of this socket.
    pub(super) fn at(child: Child, socket: UnixStream) -> Self {
        Self { child, socket: Some(socket), shown: None }
    }

    /// The same, of whose words it is known whether they were shown.
    pub(super) fn heard(mut self, shown: Shown) -> Self {
        self.shown = Some(shown);
        self
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end for at most `limit`; `None` when it still runs then.
    ///
    /// # Errors
    /// The system's, when the process cannot be waited for.
    pub fn wait(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(status) = self.child.try_wait()? {
                // What it said last comes before what is said of its end.
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

    /// Ends it: waits a little, then sends SIGTERM (ssh then takes its proxy commands along), then SIGKILL. A pipe to it
    /// must be closed before, or the waiting is in vain; a socket is shut down here, for all who have it.
    ///
    /// # Errors
    /// The system's, when the process cannot be waited for.
    pub fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(socket) = &self.socket {
            let _ = socket.shutdown(Shutdown::Both);
        }
        if let Some(status) = self.wait(patience())? {
            return Ok(status);
        }
        self.kill()
    }

    /// Tells it to end; does not wait for that.
    pub(crate) fn tell_to_end(&mut self) {
        let ended = !matches!(self.child.try_wait(), Ok(None));
        // It was not waited for yet, so the id is still its own.
        if let (false, Some(pid)) = (ended, i32::try_from(self.id()).ok().and_then(Pid::from_raw)) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// As [`end`](Self::end), without the first wait.
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

/// "exit code 3" or "signal 9".
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => status.to_string(),
    }
}
