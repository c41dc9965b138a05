//! Runs commands and measures their cost: time, CPU, memory.
//!
//! All figures come from the kernel. The measured program's own report is not used.

mod command_group;
mod counters;
mod listeners;
mod paired_run;
mod running;

pub use command_group::{CommandGroup, RunFailure};
pub use counters::peak_rss_bytes;
pub use listeners::listens;
pub use paired_run::{PairedCost, PairedRun, RunObserver};
pub use running::{CommandCost, MeasuredCommand, measure};
