//! Deletes the entries that only the target of a `sync` has. They are counted during the copy, the user agrees, and a
//! second run, which compares both sides again, removes them.

use std::sync::atomic::Ordering::Relaxed;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::job::{Mode, Removal};
use hakobu_core::units::format_count;

use crate::carryover::Carryover;
use crate::outcome::{Surroundings, Transfer, add_earlier};
use crate::request::{CopyRequest, Deletion, DeletionMax};
use crate::transfer::run_once;

const DELETING: &str = "deleting in";

/// Runs a `sync` to its end.
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

/// Returns the request that removes what was agreed to, and no more entries than that.
fn removing(request: &CopyRequest, counted: &Transfer) -> CopyRequest {
    let removals_max = counted.summary.counters.entries_only_in_target;
    CopyRequest { removal: Removal::Remove, removals_max, dry_run: false, ..request.clone() }
}

/// Returns the request that copies entries whose place was taken by extra ones. A place still taken is a failure.
fn copying(request: &CopyRequest) -> CopyRequest {
    CopyRequest { removal: Removal::Leave, mode: Mode::Copy, ..request.clone() }
}

/// Deletes before anything is copied.
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
    // Deleting makes space, so a lack of it is no reason to stop here.
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

/// Makes one more run, and adds the figures of the runs before.
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

/// Fails unless the limits allow the number of extra entries to be deleted and the user agrees.
pub(crate) fn agree(
    done: &Transfer,
    deletion: &Deletion,
    only_planned: bool,
    surroundings: &mut Surroundings<'_>,
) -> Result<()> {
    let counters = &done.summary.counters;
    let (extras, total) = (counters.entries_only_in_target, counters.entries_in_target);
    let target = done.target.clone().unwrap_or_default();
    let refused = |words: String| Error::new(ErrorKind::Refused, DELETING, words).at(target.clone());
    // A user who stops between two runs must not be told that everything is done.
    let stopped = || {
        let words = format!("stopped as asked; {} {}", entries(extras), verb(extras, "stays", "stay"));
        Error::new(ErrorKind::Cancelled, DELETING, words).at(target.clone())
    };
    if surroundings.cancel.load(Relaxed) {
        return Err(stopped());
    }
    let seen = match done.target_may_have_more {
        true => "that the target is known to have had before the connection was lost",
        false => "at the target",
    };
    if let Some(words) = beyond_limit(deletion.max, extras, (total, seen)) {
        return Err(refused(words));
    }
    if deletion.agreed || only_planned {
        return Ok(());
    }
    let place = String::from_utf8_lossy(&target);
    let mut words =
        format!("{} of {} {} not in the source:", entries(extras), place, verb(extras, "is", "are"));
    for path in &done.summary.only_in_target {
        words.push_str(&format!("\n  {path}"));
    }
    let more = extras.saturating_sub(done.summary.only_in_target.len() as u64);
    if more > 0 {
        words.push_str(&format!("\n  and {} more", format_count(more)));
    }
    match surroundings.prompts.may_delete(&words) {
        Some(true) => Ok(()),
        Some(false) => {
            Err(refused(format!("{} {}, as you said", entries(extras), verb(extras, "stays", "stay"))))
        }
        None if surroundings.cancel.load(Relaxed) => Err(stopped()),
        None => {
            let (stay, them) = (verb(extras, "stays", "stay"), verb(extras, "it", "them"));
            let words =
                format!("{} {stay}, as nobody could be asked; --delete removes {them}", entries(extras));
            Err(refused(words))
        }
    }
}

/// Returns the reason why so many entries must not be deleted, or `None`. `total`: the number of entries that the
/// target had when the run began; `seen`: a description of these.
fn beyond_limit(max: Option<DeletionMax>, extras: u64, (total, seen): (u64, &str)) -> Option<String> {
    let of = format!("{} of the {} {seen}", format_count(extras), entries(total));
    match max {
        Some(DeletionMax::Count(max)) if extras > max => {
            Some(format!("{of} would go, and --max-delete allows {}; none was deleted", format_count(max)))
        }
        Some(DeletionMax::Percent(max)) if u128::from(extras) * 100 > u128::from(total) * u128::from(max) => {
            Some(format!("{of} would go, and --max-delete allows {max} %; none was deleted"))
        }
        None if extras > total / 2 => Some(format!(
            "{of} would go, more than half; is that the right source? --max-delete {extras} allows it; \
             none was deleted"
        )),
        _ => None,
    }
}

/// Returns the word for a count, singular or plural.
fn verb(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{} entries", format_count(count)),
    }
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
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::ssh::Prompts;

    struct Nobody;

    impl Prompts for Nobody {
        fn sudo_password(&mut self, _: &str, _: u32) -> Option<crate::ssh::Secret> {
            None
        }
    }

    impl Observer for Nobody {
        fn event(&self, _: Event) {}
    }

    #[test]
    fn who_stops_it_before_something_goes_is_not_told_that_all_is_done() {
        let mut done = Transfer::default();
        done.summary.counters.entries_only_in_target = 1;
        done.summary.counters.entries_in_target = 3;
        assert!(is_wanted(&done, &Nobody));
        let agreed = Deletion { agreed: true, ..Deletion::default() };
        let ask = |deletion: &Deletion, only_planned: bool, stopped: bool| {
            let cancel = Arc::new(AtomicBool::new(stopped));
            let limits = Arc::default();
            let mut surroundings = Surroundings { prompts: &mut Nobody, observer: &Nobody, cancel, limits };
            agree(&done, deletion, only_planned, &mut surroundings).map_err(|error| error.kind)
        };
        for deletion in [agreed, Deletion::default()] {
            assert_eq!(ask(&deletion, false, true), Err(ErrorKind::Cancelled));
            assert_eq!(ask(&deletion, true, true), Err(ErrorKind::Cancelled));
            assert_eq!(ask(&deletion, true, false), Ok(()));
        }
        assert_eq!(ask(&agreed, false, false), Ok(()));
        assert_eq!(ask(&Deletion::default(), false, false), Err(ErrorKind::Refused));
    }

    #[test]
    fn more_than_half_is_too_much_unless_it_is_allowed() {
        use DeletionMax::{Count, Percent};
        let cases = [
            (None, 5, 10, true),
            (None, 6, 10, false),
            (None, 1, 1, false),
            (Some(Count(6)), 6, 10, true),
            (Some(Count(5)), 6, 10, false),
            (Some(Count(0)), 1, 10, false),
            (Some(Percent(60)), 6, 10, true),
            (Some(Percent(59)), 6, 10, false),
            (Some(Percent(100)), u64::MAX, u64::MAX, true),
        ];
        for (max, extras, total, allowed) in cases {
            let refusal = beyond_limit(max, extras, (total, "at the target"));
            assert_eq!(refusal.is_none(), allowed, "{max:?} {extras} of {total}: {refusal:?}");
        }
    }
}
