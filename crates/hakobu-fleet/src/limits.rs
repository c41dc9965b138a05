//! Checks of lengths and numbers that come from outside.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::PATH_BYTES_MAX;

/// The operation that errors of this module name.
const DURING: &str = "checking what the ledger is to keep";

/// The largest number that every ledger keeps: databases have signed numbers of 64 bits.
pub const NUMBER_MAX: u64 = i64::MAX as u64;

/// The maximum length of the bytes of a row that only brokers read: a path, and some numbers.
pub const DETAIL_BYTES_MAX: usize = PATH_BYTES_MAX + 256;

/// Checks a length or a count against its limit.
///
/// # Errors
/// `Usage` if it is larger.
pub fn check_at_most(what: &str, actual: usize, most: usize) -> Result<()> {
    if actual <= most {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Usage, DURING, format!("{what}: {actual}, at most {most} are possible")))
}

/// Checks that a number can be kept.
///
/// # Errors
/// `Usage` if it is larger than [`NUMBER_MAX`].
pub fn check_number(what: &str, number: u64) -> Result<()> {
    if number <= NUMBER_MAX {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Usage, DURING, format!("{what}: {number}, at most {NUMBER_MAX} is possible")))
}

/// Returns the beginning of a text that has at most so many bytes, cut between two characters.
pub fn shortened(text: &str, most: usize) -> String {
    text[..text.floor_char_boundary(most)].to_owned()
}

/// Returns the error for a name or number that has not the form it must have.
pub fn malformed(what: &str, detail: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Usage, DURING, format!("{what}: {detail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_just_below_and_not_just_above() {
        assert!(check_at_most("a", 3, 3).is_ok() && check_at_most("a", 4, 3).is_err());
        assert!(check_number("a", NUMBER_MAX).is_ok() && check_number("a", NUMBER_MAX + 1).is_err());
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("a\u{e9}b", 2), "a");
        assert_eq!(shortened("a\u{e9}b", 3), "a\u{e9}");
        assert_eq!(shortened("ab", 9), "ab");
    }
}
