//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What can go wrong while generating, comparing or measuring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call on a path failed.
    #[error("{during} {}: {cause}", path.display())]
    Io {
        /// What was being done, as a verb: `create`, `read`.
        during: &'static str,
        /// The path it was done to.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// Someone asked for the end of the work.
    #[error("stopped as asked")]
    Stopped,
    /// The place for new data holds something already.
    #[error("{} exists and is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A specification that cannot be met.
    #[error("{0}")]
    Specification(String),
    /// A command could not be started or waited for.
    #[error("{during} {command}: {cause}")]
    Command {
        /// What was being done: `start`, `wait for`.
        during: &'static str,
        /// The program's name.
        command: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A command ran longer than allowed and was killed.
    #[error("{command} was still running after {limit:?} and was killed")]
    TimedOut {
        /// The program's name.
        command: String,
        /// The time it was given.
        limit: Duration,
    },
    /// A counter file of the kernel did not read as expected.
    #[error("{}: {what}", path.display())]
    Counters {
        /// The file.
        path: PathBuf,
        /// What was missing or malformed.
        what: &'static str,
    },
}

/// A result with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wraps an error of a system call on `path`; for `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(during: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |cause| Self::Io { during, path: path.to_path_buf(), cause: cause.into() }
    }
}
