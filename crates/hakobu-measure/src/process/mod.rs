//! Measures the cost of a command or a thread: time, CPU, memory, I/O, bytes on the network.
//!
//! All figures come from the kernel. The measured program's own report is not used.

mod counters;
mod running;

pub use counters::{InterfaceCounters, ProcessIo, interface_counters_of, peak_rss_bytes, process_io};
pub use running::{CommandCost, MeasuredCommand, measure};
