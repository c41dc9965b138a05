//! The time of day, as records and reports have it.

use jiff::Timestamp;

/// Returns the time as RFC 3339 has it, in UTC, with three digits of a fraction.
pub(crate) fn now() -> String {
    format!("{:.3}", Timestamp::now())
}
