//! Runs work in network namespaces that have a name under `/run/netns`.
//!
//! A thread that has entered a namespace looks like any other, and would take the namespace along when it returns to
//! a pool. So work in a namespace gets its own thread, which ends with it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::resume_unwind;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The directory in which `ip netns` keeps the names.
pub const DIRECTORY: &str = "/run/netns";

/// Opens the namespace `name`, which must be a single path component. The namespace exists as long as the descriptor
/// is open, even if its name is removed.
///
/// # Errors
/// `InvalidInput` if `name` is not a single component, otherwise the error of opening it.
pub fn open(name: &str) -> io::Result<OwnedFd> {
    if name.is_empty() || name == "." || name == ".." || name.contains('/') {
        let message = format!("not a name of a namespace: {name:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let path = Path::new(DIRECTORY).join(name);
    Ok(rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Runs `work` in the namespace `name` on a new thread and waits for it. Sockets and devices that it opens remain in
/// the namespace, even if they are returned. A panic of `work` is resumed in the caller.
///
/// # Errors
/// If there is no such namespace, no thread can be created, or entering is not permitted (it requires
/// `CAP_SYS_ADMIN`).
pub fn run_in<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let namespace = open(name)?;
    std::thread::scope(|scope| {
        let thread =
            std::thread::Builder::new().name("in-namespace".into()).spawn_scoped(scope, move || {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                drop(namespace);
                Ok(work())
            })?;
        thread.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

#[cfg(test)]
mod tests {
    use super::{open, run_in};

    #[test]
    fn only_plain_names_are_opened() {
        for name in ["", ".", "..", "../passwd", "a/b"] {
            let error = open(name).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput, "{name:?}");
        }
    }

    #[test]
    fn work_does_not_run_outside_a_namespace_that_is_missing() {
        let mut ran = false;
        let result = run_in("hakobu-there-is-no-such-one", || ran = true);
        assert_eq!(result.unwrap_err().kind(), std::io::ErrorKind::NotFound, "the name does not exist");
        assert!(!ran);
    }
}
