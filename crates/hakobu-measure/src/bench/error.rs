//! Errors that end a bench.

use std::io;

/// An error that ends a bench. An error in one row is stored in that row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The user asked to stop.
    #[error("stopped as asked")]
    Stopped,
    /// The login on the host failed. Holds ssh's message.
    #[error("{0}")]
    Login(String),
    /// The connection to the host was lost, or the host does not answer.
    #[error("{0}")]
    Lost(String),
    /// The host answered, but not with a shell.
    #[error("{0}")]
    NoShell(String),
    /// Nothing can be measured.
    #[error("{0}")]
    Nothing(String),
    /// The time budget does not suffice for one row.
    #[error("{0}")]
    Budget(String),
    /// A system call failed.
    #[error("{during}: {}", words_of(cause))]
    Io {
        /// The operation and its object.
        during: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

/// A result with this module's [`BenchError`].
pub type BenchResult<T> = std::result::Result<T, BenchError>;

/// Returns the system's message without its number.
pub(super) fn words_of(error: &io::Error) -> String {
    hakobu_core::error::Error::io("", error).reason()
}

impl BenchError {
    /// Wraps a system error; for `map_err`.
    pub(super) fn io(during: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let during = during.into();
        move |cause| Self::Io { during, cause }
    }
}

impl From<crate::MeasureError> for BenchError {
    fn from(error: crate::MeasureError) -> Self {
        match error {
            crate::MeasureError::Stopped => Self::Stopped,
            other => Self::Io { during: "measuring".to_owned(), cause: io::Error::other(other.to_string()) },
        }
    }
}
