//! What a place gives when it is read and written, and what a transfer will make of that.
//!
//! [`source`] and [`target`] measure on the machine that has the place, with its own files and in seconds. [`predict`]
//! does no I/O. What they measure is not done by the copier, so it can be compared with what that gets.

use std::time::Duration;

mod clock;
mod content;
mod device;
mod predict;
mod read;
mod scan;
mod scratch;
mod target;

pub use device::device;
pub use predict::{Measured, Prediction, Span, Stage, StageRate, TreePrediction, predict};
pub use read::source;
pub use target::target;

/// Files below this are small: they are moved many at a time, and each costs more than its bytes do.
pub const SMALL_BYTES: u64 = 256 << 10;
/// In these the system counts what files take on their medium.
const BLOCK_BYTES: u64 = 512;
/// The most threads that read, write or list.
const THREADS_MAX: u16 = 32;

/// With little load, times are divided by this.
const GENTLE_PART: u32 = 3;
/// What is read or written at most.
const BYTES_MAX: u64 = 1 << 30;
const BYTES_MAX_GENTLE: u64 = 64 << 20;

/// How much a machine may be asked to do.
#[derive(Clone, Copy, Debug)]
struct Load {
    gentle: bool,
    lanes: u16,
}

impl Load {
    /// As many threads as a copy would have lanes; one with little load.
    fn threads(self) -> usize {
        if self.gentle { 1 } else { self.lanes.clamp(1, THREADS_MAX).into() }
    }

    /// How long something may take.
    fn limit(self, of: Duration) -> Duration {
        if self.gentle { of / GENTLE_PART } else { of }
    }

    /// How much may be read or written.
    fn bytes_max(self) -> u64 {
        if self.gentle { BYTES_MAX_GENTLE } else { BYTES_MAX }
    }
}
