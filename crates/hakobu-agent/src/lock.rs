//! Prevents two runs of one job at the same time.

use std::io::ErrorKind as IoKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_core::error::{Error, ErrorKind, Result};

/// The time to wait for another holder of the lock: an agent whose connection was lost needs a moment to record its
/// progress, and the same command may be typed again at once.
const WAITED_FOR: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(50);

/// The lock of a job in progress. It is a socket in Linux's abstract name space: it leaves no file behind and
/// disappears with the process, however that ends.
#[derive(Debug)]
pub struct JobLock {
    _socket: UnixListener,
}

impl JobLock {
    /// Takes the lock of a job. Waits for it for up to three seconds.
    ///
    /// # Errors
    /// `Locked` if another process holds it.
    pub fn take(job: &[u8; 16]) -> Result<Self> {
        let began = Instant::now();
        loop {
            match Self::try_take(job) {
                Err(error) if error.kind == ErrorKind::Locked && began.elapsed() < WAITED_FOR => sleep(PAUSE),
                other => return other,
            }
        }
    }

    fn try_take(job: &[u8; 16]) -> Result<Self> {
        let uid = rustix::process::geteuid().as_raw();
        let name: String = job.iter().map(|byte| format!("{byte:02x}")).collect();
        let socket = SocketAddr::from_abstract_name(format!("hakobu/job/{uid}/{name}"))
            .and_then(|address| UnixListener::bind_addr(&address));
        match socket {
            Ok(socket) => Ok(Self { _socket: socket }),
            Err(error) if error.kind() == IoKind::AddrInUse => {
                let words = "the same copy is already running";
                Err(Error::new(ErrorKind::Locked, "locking the job", words))
            }
            Err(error) => Err(Error::io("locking the job", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_locked_until_it_ends() {
        let (job, other) = (*b"a job of a test.", *b"another job, it.");
        let lock = JobLock::take(&job).unwrap();
        assert_eq!(JobLock::take(&job).unwrap_err().kind, ErrorKind::Locked);
        assert!(JobLock::take(&other).is_ok());
        // A job that is about to end is waited for.
        let ends = std::thread::spawn(move || {
            sleep(Duration::from_millis(300));
            drop(lock);
        });
        assert!(JobLock::take(&job).is_ok());
        ends.join().unwrap();
    }
}
