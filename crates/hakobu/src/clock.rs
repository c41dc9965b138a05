//! The time of day, as records and reports have it.

use jiff::{Timestamp, Unit};

/// The time, RFC 3339 in UTC.
pub(crate) fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Millisecond).unwrap_or(now).to_string()
}
