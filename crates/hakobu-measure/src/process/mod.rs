//! What a command or a thread costs: time, CPU, memory, I/O, bytes on the network.
//!
//! All figures are the kernel's, none is the measured program's own report.

mod counters;
mod running;
mod thread;

pub use counters::{InterfaceCounters, ProcessIo, interface_counters_of, peak_rss_bytes, process_io};
pub use running::{Measured, Running, measure};
pub use thread::thread_time;
