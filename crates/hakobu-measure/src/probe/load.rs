//! How much a machine may be asked to do.

use std::time::Duration;

/// The most threads that read, write or list.
const THREADS_MAX: u16 = 32;
/// With little load, times are divided by this.
const GENTLE_PART: u32 = 3;
/// What is read or written at most.
const BYTES_MAX: u64 = 1 << 30;
const BYTES_MAX_GENTLE: u64 = 64 << 20;

/// How much a machine may be asked to do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) gentle: bool,
    pub(super) lanes: u16,
}

impl Load {
    /// As many threads as a copy would have lanes; one with little load.
    pub(super) fn threads(self) -> usize {
        if self.gentle { 1 } else { self.lanes.clamp(1, THREADS_MAX).into() }
    }

    /// How long something may take.
    pub(super) fn limit(self, of: Duration) -> Duration {
        if self.gentle { of / GENTLE_PART } else { of }
    }

    /// How much may be read or written.
    pub(super) fn bytes_max(self) -> u64 {
        if self.gentle { BYTES_MAX_GENTLE } else { BYTES_MAX }
    }
}
