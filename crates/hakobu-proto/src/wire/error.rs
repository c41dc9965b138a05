//! The wire format of errors.

use serde::{Deserialize, Serialize};

use super::bounded::BoundedBytes;
use super::mirror::{Mirror, mirror};

mirror! {
    struct Error of hakobu_core::error::Error {
        kind: ErrorKind,
        step: ErrorStep,
        during: String,
        at: BoundedBytes,
        detail: String,
        hint: Option<String>,
    }
}

mirror! {
    enum ErrorKind of hakobu_core::error::ErrorKind {
        Conflict,
        Cancelled,
        ConnectionLost,
        Corrupt,
        BeyondGrant,
        Io,
        Locked,
        NoInodes,
        NoSpace,
        NotFound,
        PermissionDenied,
        Protocol,
        ReadOnly,
        Refused,
        Requirement,
        SourceChanged,
        SourceVanished,
        TimedOut,
        Unsupported,
        Usage,
        WriteOnly,
        Unauthenticated,
    }
}

mirror! {
    enum ErrorStep of hakobu_core::error::ErrorStep {
        Other,
        Login,
        Connect,
        Write,
        Restriction,
        Request,
    }
}

/// An error in the form that all versions of the protocol share: without its step, and with its hint appended to its
/// cause.
#[derive(Serialize, Deserialize)]
pub(crate) struct RefusedError {
    kind: ErrorKind,
    during: String,
    at: BoundedBytes,
    detail: String,
}

impl Mirror<hakobu_core::error::Error> for RefusedError {
    fn of(value: &hakobu_core::error::Error) -> Self {
        let Error { kind, step: _, during, at, detail: _, hint: _ } = Error::of(value);
        Self { kind, during, at, detail: value.reason() }
    }

    fn into_value(self) -> hakobu_core::error::Error {
        let Self { kind, during, at, detail } = self;
        Error { kind, step: ErrorStep::Other, during, at, detail, hint: None }.into_value()
    }
}
