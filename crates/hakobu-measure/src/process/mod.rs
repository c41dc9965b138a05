//! Measures the cost of a command or a thread: time, CPU, memory.
//!
//! All figures come from the kernel. The measured program's own report is not used.

mod counters;
mod running;

pub use counters::peak_rss_bytes;
pub use running::{CommandCost, MeasuredCommand, measure};
