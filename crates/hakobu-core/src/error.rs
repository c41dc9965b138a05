//! The error type of all crates: the kind of failure, the step, the path, the cause, and a hint for the user.
//!
//! The kind and the step decide whether a retry can help, and which exit code the program ends with. The texts are for
//! people; nothing is decided by them.

use std::borrow::Cow;

use crate::path::lossy;

/// The result of any fallible operation of a transfer.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of failure. It decides the exit code and whether a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// An existing entry must not be overwritten by this kind of entry.
    Conflict,
    /// The user or the peer asked to stop.
    Cancelled,
    /// The connection to the peer is lost; the work may be retried.
    ConnectionLost,
    /// Data was received or stored differently from what was sent.
    Corrupt,
    /// The peer requested something that its grant does not allow.
    BeyondGrant,
    /// An error of the operating system without a kind of its own.
    Io,
    /// Another run of the same job is in progress.
    Locked,
    /// The file system has no free inodes.
    NoInodes,
    /// The file system or the quota is full.
    NoSpace,
    /// The named object does not exist.
    NotFound,
    /// The system denied access.
    PermissionDenied,
    /// The peer violated the protocol.
    Protocol,
    /// The file system is read-only.
    ReadOnly,
    /// Continuing would destroy data.
    Refused,
    /// `--require` asks for something that is not available here.
    Requirement,
    /// The source changed while it was read.
    SourceChanged,
    /// The source disappeared between listing and reading.
    SourceVanished,
    /// The peer did not answer in time.
    TimedOut,
    /// The store does not accept the credentials, or has none to accept.
    Unauthenticated,
    /// This kind of entry or operation is not supported here.
    Unsupported,
    /// The request itself is invalid.
    Usage,
    /// The named object can be written to, but neither listed nor read.
    WriteOnly,
}

/// The steps of a run that affect how an error is handled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorStep {
    /// Any other step.
    #[default]
    Other,
    /// Logging in on another machine and starting the agent or server there. No work has begun.
    Login,
    /// Opening the data connections of a run. Another transport may work.
    Connect,
    /// Writing content at the target.
    Write,
    /// Requesting something that a restricted key does not allow. Neither another user nor sudo helps.
    Restriction,
    /// Sending a request to a store, which was repeated for as long as the user allows.
    Request,
}

impl ErrorStep {
    const ALL: [Self; 6] =
        [Self::Other, Self::Login, Self::Connect, Self::Write, Self::Restriction, Self::Request];

    /// Returns the name used in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Login => "login",
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Restriction => "restriction",
            Self::Request => "request",
        }
    }

    /// Returns the step with this name; `Other` if this version does not know it.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|step| step.name() == name).unwrap_or_default()
    }

    /// Returns true if no handling depends on this step.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// An error with its kind, step, place, cause and hint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The step that failed, if it affects the handling.
    pub step: ErrorStep,
    /// The step that failed in words, as a gerund with its object: "reading", "creating the directory".
    pub during: Cow<'static, str>,
    /// The path or location as bytes; empty if there is none.
    pub at: Vec<u8>,
    /// The cause in plain words, as reported by the system or library.
    pub detail: String,
    /// The remedy, if the cause does not imply it.
    pub hint: Option<Box<str>>,
}

impl Error {
    /// Creates an error of `kind` during a step. Add the place with [`Error::at`].
    pub fn new(kind: ErrorKind, during: &'static str, detail: impl Into<String>) -> Self {
        let (step, hint) = (ErrorStep::Other, None);
        Self { kind, step, during: Cow::Borrowed(during), at: Vec::new(), detail: detail.into(), hint }
    }

    /// Sets a step that affects the handling.
    #[must_use]
    pub fn in_step(mut self, step: ErrorStep) -> Self {
        self.step = step;
        self
    }

    /// Adds a remedy after existing ones.
    #[must_use]
    pub fn hint(mut self, words: impl Into<Box<str>>) -> Self {
        self.hint = Some(match self.hint {
            None => words.into(),
            Some(before) => format!("{before}; {}", words.into()).into(),
        });
        self
    }

    /// Returns the cause and the remedy in one text.
    pub fn reason(&self) -> String {
        match &self.hint {
            Some(hint) if self.detail.is_empty() => hint.clone().into_string(),
            Some(hint) => format!("{}; {hint}", self.detail),
            None => self.detail.clone(),
        }
    }

    /// Sets the place of the failure, unless there already is one.
    #[must_use]
    pub fn at(mut self, place: impl AsRef<[u8]>) -> Self {
        if self.at.is_empty() {
            self.at = place.as_ref().to_vec();
        }
        self
    }

    /// Creates an error from one of the operating system, with the kind derived from the error number.
    pub fn io(during: &'static str, error: &std::io::Error) -> Self {
        let (cause, hint) = words_of(error);
        Self { hint: hint.map(Box::from), ..Self::new(kind_of(error), during, cause) }
    }

    /// Returns true if a retry after reconnecting may succeed.
    pub fn may_retry(&self) -> bool {
        matches!(self.kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut)
    }

    /// Returns true if every further entry would fail in the same way, so that continuing is pointless.
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Cancelled
                | ErrorKind::ConnectionLost
                | ErrorKind::BeyondGrant
                | ErrorKind::NoInodes
                | ErrorKind::NoSpace
                | ErrorKind::Protocol
                | ErrorKind::ReadOnly
                | ErrorKind::TimedOut
                | ErrorKind::Unauthenticated
        )
    }

    /// Returns true if the source is the cause, not hakobu or the target: it changed or vanished.
    pub fn is_source_change(&self) -> bool {
        matches!(self.kind, ErrorKind::SourceChanged | ErrorKind::SourceVanished)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.during)?;
        if !self.at.is_empty() {
            write!(f, " {}", lossy(&self.at))?;
        }
        let reason = self.reason();
        if !reason.is_empty() {
            write!(f, ": {reason}")?;
        }
        Ok(())
    }
}

/// Returns the kind for an error of the operating system.
fn kind_of(error: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as Std;
    match error.kind() {
        Std::NotFound => ErrorKind::NotFound,
        Std::PermissionDenied => ErrorKind::PermissionDenied,
        Std::StorageFull | Std::QuotaExceeded => ErrorKind::NoSpace,
        Std::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        Std::TimedOut => ErrorKind::TimedOut,
        Std::IsADirectory | Std::NotADirectory | Std::DirectoryNotEmpty => ErrorKind::Conflict,
        Std::ConnectionReset | Std::ConnectionAborted | Std::BrokenPipe | Std::UnexpectedEof => {
            ErrorKind::ConnectionLost
        }
        Std::Unsupported => ErrorKind::Unsupported,
        _ => ErrorKind::Io,
    }
}

/// The cause and remedy for `ESTALE` from a network file system.
const STALE: (&str, &str) = (
    "the file server no longer knows it (stale file handle): it was removed or replaced there",
    "if that happens to everything, mount it again",
);

/// The number of `EPERM` on every Unix.
const EPERM: i32 = 1;
/// The usual meaning of `EPERM`.
const NOT_PERMITTED: &str =
    "operation not permitted: that takes root, or it is immutable or append-only (see lsattr)";

/// Returns the cause in the system's words without Rust's "(os error N)", or in better words, and the remedy if known.
fn words_of(error: &std::io::Error) -> (String, Option<&'static str>) {
    if error.kind() == std::io::ErrorKind::StaleNetworkFileHandle {
        return (STALE.0.to_owned(), Some(STALE.1));
    }
    if error.raw_os_error() == Some(EPERM) {
        return (NOT_PERMITTED.to_owned(), None);
    }
    let words = error.to_string();
    let words = match words.find(" (os error") {
        Some(end) => words[..end].to_lowercase(),
        None => words,
    };
    (words, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_os_error_keeps_its_kind_and_says_where() {
        let full = std::io::Error::from_raw_os_error(28);
        let error = Error::io("writing", &full).at("a/b\n");
        assert_eq!(error.kind, ErrorKind::NoSpace);
        assert!(error.is_fatal());
        assert_eq!(error.to_string(), "writing a/b\\n: no space left on device");
        let held = Error::io("renaming", &std::io::Error::from_raw_os_error(EPERM));
        assert_eq!(held.kind, ErrorKind::PermissionDenied);
        assert!(held.detail.contains("lsattr"), "{held}");
    }

    #[test]
    fn the_first_place_wins() {
        let error = Error::new(ErrorKind::Io, "reading", "").at("inner").at("outer");
        assert_eq!(error.at, b"inner");
    }
}
