//! A clock for stores.

use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::entry::Time;

/// A clock that never returns the same time twice, so that every change is detectable.
#[derive(Debug, Default)]
pub(crate) struct Ticks(Time);

impl Ticks {
    /// Returns the current time, or a time just after the last one if that is later.
    pub(crate) fn next(&mut self) -> Time {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Time { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() };
        let after = match self.0.nanoseconds {
            999_999_999 => Time { seconds: self.0.seconds + 1, nanoseconds: 0 },
            nanoseconds => Time { nanoseconds: nanoseconds + 1, ..self.0 },
        };
        self.0 = now.max(after);
        self.0
    }
}
