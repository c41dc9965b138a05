//! A clock for stores.

use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::entry::Time;

/// A clock of which no two times are the same, so that any change can be told.
#[derive(Debug, Default)]
pub(crate) struct Ticks(Time);

impl Ticks {
    /// Returns the time now, or one later than the last where that is not later.
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
