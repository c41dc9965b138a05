//! Measures hakobu side by side with the usual tools that are installed, on one machine or between two.
//!
//! The runs are described by data: [`case`] has the parameters, [`lines`] builds the command lines, [`plan`] chooses
//! the rows. [`course`] runs them in turn, [`far`] observes the host, [`processes`] accounts for the processor time,
//! and [`asymmetry`] explains why two rows that should be equally fast are not.

pub mod asymmetry;
mod bring;
pub mod case;
pub mod content;
pub mod course;
mod error;
mod explore;
mod facts;
mod far;
mod host;
mod keeper;
pub mod lines;
mod login;
mod names;
mod near;
pub mod parts;
pub mod plan;
mod ports;
pub mod processes;
mod report;
pub mod result;
mod run;
mod scratch;
mod scripts;
mod setting;
pub mod shell;
pub mod shown;
#[cfg(test)]
mod spinner;
pub mod tools;
mod wrapper;

pub use error::{Error, Result};
