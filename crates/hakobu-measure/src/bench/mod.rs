//! Measures hakobu side by side with the usual tools that are installed, on one machine or between two.
//!
//! The runs are described by data: [`case`] has the parameters, [`case_scripts`] builds the command lines, [`plan`] chooses
//! the rows. [`bench_run`] runs them in turn, [`remote_processes`] observes the host, [`processes`] accounts for the processor time,
//! and [`asymmetry`] explains why two rows that should be equally fast are not.

pub mod asymmetry;
pub mod bench_run;
pub mod case;
pub mod case_scripts;
mod cleanup_shell;
pub mod components;
pub mod content;
mod error;
mod explore;
mod facts;
mod host;
mod local_processes;
mod login;
mod names;
pub mod plan;
mod ports;
pub mod processes;
mod remote_processes;
mod report;
pub mod result;
mod run;
mod scratch;
mod scripts;
mod settings;
pub mod shell;
#[cfg(test)]
mod spinner;
pub mod tools;
pub mod typed_names;
mod upload;
mod wrapper;

pub use error::{BenchError, BenchResult};
