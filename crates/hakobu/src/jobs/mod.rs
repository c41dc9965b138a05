//! The command `jobs` and the option `--detach`: runs without a terminal.
//!
//! [`hakobu_transfer::jobs`] manages the files of a job. This module starts a job ([`start`]), runs it in a process
//! of its own ([`run`]), shows it and controls it.

mod attach;
mod command;
mod control;
mod handshake;
mod job_run;
mod limits;
mod run;
mod show;
mod start;
mod tail;
mod unit;
mod verb;

pub use job_run::JobRun;
pub use start::detach;
pub use verb::jobs;
