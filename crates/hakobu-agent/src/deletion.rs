//! What a synchronisation does with entries that only the target has: they are counted while everything else is
//! brought over, agreed on, and removed by a second run, which looks at both sides again.

use hakobu_core::consent::{agree, entries, verb};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::{Mode, Removal};

use crate::carryover::Carryover;
use hakobu_core::outcome::{Surroundings, Transfer, add_earlier};
use hakobu_core::request::{CopyRequest, Deletion};
use crate::transfer::run_once;

/// Runs a synchronisation to its end.
pub(crate) fn run(
    request: &CopyRequest,
    deletion: &Deletion,
    surroundings: &mut Surroundings<'_>,
) -> Transfer {
    let mut carryover = Carryover::for_more();
    let counting = CopyRequest { removal: Removal::Count, ..request.clone() };
    if deletion.first && !request.dry_run {
        return delete_first(&counting, deletion, surroundings, &mut carryover);
    }
    let mut done = run_once(&counting, surroundings, &mut carryover);
    if !is_wanted(&done, surroundings.observer) {
        return done;
    }
    if let Err(error) = agree(&done, deletion, request.dry_run, surroundings) {
        done.summary.fatal = Some(error);
        return done;
    }
    if request.dry_run {
        return done;
    }
    done = next(&removing(request, &done), surroundings, &mut carryover, &done);
    if done.summary.fatal.is_none() && done.summary.counters.entries_in_the_way > 0 {
        done = next(&copying(request), surroundings, &mut carryover, &done);
    }
    done
}

/// Removes what was agreed to, and not more.
fn removing(request: &CopyRequest, counted: &Transfer) -> CopyRequest {
    let removals_max = counted.summary.counters.entries_only_in_target;
    CopyRequest { removal: Removal::Remove, removals_max, dry_run: false, ..request.clone() }
}

/// Brings over what something was in the way of. Where it still is, that is a failure now.
fn copying(request: &CopyRequest) -> CopyRequest {
    CopyRequest { removal: Removal::Leave, mode: Mode::Copy, ..request.clone() }
}

/// Deletes before anything is brought over.
fn delete_first(
    counting: &CopyRequest,
    deletion: &Deletion,
    surroundings: &mut Surroundings<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let planning = CopyRequest { dry_run: true, ..counting.clone() };
    let quiet = Quiet(surroundings.observer);
    let mut planned = {
        let (cancel, limits) = (surroundings.cancel.clone(), surroundings.limits.clone());
        let prompts = &mut *surroundings.prompts;
        let mut surroundings = Surroundings { prompts, observer: &quiet, cancel, limits };
        run_once(&planning, &mut surroundings, carryover)
    };
    let has_extras = planned.summary.counters.entries_only_in_target > 0;
    // What goes makes room.
    let lacks_room = |error: &Error| error.kind == ErrorKind::NoSpace;
    if has_extras && planned.summary.fatal.as_ref().is_some_and(lacks_room) {
        planned.summary.fatal = None;
    }
    if planned.summary.fatal.is_some() {
        for failure in &planned.summary.failures {
            surroundings.observer.event(Event::Failure(failure.clone()));
        }
        return planned;
    }
    if has_extras && !is_wanted(&planned, surroundings.observer) {
        return run_once(counting, surroundings, carryover);
    }
    if has_extras && let Err(error) = agree(&planned, deletion, false, surroundings) {
        planned.summary.fatal = Some(error);
        return planned;
    }
    let mut done = run_once(&removing(counting, &planned), surroundings, carryover);
    if done.summary.fatal.is_none() {
        done = next(counting, surroundings, carryover, &done);
    }
    if done.summary.fatal.is_none() && done.summary.counters.entries_in_the_way > 0 {
        return next(&copying(counting), surroundings, carryover, &done);
    }
    done
}

/// One more run, whose figures are added to those before.
fn next(
    request: &CopyRequest,
    surroundings: &mut Surroundings<'_>,
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

/// Whether there is something to delete, and nothing has gone wrong that speaks against it.
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

/// Passes on what the run behind it does not say again. Progress is that of the run alone.
struct Quiet<'a>(&'a dyn Observer);

impl Observer for Quiet<'_> {
    fn event(&self, event: Event) {
        let comes_again = matches!(event, Event::Planned { .. } | Event::Located { .. } | Event::Failure(_));
        if !comes_again && !matches!(event, Event::Progress(_)) {
            self.0.event(event);
        }
    }
}
