//! Errors of PostgreSQL as errors of the program.

use std::error::Error as _;

use hakobu_core::error::{Error, ErrorKind};
use tokio_postgres::error::SqlState;

/// Returns the error with its kind and a remedy. Those after which another connection may succeed are `ConnectionLost`.
pub(super) fn error_during(during: &'static str, error: &tokio_postgres::Error) -> Error {
    let Some(refusal) = error.as_db_error() else {
        return match is_lost(error) {
            true => Error::new(ErrorKind::ConnectionLost, during, words(error))
                .hint("see that PostgreSQL runs, and that this machine reaches it"),
            false => Error::new(ErrorKind::Io, during, words(error)),
        };
    };
    let code = refusal.code();
    let (kind, hint) = match code {
        code if ends_session(code) => (ErrorKind::ConnectionLost, None),
        // The transaction met another one: it may be made again.
        &SqlState::T_R_SERIALIZATION_FAILURE
        | &SqlState::T_R_DEADLOCK_DETECTED
        | &SqlState::LOCK_NOT_AVAILABLE => (ErrorKind::ConnectionLost, None),
        &SqlState::DISK_FULL => {
            (ErrorKind::NoSpace, Some("make space for PostgreSQL: nothing that was committed is lost"))
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => (
            ErrorKind::Unauthenticated,
            Some("put the password into a file that passfile=FILE in the URL or PGPASSFILE names"),
        ),
        &SqlState::INSUFFICIENT_PRIVILEGE => (
            ErrorKind::PermissionDenied,
            Some("let the user own the database, or grant it CREATE in the schema"),
        ),
        &SqlState::INVALID_CATALOG_NAME => {
            (ErrorKind::NotFound, Some("create the database first, as with createdb"))
        }
        &SqlState::READ_ONLY_SQL_TRANSACTION => (
            ErrorKind::ReadOnly,
            Some("name the primary server, or all of them with target_session_attrs=read-write"),
        ),
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => {
            (ErrorKind::Corrupt, Some("restore the database from a backup"))
        }
        _ => (ErrorKind::Io, None),
    };
    let error = Error::new(kind, during, refusal.message());
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Returns true if the server ended the session, or does not take one now.
fn ends_session(code: &SqlState) -> bool {
    let states = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::TOO_MANY_CONNECTIONS,
        SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
        SqlState::QUERY_CANCELED,
    ];
    states.contains(code) || code.code().starts_with("08")
}

/// Returns true if the connection is gone.
fn is_lost(error: &tokio_postgres::Error) -> bool {
    if error.is_closed() {
        return true;
    }
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref::<std::io::Error>() {
            // Certificates that are not valid are errors of this kind as well.
            return error.kind() != std::io::ErrorKind::InvalidData
                && error.kind() != std::io::ErrorKind::InvalidInput;
        }
        source = cause.source();
    }
    false
}

/// Returns the words of the library with their causes. None of them has a value of the URL.
fn words(error: &tokio_postgres::Error) -> String {
    let (mut words, mut source) = (error.to_string(), error.source());
    while let Some(cause) = source {
        let cause_words = cause.to_string();
        if !words.contains(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        source = cause.source();
    }
    words
}
