//! Why there is no link.

use std::io;

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The settings make no sense.
    #[error("a link cannot have these settings: {0}")]
    Settings(String),
    /// Only root may make namespaces and devices.
    #[error("emulating a link takes root")]
    NotRoot,
    /// `ip` failed.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// What was run.
        command: String,
        /// What it, or starting it, answered.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {what}")]
    Io {
        /// What was to be done.
        what: &'static str,
        /// Why it could not.
        source: io::Error,
    },
}

impl Error {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
