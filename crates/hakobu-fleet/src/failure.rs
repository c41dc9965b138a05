//! Failures of a run, as rows: what could not be copied, and why.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Failure;
use hakobu_core::path::PATH_BYTES_MAX;

use crate::ids::RowNumber;
use crate::limits::{check_at_most, shortened};
use crate::names::BrokerName;

/// The maximum length of a path of a failure in bytes: one as the user typed it may have a host in front.
pub const FAILURE_PATH_BYTES_MAX: usize = 2 * PATH_BYTES_MAX;
/// The maximum length of each text of a failure in bytes.
pub const FAILURE_TEXT_BYTES_MAX: usize = 1024;

/// One entry that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailureRow {
    /// The index of the source's root.
    pub root: u16,
    /// The entry and the error.
    pub failure: Failure,
}

/// A failure with its number in the run, from which the list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NumberedFailure {
    /// The number.
    pub number: RowNumber,
    /// The failure.
    pub row: FailureRow,
}

impl FailureRow {
    /// Creates the row of a failure, with its texts cut to what is kept.
    pub fn new(root: u16, failure: &Failure) -> Self {
        let Error { kind, step, during, at, detail, hint } = &failure.error;
        let cut = |text: &str| shortened(text, FAILURE_TEXT_BYTES_MAX);
        let error = Error {
            kind: *kind,
            step: *step,
            during: cut(during).into(),
            at: at[..at.len().min(FAILURE_PATH_BYTES_MAX)].to_vec(),
            detail: cut(detail),
            hint: hint.as_deref().map(|hint| cut(hint).into()),
        };
        let path = failure.path[..failure.path.len().min(FAILURE_PATH_BYTES_MAX)].to_vec();
        Self { root, failure: Failure { path, error } }
    }

    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        let Error { during, at, detail, hint, .. } = &self.failure.error;
        for path in [&self.failure.path, at] {
            check_at_most("the bytes of a failure's path", path.len(), FAILURE_PATH_BYTES_MAX)?;
        }
        for text in [&during[..], detail, hint.as_deref().unwrap_or_default()] {
            check_at_most("the bytes of a failure's text", text.len(), FAILURE_TEXT_BYTES_MAX)?;
        }
        Ok(())
    }
}

/// Adds to an error which broker met it.
pub fn tell_broker(error: &mut Error, broker: &BrokerName) {
    let where_met = format!("; the broker {broker} met it");
    let kept = FAILURE_TEXT_BYTES_MAX.saturating_sub(where_met.len());
    error.detail = shortened(&error.detail, kept) + &where_met;
}

/// The number of each kind of error in a ledger, and its name in reports. Neither is ever given to another kind.
const KINDS: [(ErrorKind, u8, &str); 22] = [
    (ErrorKind::Conflict, 1, "conflict"),
    (ErrorKind::Cancelled, 2, "cancelled"),
    (ErrorKind::ConnectionLost, 3, "connection_lost"),
    (ErrorKind::Corrupt, 4, "corrupt"),
    (ErrorKind::BeyondGrant, 5, "beyond_grant"),
    (ErrorKind::Io, 6, "io"),
    (ErrorKind::Locked, 7, "locked"),
    (ErrorKind::NoInodes, 8, "no_inodes"),
    (ErrorKind::NoSpace, 9, "no_space"),
    (ErrorKind::NotFound, 10, "not_found"),
    (ErrorKind::PermissionDenied, 11, "permission_denied"),
    (ErrorKind::Protocol, 12, "protocol"),
    (ErrorKind::ReadOnly, 13, "read_only"),
    (ErrorKind::Refused, 14, "refused"),
    (ErrorKind::Requirement, 15, "requirement"),
    (ErrorKind::SourceChanged, 16, "source_changed"),
    (ErrorKind::SourceVanished, 17, "source_vanished"),
    (ErrorKind::TimedOut, 18, "timed_out"),
    (ErrorKind::Unauthenticated, 19, "unauthenticated"),
    (ErrorKind::Unsupported, 20, "unsupported"),
    (ErrorKind::Usage, 21, "usage"),
    (ErrorKind::WriteOnly, 22, "write_only"),
];

/// Returns the number of a kind of error.
pub fn number_of_kind(kind: ErrorKind) -> u8 {
    // The match makes a new kind fail to compile until it has a number.
    match kind {
        ErrorKind::Conflict
        | ErrorKind::Cancelled
        | ErrorKind::ConnectionLost
        | ErrorKind::Corrupt
        | ErrorKind::BeyondGrant
        | ErrorKind::Io
        | ErrorKind::Locked
        | ErrorKind::NoInodes
        | ErrorKind::NoSpace
        | ErrorKind::NotFound
        | ErrorKind::PermissionDenied
        | ErrorKind::Protocol
        | ErrorKind::ReadOnly
        | ErrorKind::Refused
        | ErrorKind::Requirement
        | ErrorKind::SourceChanged
        | ErrorKind::SourceVanished
        | ErrorKind::TimedOut
        | ErrorKind::Unauthenticated
        | ErrorKind::Unsupported
        | ErrorKind::Usage
        | ErrorKind::WriteOnly => {}
    }
    KINDS.iter().find(|(known, ..)| *known == kind).map_or(0, |(_, number, _)| *number)
}

/// Returns the kind of error with this number.
pub fn kind_of_number(number: u8) -> Option<ErrorKind> {
    KINDS.iter().find(|(_, known, _)| *known == number).map(|(kind, ..)| *kind)
}

/// Returns the name of a kind of error.
pub fn name_of_kind(kind: ErrorKind) -> &'static str {
    KINDS.iter().find(|(known, ..)| *known == kind).map_or("other", |(.., name)| *name)
}

/// Returns the kind of error with this name.
pub fn kind_of_name(name: &str) -> Option<ErrorKind> {
    KINDS.iter().find(|(.., known)| *known == name).map(|(kind, ..)| *kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        for (kind, number, name) in KINDS {
            assert_eq!((number_of_kind(kind), kind_of_number(number)), (number, Some(kind)));
            assert_eq!((name_of_kind(kind), kind_of_name(name)), (name, Some(kind)));
        }
        assert_eq!(kind_of_number(0), None);
    }

    #[test]
    fn long_texts_are_cut_and_others_refused() {
        let long = "x".repeat(FAILURE_TEXT_BYTES_MAX + 1);
        let error = Error::new(ErrorKind::Io, "reading", long).at(vec![b'a'; 3 * FAILURE_PATH_BYTES_MAX]);
        let failure = Failure { path: b"a\xff".to_vec(), error };
        assert!(FailureRow { root: 0, failure: failure.clone() }.check().is_err());
        let row = FailureRow::new(0, &failure);
        row.check().unwrap();
        assert_eq!(row.failure.error.detail.len(), FAILURE_TEXT_BYTES_MAX);
        assert_eq!(row.failure.path, failure.path);
        let mut row = row;
        tell_broker(&mut row.failure.error, &BrokerName::new("b1").unwrap());
        row.check().unwrap();
        assert!(row.failure.error.detail.ends_with("x; the broker b1 met it"), "{}", row.failure.error);
    }
}
