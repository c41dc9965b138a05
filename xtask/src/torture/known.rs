//! Faults that are known and open. Each has a reason, and goes when it is mended: the list is meant to be empty.

use super::check::Violation;
use super::ground::faults::Fault;
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
    let is_root = violation.path.as_ref().is_some_and(|path| path.0.is_empty());
    if is_root && violation.words == "it has changed: ctime" {
        return Some(
            "which times a target can hold is found out by trying, also in a plan: the directory is touched",
        );
    }
    let had = |is: fn(&Fault) -> bool| {
        history.events.iter().any(|event| {
            matches!(event, Event::Run(step) | Event::Interrupted(step) if step.fault.as_ref().is_some_and(is))
        })
    };
    let is_draft = violation.path.as_ref().is_some_and(|path| path.base().starts_with(b".hakobu."));
    if is_draft && ["leftover", "verify misses"].contains(&violation.kind) && had(Fault::kills) {
        return Some(
            "a draft without a journal that was killed between its last attributes and its rename counts as a file of the user",
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
    if any(|step| step.is_without("owner"))
        && (violation.kind == "verify errs"
            || violation.words.ends_with("attributes_only")
            || violation.words == "it has changed: ctime"
            || violation.kind == "exit code")
    {
        return Some(
            "without owners set-ID bits are not kept, rightly, but verify and the second run take that for a difference",
        );
    }
    None
}
