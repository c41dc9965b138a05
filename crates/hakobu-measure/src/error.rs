//! The error type of this crate.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// An error while generating, comparing or measuring.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MeasureError {
    /// A system call on a path failed.
    #[error("{during} {}: {cause}", path.display())]
    Io {
        /// The operation, as a verb: `create`, `read`.
        during: &'static str,
        /// The path of the operation.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The user asked to stop.
    #[error("stopped as asked")]
    Stopped,
    /// The directory for new data is not empty.
    #[error("{} exists and is not empty", .0.display())]
    NotEmpty(PathBuf),
    /// A specification that cannot be met.
    #[error("{0}")]
    Specification(String),
    /// A command could not be started or waited for.
    #[error("{during} {command}: {cause}")]
    Command {
        /// The operation: `start`, `wait for`.
        during: &'static str,
        /// The name of the program.
        command: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// A command exceeded its time limit and was killed.
    #[error("{command} was still running after {limit:?} and was killed")]
    TimedOut {
        /// The name of the program.
        command: String,
        /// The time limit.
        limit: Duration,
    },
    /// A counter file of the kernel has an unexpected format.
    #[error("{}: {what}", path.display())]
    Counters {
        /// The path of the file.
        path: PathBuf,
        /// The missing or malformed item.
        what: &'static str,
    },
}

/// A result with this crate's [`MeasureError`].
pub type MeasureResult<T> = std::result::Result<T, MeasureError>;

impl MeasureError {
    /// Wraps the error of a system call on `path`; for `map_err`.
    pub(crate) fn io<E: Into<io::Error>>(during: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        move |cause| Self::Io { during, path: path.to_path_buf(), cause: cause.into() }
    }
}
