//! The verb `jobs`, from the arguments to the exit code.

use hakobu_core::error::Error;

use super::{attach, control, limits, run, show, unit};
use crate::commands::jobs::JobsVerb;
use crate::exit;

/// Runs the verb; returns the exit code.
pub fn jobs(verb: Option<JobsVerb>) -> u8 {
    let done = match verb.unwrap_or(JobsVerb::List { json: false }) {
        JobsVerb::List { json } => show::list(json),
        JobsVerb::Show { id, json } => show::show(&id, json),
        JobsVerb::Attach { id } => attach::attach(id.as_deref()),
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
