//! Deletes the entries that only the target of a `sync` has. They are counted during the copy, the user agrees, and a
//! second run, which compares both sides again, removes them.

use hakobu_core::consent::{agree, entries, verb};
use hakobu_core::counters::CounterTotals;
use hakobu_core::error::{Error, ErrorKind, ErrorStep};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::{Mode, Removal};

use crate::carryover::Carryover;
use crate::transfer::run_once;
use hakobu_core::outcome::{RunEnvironment, Transfer, add_earlier};
use hakobu_core::request::{CopyRequest, Deletion};

/// Runs a `sync` to its end. `created`: the number of entries that runs before it have made at the target.
pub fn run(
    request: &CopyRequest,
    deletion: &Deletion,
    created: u64,
    surroundings: &mut RunEnvironment<'_>,
) -> Transfer {
    let mut carryover = Carryover { created_before: created, ..Carryover::for_more() };
    let counting = CopyRequest { removal: Removal::Count, ..request.clone() };
    if deletion.first && !request.dry_run {
        return delete_first(&counting, deletion, surroundings, &mut carryover);
    }
    let mut done = run_once(&counting, surroundings, &mut carryover);
    if !is_wanted(&done, surroundings.observer) {
        return done;
    }
    match agree(&done, deletion, request.dry_run, surroundings) {
        Ok(true) if !request.dry_run => {}
        Ok(_) => return done,
        Err(error) => {
            done.summary.fatal = Some(error);
            return done;
        }
    }
    done = after_copying(&removing(request, &done), surroundings, &mut carryover, &done);
    if done.summary.fatal.is_some() {
        return done;
    }
    if done.summary.counters.entries_in_the_way > 0 {
        return after_copying(&copying(request), surroundings, &mut carryover, &done);
    }
    if carryover.was_repeated {
        return after_copying(&renewing(request), surroundings, &mut carryover, &done);
    }
    done
}

/// Returns the request that removes what was agreed to, and no more entries than that.
fn removing(request: &CopyRequest, counted: &Transfer) -> CopyRequest {
    let removals_max = counted.summary.counters.entries_only_in_target;
    CopyRequest { removal: Removal::Remove, removals_max, dry_run: false, ..request.clone() }
}

/// Returns the request that copies entries whose place was taken by extra ones. A place still taken is a failure.
fn copying(request: &CopyRequest) -> CopyRequest {
    CopyRequest { removal: Removal::Leave, mode: Mode::Copy, ..request.clone() }
}

/// Returns the request that sets the times of directories once more. A removal restores those that it finds, and an
/// attempt that lost its connection may have left directories with the time of its own changes. The content of files was
/// compared before.
fn renewing(request: &CopyRequest) -> CopyRequest {
    CopyRequest { removal: Removal::Leave, compare_content: false, ..request.clone() }
}

/// Deletes before anything is copied.
fn delete_first(
    counting: &CopyRequest,
    deletion: &Deletion,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let planning = CopyRequest { dry_run: true, ..counting.clone() };
    let quiet = Quiet(surroundings.observer);
    let mut planned = {
        let (cancel, limits) = (surroundings.cancel.clone(), surroundings.limits.clone());
        let prompts = &mut *surroundings.prompts;
        let mut surroundings = RunEnvironment { prompts, observer: &quiet, cancel, limits };
        run_once(&planning, &mut surroundings, carryover)
    };
    let has_extras = planned.summary.counters.entries_only_in_target > 0;
    // Deleting makes space, so a lack of it is no reason to stop here.
    let lacks_room = |error: &Error| {
        error.kind == ErrorKind::NoSpace || error.kind == ErrorKind::Refused && error.step == ErrorStep::Write
    };
    if has_extras && planned.summary.fatal.as_ref().is_some_and(lacks_room) {
        planned.summary.fatal = None;
    }
    if planned.summary.fatal.is_some() {
        for failure in &planned.summary.failures {
            surroundings.observer.event(Event::Failure(failure.clone()));
        }
        return without_changes(planned);
    }
    if !has_extras || !is_wanted(&planned, surroundings.observer) {
        return run_once(counting, surroundings, carryover);
    }
    match agree(&planned, deletion, false, surroundings) {
        Ok(true) => {}
        Ok(false) => return run_once(counting, surroundings, carryover),
        Err(error) => {
            let detail = format!("{}; nothing was copied", error.detail);
            planned.summary.fatal = Some(Error { detail, ..error });
            return without_changes(planned);
        }
    }
    let mut done = run_once(&removing(counting, &planned), surroundings, carryover);
    if done.summary.fatal.is_none() {
        done = next(counting, surroundings, carryover, &done);
    }
    if done.summary.fatal.is_none() && done.summary.counters.entries_in_the_way > 0 {
        return after_copying(&copying(counting), surroundings, carryover, &done);
    }
    done
}

/// Returns a plan as a run that changed nothing: without what it would have created, updated and lost.
fn without_changes(mut planned: Transfer) -> Transfer {
    let counters = &mut planned.summary.counters;
    *counters = CounterTotals {
        entries_created: 0,
        directories_created: 0,
        entries_updated: 0,
        entries_attributes_only: 0,
        planned_bytes: 0,
        ..std::mem::take(counters)
    };
    planned.summary.losses.clear();
    planned
}

/// Makes one more run after one that has compared and copied the whole tree. The entries that were left alone are those
/// of that run: the later ones do not decide about them, or decide by other rules.
fn after_copying(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
    copied: &Transfer,
) -> Transfer {
    let mut done = next(request, surroundings, carryover, copied);
    keep_left_alone(&mut done.summary.counters, &copied.summary.counters);
    if request.removal == Removal::Leave {
        // All that is still there was protected by rules, or could not be removed.
        done.summary.counters.entries_only_in_target = copied.summary.counters.entries_only_in_target;
    }
    done
}

/// Replaces the numbers of the entries that were left alone by those of the run that copied.
fn keep_left_alone(now: &mut CounterTotals, copied: &CounterTotals) {
    now.entries_scanned = copied.entries_scanned;
    now.bytes_scanned = copied.bytes_scanned;
    now.entries_unchanged = copied.entries_unchanged;
    now.bytes_unchanged = copied.bytes_unchanged;
    now.entries_skipped = copied.entries_skipped;
    now.sockets_skipped = copied.sockets_skipped;
}

/// Makes one more run, and adds the figures of the runs before.
fn next(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
    before: &Transfer,
) -> Transfer {
    let mut done = run_once(request, surroundings, carryover);
    add_earlier(&mut done.summary, &before.summary);
    done.summary.add_failures(&before.summary);
    done.connect = before.connect;
    let sum = |now: (u64, u64), before: (u64, u64)| {
        (now.0.saturating_add(before.0), now.1.saturating_add(before.1))
    };
    done.wire_bytes = match (done.wire_bytes, before.wire_bytes) {
        (Some(now), Some(before)) => Some(sum(now, before)),
        (now, before) => now.or(before),
    };
    done
}

/// Returns true if there are extra entries and no failure that forbids deleting them.
fn is_wanted(done: &Transfer, observer: &dyn Observer) -> bool {
    let summary = &done.summary;
    let extras = summary.counters.entries_only_in_target;
    if extras == 0 || summary.fatal.is_some() {
        return false;
    }
    if summary.counters.entries_failed == 0 {
        return true;
    }
    let mut words = format!(
        "nothing is deleted after failures; {} {} only at the target",
        entries(extras),
        verb(extras, "is", "are")
    );
    let in_the_way = summary.counters.entries_in_the_way;
    if in_the_way > 0 {
        words.push_str(&format!(", in the way of {}", entries(in_the_way)));
    }
    observer.event(Event::Notice { words });
    false
}

/// Passes on only the events that the next run does not repeat. Progress is left to that run.
struct Quiet<'a>(&'a dyn Observer);

impl Observer for Quiet<'_> {
    fn event(&self, event: Event) {
        let comes_again = matches!(event, Event::Planned { .. } | Event::Located { .. } | Event::Failure(_));
        if !comes_again && !matches!(event, Event::Progress(_)) {
            self.0.event(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::event::NoObserver;

    use super::*;

    #[test]
    fn extra_entries_are_deleted_only_after_a_run_without_failures() {
        let mut done = Transfer::default();
        assert!(!is_wanted(&done, &NoObserver), "there is nothing to delete");
        done.summary.counters.entries_only_in_target = 1;
        done.summary.counters.entries_in_target = 3;
        assert!(is_wanted(&done, &NoObserver));
        done.summary.counters.entries_failed = 1;
        assert!(!is_wanted(&done, &NoObserver));
    }
}
