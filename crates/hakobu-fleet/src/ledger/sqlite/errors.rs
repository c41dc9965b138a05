//! Errors of SQLite as errors of the program.

use hakobu_core::error::{Error, ErrorKind};
use rusqlite::ErrorCode;

/// Returns the error for something that could not be read.
pub(super) fn read_error(error: rusqlite::Error) -> Error {
    error_during("reading the ledger", error)
}

/// Returns the error for something that could not be written. Nothing of the transaction is kept.
pub(super) fn write_error(error: rusqlite::Error) -> Error {
    error_during("writing the ledger", error)
}

/// Returns the error for kept values that are not as this program writes them.
pub(super) fn corrupt(detail: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, "reading the ledger", detail.to_string()).hint(RESTORE)
}

const RESTORE: &str = "keep a copy of the file, and restore the ledger from a backup";

/// Returns the error with its kind and a remedy.
pub(super) fn error_during(during: &'static str, error: rusqlite::Error) -> Error {
    let (kind, hint) = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => (
            ErrorKind::NoSpace,
            Some(
                "make space in its file system: nothing that was committed is lost, and brokers keep what they have",
            ),
        ),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            (ErrorKind::Locked, Some("another process uses the ledger: stop it first"))
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => (ErrorKind::Corrupt, Some(RESTORE)),
        Some(ErrorCode::ReadOnly) => (ErrorKind::ReadOnly, Some("the file and its folder must be writable")),
        Some(ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied) => {
            (ErrorKind::PermissionDenied, None)
        }
        Some(ErrorCode::CannotOpen) => {
            (ErrorKind::Io, Some("its folder must exist and be writable for this user"))
        }
        Some(ErrorCode::SystemIoFailure) => (
            ErrorKind::Io,
            Some("see that its file system has space and can be written, and that the disk works"),
        ),
        _ => (ErrorKind::Io, None),
    };
    let error = Error::new(kind, during, words(error));
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Returns the words of SQLite, without the code in front.
fn words(error: rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message,
        other => other.to_string(),
    }
}
