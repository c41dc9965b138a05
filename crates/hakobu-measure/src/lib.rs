//! Measuring: test data at memory speed, statistics of repeated runs, and what
//! the kernel counted for a process or a network interface.
//!
//! Nothing here knows the copier. Data is generated and trees are compared with
//! code of their own, so that a fault in the one is not hidden by the other.

pub mod compare;
pub mod generate;
pub mod holes;
pub mod process;
pub mod statistics;
pub mod table;
pub mod units;

mod error;

pub use compare::compare;
pub use error::{Error, Result};
