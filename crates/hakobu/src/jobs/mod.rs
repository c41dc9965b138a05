//! The verb `jobs`, and `--detach`: runs that go on without a terminal.
//!
//! [`hakobu_transfer::jobs`] keeps the files of a job. Here a job is started ([`start`]), runs in
//! a process of its own ([`run`]), and is shown and controlled.

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
