//! What a place gives when it is read and written, and what a transfer will make of that.
//!
//! [`source`] and [`target`] measure on the machine that has the place, with its own files and in seconds. [`predict`]
//! does no I/O. What they measure is not done by the copier, so it can be compared with what that gets.

mod clock;
mod content;
mod predict;
mod read;
mod scan;
mod scratch;
mod target;

pub use predict::{Measured, Prediction, Span, Stage, StageRate, TreePrediction, predict};
pub use read::source;
pub use target::target;

/// Files below this are small: they are moved many at a time, and each costs more than its bytes do.
pub const SMALL_BYTES: u64 = 256 << 10;
/// The most threads that read, write or list.
const THREADS_MAX: usize = 8;

/// As many threads as a copy would have here.
fn threads(gentle: bool) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if gentle { 1 } else { processors.clamp(1, THREADS_MAX) }
}
