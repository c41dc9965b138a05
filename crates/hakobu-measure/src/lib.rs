//! Measures transfers and machines: `bench`, `probe`, `doctor`, test data, statistics of repeated runs, and the
//! kernel's counters for a process.
//!
//! This crate must not share code with the copier. It generates data with its own code, so that a fault
//! in one does not hide a fault in the other. Only [`doctor`], [`probe`] and the processor time of a thread use
//! types of `hakobu-core`, since these facts and figures are sent between hosts. How sizes and rates are written for
//! people comes from there as well.

pub mod bench;
pub mod doctor;
pub mod generate;
pub mod memory;
pub mod probe;
pub mod process;
pub mod statistics;

mod error;

pub use error::{MeasureError, MeasureResult};
