//! The verb `jobs`, and `--detach`: runs that go on without a terminal.
//!
//! What is kept of a job is [`hakobu_agent::jobs`]' affair. Here a job is started ([`start`]), runs in
//! a process of its own ([`run`]), and is shown and controlled.

mod attach;
mod command;
mod control;
mod limits;
mod run;
mod show;
mod start;
mod tail;
mod unit;

pub use run::JobRun;
pub use start::detach;

use hakobu_core::error::Error;

use crate::arguments::jobs::JobsVerb;
use crate::exit;

/// Runs the verb; returns the exit code.
pub fn jobs(verb: Option<JobsVerb>) -> u8 {
    let done = match verb.unwrap_or(JobsVerb::List { json: false }) {
        JobsVerb::List { json } => show::list(json),
        JobsVerb::Show { id, json } => show::show(&id, json),
        JobsVerb::Attach { id } => attach::attach(&id),
        JobsVerb::Pause { id } => control::pause(&id),
        JobsVerb::Resume { id: Some(id), .. } => control::resume(&id),
        JobsVerb::Resume { id: None, .. } => control::resume_all(),
        JobsVerb::Set { id, limits } => limits::set(&id, &limits),
        JobsVerb::Forget { ids, done } => control::forget(&ids, done),
        JobsVerb::Unit { user } => unit::unit(user),
        JobsVerb::Run { id } => run::run(&id),
    };
    done.unwrap_or_else(|error: Error| exit::errors(&[error]))
}
