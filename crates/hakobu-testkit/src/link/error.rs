//! Errors of emulated links.

use std::io;

/// The reason why there is no link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The settings are invalid.
    #[error("a link cannot have these settings: {0}")]
    Settings(String),
    /// Only root can create namespaces and devices.
    #[error("emulating a link takes root")]
    NotRoot,
    /// `ip` failed.
    #[error("`{command}` failed: {message}")]
    Tool {
        /// The command.
        command: String,
        /// The message of the command, or of the failure to start it.
        message: String,
    },
    /// A system call failed.
    #[error("cannot {what}")]
    Io {
        /// The intended operation.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl LinkError {
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }
}
