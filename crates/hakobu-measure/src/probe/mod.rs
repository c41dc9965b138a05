//! Measures how fast data can be read and written at a path, and predicts a transfer from that.
//!
//! [`source`] and [`target`] measure on the machine that has the data, with its own files and within seconds.
//! [`predict`] does no I/O. The measurements do not use the copier, so its speed can be compared with them.

mod clock;
mod content;
mod device;
pub mod flood;
mod load;
pub mod machine;
mod predict;
mod quota;
mod read;
mod scan;
mod scratch;
pub mod stream;
mod target;

pub use device::device;
pub use predict::{
    Measurements, PredictedTime, Prediction, StageRate, TransferStage, TreePrediction, predict,
};
pub use read::source;
pub use scan::SMALL_BYTES;
pub use target::target;
