//! One error type for everything that can go wrong while data moves.
//!
//! An [`Error`] says what kind of thing happened, during which step, at which path, why, and what to do about it. Its kind and its
//! step decide: whether trying again can help, and which exit code the program ends with. Its words are for people, and nothing is
//! decided by them.

use std::borrow::Cow;

use crate::path::lossy;

/// The result of anything that can fail while data moves.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What happened. The kind decides the exit code and whether a retry can help.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Something is there that must not be overwritten by this kind of entry.
    Conflict,
    /// The user, or the other side, asked to stop.
    Cancelled,
    /// The connection to the other side is gone; the work may be tried again.
    ConnectionLost,
    /// Data arrived or was stored differently from what was sent.
    Corrupt,
    /// The peer asked for something that its grant does not allow.
    BeyondGrant,
    /// An error of the operating system that has no kind of its own.
    Io,
    /// Another run of the same job is under way.
    Locked,
    /// The file system has no inode left.
    NoInodes,
    /// The file system, or the quota, is full.
    NoSpace,
    /// What was named is not there.
    NotFound,
    /// The system refused access.
    PermissionDenied,
    /// The peer said something that the protocol does not allow.
    Protocol,
    /// The file system is read-only.
    ReadOnly,
    /// Carrying on would destroy data.
    Refused,
    /// `--require` asks for something that cannot be had here.
    Requirement,
    /// The source changed while it was read.
    SourceChanged,
    /// The source went away between listing and reading.
    SourceVanished,
    /// The other side did not answer in time.
    TimedOut,
    /// This kind of entry or operation is not supported here.
    Unsupported,
    /// The request itself is wrong.
    Usage,
    /// What was named can be written to, and neither listed nor read.
    WriteOnly,
}

/// The steps of a run that decide what follows an error in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Step {
    /// Any other step.
    #[default]
    Other,
    /// Logging in on another machine, and starting the agent or the server there. Nothing is under way yet.
    Login,
    /// Making the data connections of a run. Another way may work.
    Connect,
    /// Writing content at the target.
    Write,
    /// Asking for what a restricted key does not allow. No other user and no sudo helps.
    Restriction,
}

impl Step {
    const ALL: [Self; 5] = [Self::Other, Self::Login, Self::Connect, Self::Write, Self::Restriction];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Login => "login",
            Self::Connect => "connect",
            Self::Write => "write",
            Self::Restriction => "restriction",
        }
    }

    /// The step with this name; `Other` where this version knows none.
    pub fn from_name(name: &str) -> Self {
        Self::ALL.into_iter().find(|step| step.name() == name).unwrap_or_default()
    }

    /// Returns true if nothing depends on it.
    pub fn is_other(&self) -> bool {
        *self == Self::Other
    }
}

/// Something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// What kind of thing happened.
    pub kind: ErrorKind,
    /// The step that failed, as far as it decides anything.
    pub step: Step,
    /// The step that failed in words, as a gerund with its object: "reading", "creating the directory".
    pub during: Cow<'static, str>,
    /// Where: a path or location, as bytes. Empty when there is no such place.
    pub at: Vec<u8>,
    /// The cause: what the system or library said, in plain words.
    pub detail: String,
    /// What to do about it, where the cause does not say.
    pub hint: Option<Box<str>>,
}

impl Error {
    /// An error of `kind` during a step; add the place with [`Error::at`].
    pub fn new(kind: ErrorKind, during: &'static str, detail: impl Into<String>) -> Self {
        let (step, hint) = (Step::Other, None);
        Self { kind, step, during: Cow::Borrowed(during), at: Vec::new(), detail: detail.into(), hint }
    }

    /// The same error in one of the steps that decide.
    #[must_use]
    pub fn in_step(mut self, step: Step) -> Self {
        self.step = step;
        self
    }

    /// The same error with what to do about it. Further hints follow those that it has.
    #[must_use]
    pub fn hint(mut self, words: impl Into<Box<str>>) -> Self {
        self.hint = Some(match self.hint {
            None => words.into(),
            Some(before) => format!("{before}; {}", words.into()).into(),
        });
        self
    }

    /// The cause and what to do about it, in one.
    pub fn reason(&self) -> String {
        match &self.hint {
            Some(hint) if self.detail.is_empty() => hint.clone().into_string(),
            Some(hint) => format!("{}; {hint}", self.detail),
            None => self.detail.clone(),
        }
    }

    /// The same error with the place where it happened, unless it already has one.
    #[must_use]
    pub fn at(mut self, place: impl AsRef<[u8]>) -> Self {
        if self.at.is_empty() {
            self.at = place.as_ref().to_vec();
        }
        self
    }

    /// An error of the operating system, its kind read off the error number.
    pub fn io(during: &'static str, error: &std::io::Error) -> Self {
        let (cause, hint) = words_of(error);
        Self { hint: hint.map(Box::from), ..Self::new(kind_of(error), during, cause) }
    }

    /// Whether the same thing may succeed when it is tried again after reconnecting.
    pub fn may_retry(&self) -> bool {
        matches!(self.kind, ErrorKind::ConnectionLost | ErrorKind::TimedOut)
    }

    /// Whether every further entry would fail in the same way, so that carrying on is pointless.
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
        )
    }

    /// Whether the source, not hakobu or the target, is the cause: it changed or vanished.
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

/// The kind that belongs to an error of the operating system.
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

/// What `ESTALE` of a network file system means, and what to do.
const STALE: (&str, &str) = (
    "the file server no longer knows it (stale file handle): it was removed or replaced there",
    "if that happens to everything, mount it again",
);

/// The number of `EPERM`, on every Unix.
const EPERM: i32 = 1;
/// What it mostly means.
const NOT_PERMITTED: &str =
    "operation not permitted: that takes root, or it is immutable or append-only (see lsattr)";

/// The system's words without Rust's "(os error N)", or better ones; and what to do, where that is known.
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
