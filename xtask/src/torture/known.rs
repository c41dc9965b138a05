//! What is passed over: decisions that the book tells of, each with its reason, and faults that are known and open, of which there
//! are meant to be none.

use super::check::Violation;
use super::history::{Event, History};
use super::mutate::Mutation;

/// Returns why a violation is passed over, if it is.
pub fn reason(violation: &Violation, history: &History) -> Option<&'static str> {
    let is_root = violation.path.as_ref().is_some_and(|path| path.0.is_empty());
    if is_root && violation.words == "it has changed: ctime" {
        return Some(
            "which times a target can hold is found out by trying, also in a plan: the directory is touched",
        );
    }
    let changed = |is: fn(&Mutation) -> bool| {
        history.events.iter().any(|event| matches!(event, Event::Source(mutation) if is(mutation)))
    };
    if violation.kind == "content"
        && changed(|change| {
            matches!(change, Mutation::RewriteKeepingTime(..) | Mutation::ReplaceKeepingTime(..))
        })
        && changed(|change| matches!(change, Mutation::LinkTo(..)))
    {
        return Some(
            "a new name is linked by size and time of the first one (the book, coming from rsync): content that keeps both is not seen",
        );
    }
    None
}
