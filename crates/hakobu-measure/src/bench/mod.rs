//! The ways to bring data from one machine to another, measured side by side with the tools that are installed.
//!
//! What is run is data: [`case`] says what is varied, [`lines`] has the command lines, [`plan`] chooses. [`course`] runs them in
//! turn, [`far`] is the eye on the other machine, [`processes`] finds out who used how much processor, and
//! [`asymmetry`] says why two rows that should be alike are not.

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
