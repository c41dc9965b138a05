//! What ends a bench.

use std::io;

/// What ends a bench. What goes wrong in one row is in that row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody asked for the end.
    #[error("stopped as asked")]
    Stopped,
    /// There is no login on the host. In ssh's own words.
    #[error("{0}")]
    Login(String),
    /// The connection to the host was lost, or it does not answer.
    #[error("{0}")]
    Lost(String),
    /// The host answered, but not as a shell does.
    #[error("{0}")]
    NoShell(String),
    /// There is nothing that could be measured.
    #[error("{0}")]
    Nothing(String),
    /// There is no time for a single row.
    #[error("{0}")]
    Budget(String),
    /// The system refused something.
    #[error("{during}: {}", words_of(cause))]
    Io {
        /// What was being done, and to what.
        during: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
}

/// A result with this module's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// The system's words without its number.
pub(super) fn words_of(error: &io::Error) -> String {
    hakobu_core::error::Error::io("", error).reason()
}

impl Error {
    /// Wraps an error of the system; for `map_err`.
    pub(super) fn io(during: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let during = during.into();
        move |cause| Self::Io { during, cause }
    }
}

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Self {
        match error {
            crate::Error::Stopped => Self::Stopped,
            other => Self::Io { during: "measuring".to_owned(), cause: io::Error::other(other.to_string()) },
        }
    }
}
