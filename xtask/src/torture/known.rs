//! Faults that are known and open. Each has a reason, and goes when it is mended: the list is meant to be empty.

use super::check::Violation;
use super::history::{Event, History};
use super::mutate::Mutation;
use super::step::Step;

/// Returns why a violation is passed over, if it is.
pub fn reason(violation: &Violation, history: &History) -> Option<&'static str> {
    let any = |is: fn(&Step) -> bool| {
        history
            .events
            .iter()
            .any(|event| matches!(event, Event::Run(step) | Event::Interrupted(step) if is(step)))
    };
    if violation.kind == "second run"
        && violation.words == "it has changed: ctime"
        && any(|step| step.by_digest)
    {
        return Some(
            "`--compare digest` makes a draft beside a file of several names, so that the directory is touched each time",
        );
    }
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
    if violation.kind == "replaced" && any(|step| step.in_place && step.by_digest) {
        return Some("`--in-place --compare digest` replaces small files of the same size");
    }
    None
}
