//! Measuring: test data at memory speed, statistics of repeated runs, and what
//! the kernel counted for a process or a network interface.
//!
//! Data is generated and trees are compared with code of their own, and not with
//! the copier's, so that a fault in the one is not hidden by the other. Only
//! [`doctor`], [`probe`] and the time of a thread speak the words of `hakobu-core`, since these facts and figures cross the wire.

pub mod bench;
pub mod compare;
pub mod doctor;
pub mod generate;
pub mod holes;
pub mod memory;
pub mod probe;
pub mod process;
pub mod statistics;
pub mod table;
pub mod units;

mod error;

pub use compare::compare;
pub use error::{Error, Result};
