//! The limits of the load that a measurement may put on a machine.

use std::time::Duration;

/// The maximum number of threads that read, write or list.
const THREADS_MAX: u16 = 32;
/// The divisor of all durations with gentle load.
const GENTLE_PART: u32 = 3;
/// The maximum number of bytes to read or write, with normal and with gentle load.
const BYTES_MAX: u64 = 1 << 30;
const BYTES_MAX_GENTLE: u64 = 64 << 20;

/// The load that a measurement may put on a machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) gentle: bool,
    pub(super) lanes: u16,
}

impl Load {
    /// Returns the number of threads, which is the number of lanes of a copy; one with gentle load.
    pub(super) fn threads(self) -> usize {
        if self.gentle { 1 } else { self.lanes.clamp(1, THREADS_MAX).into() }
    }

    /// Returns the time limit for a measurement that normally takes `of`.
    pub(super) fn limit(self, of: Duration) -> Duration {
        if self.gentle { of / GENTLE_PART } else { of }
    }

    /// Returns the maximum number of bytes to read or write.
    pub(super) fn bytes_max(self) -> u64 {
        if self.gentle { BYTES_MAX_GENTLE } else { BYTES_MAX }
    }
}
