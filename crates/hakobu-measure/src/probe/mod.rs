//! What a place gives when it is read and written, and what a transfer will make of that.
//!
//! [`source`] and [`target`] measure on the machine that has the place, with its own files and in seconds. [`predict`]
//! does no I/O. What they measure is not done by the copier, so it can be compared with what that gets.

mod clock;
mod content;
mod device;
mod load;
mod predict;
mod read;
mod scan;
mod scratch;
mod target;

pub use device::device;
pub use predict::{Measured, Prediction, Span, Stage, StageRate, TreePrediction, predict};
pub use read::source;
pub use scan::SMALL_BYTES;
pub use target::target;
