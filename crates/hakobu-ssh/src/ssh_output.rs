//! The standard error output of an ssh process, kept for error messages.

use std::io::{ErrorKind, Read};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::printable;

/// The number of bytes of ssh's output that are kept.
pub(super) const SAID_BYTES_MAX: usize = 4096;
/// The time to wait for the last output of an ssh that has ended.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(300);

/// The last output of an ssh process. Empty for a first session, whose output is shown to the user.
#[derive(Debug, Clone, Default)]
pub struct SshOutput(Arc<Mutex<SshWords>>);

#[derive(Debug, Default)]
struct SshWords {
    bytes: Vec<u8>,
    are_all: bool,
}

impl SshOutput {
    /// Returns the last line so far that states a cause, or else the last line; printable, and empty if there is none.
    #[must_use]
    pub fn last_line(&self) -> String {
        let said = self.lock();
        let mut lines =
            said.bytes.split(|&byte| byte == b'\n').map(printable).rev().filter(|line| !line.is_empty());
        let last = lines.next().unwrap_or_default();
        // The line after it only reports that something failed.
        let why = lines.find(|line| line.starts_with("channel ") && line.contains("open failed"));
        why.unwrap_or(last)
    }

    /// Returns true if there will be no more output. A connection may be seen to end before the output that explains it
    /// is read.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.lock().are_all
    }

    /// Returns the reason why an ssh that has ended failed.
    pub(super) fn last_words(&self) -> String {
        let deadline = Instant::now() + LAST_WORDS_LIMIT;
        while !self.is_all() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        match self.last_line() {
            line if line.is_empty() => "ssh did not say why".to_owned(),
            line => format!("ssh says {line:?}"),
        }
    }

    pub(super) fn add(&self, bytes: &[u8]) {
        let mut said = self.lock();
        said.bytes.extend_from_slice(bytes);
        let surplus = said.bytes.len().saturating_sub(SAID_BYTES_MAX);
        said.bytes.drain(..surplus);
    }

    pub(super) fn end(&self) {
        self.lock().are_all = true;
    }

    fn lock(&self) -> MutexGuard<'_, SshWords> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes ssh's output to `each` as it arrives, until its end.
pub(super) fn each_piece(stderr: Option<ChildStderr>, mut each: impl FnMut(&[u8])) {
    let Some(mut stderr) = stderr else { return };
    let mut piece = [0; 1024];
    loop {
        match stderr.read(&mut piece) {
            Ok(0) => return,
            Ok(count) => each(piece.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}
