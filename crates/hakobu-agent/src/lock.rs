//! The same job is not run twice at a time.

use std::io::ErrorKind as IoKind;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

use hakobu_core::error::{Error, ErrorKind, Result};

/// Held while a job is under way. It is a socket in Linux's abstract name space: it leaves no file
/// behind and is gone when the process is, however that ends.
#[derive(Debug)]
pub struct JobLock {
    _socket: UnixListener,
}

impl JobLock {
    /// Takes the lock of a job.
    ///
    /// # Errors
    /// `Locked` when another process holds it.
    pub fn take(job: &[u8; 16]) -> Result<Self> {
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
        drop(lock);
        assert!(JobLock::take(&job).is_ok());
    }
}
