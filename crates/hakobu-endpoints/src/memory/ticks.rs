//! A clock for stores.

use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::entry::FileTime;

/// A clock that never returns the same time twice, so that every change is detectable.
#[derive(Debug, Default)]
pub(crate) struct Ticks(FileTime);

impl Ticks {
    /// Returns the current time, or a time just after the last one if that is later.
    pub(crate) fn next(&mut self) -> FileTime {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = FileTime { seconds: now.as_secs().cast_signed(), nanoseconds: now.subsec_nanos() };
        let after = match self.0.nanoseconds {
            999_999_999 => FileTime { seconds: self.0.seconds + 1, nanoseconds: 0 },
            nanoseconds => FileTime { nanoseconds: nanoseconds + 1, ..self.0 },
        };
        self.0 = now.max(after);
        self.0
    }
}
