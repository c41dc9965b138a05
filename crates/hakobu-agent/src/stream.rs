//! Standard output as a target.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use hakobu_core::error::{Error, Result};
use hakobu_core::landing::TargetFound;
use hakobu_proto::control::TargetLook;

/// What people are told instead of a path.
pub(crate) const NAME: &[u8] = b"standard output";

/// Where this process's descriptors are listed: a directory in which nobody can make a file, not
/// even an engine that lies.
const DIRECTORY: &[u8] = b"/proc/self/fd";

/// What standard output is, as a target.
pub(crate) fn look() -> TargetLook {
    TargetLook {
        found: TargetFound::Stream,
        resolved: NAME.to_vec(),
        parent: DIRECTORY.to_vec(),
        name: b"1".to_vec(),
        device: None,
        unfinished: None,
        stray: false,
    }
}

/// This process's standard output.
pub(crate) fn stdout() -> Result<OwnedFd> {
    let error = |error: io::Error| Error::io("opening standard output", &error);
    io::stdout().as_fd().try_clone_to_owned().map_err(error)
}
