//! Decides if `sync` may delete: by the limit, and by asking the user.

use std::sync::atomic::Ordering::Relaxed;

use crate::error::{Error, ErrorKind, Result};
use crate::event::Event;
use crate::outcome::{RunEnvironment, Transfer};
use crate::request::{Deletion, DeletionMax};
use crate::units::format_count;

const DELETING: &str = "deleting in";

/// Returns true if the limits allow the number of extra entries to be deleted and the user agrees, and false if the user
/// does not, who is told that.
///
/// # Errors
/// `Refused` if a limit forbids it, nobody could be asked, or extra entries are in the way of others; `Cancelled`.
pub fn agree(
    done: &Transfer,
    deletion: &Deletion,
    only_planned: bool,
    surroundings: &mut RunEnvironment<'_>,
) -> Result<bool> {
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
        return Ok(true);
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
        Some(true) => Ok(true),
        Some(false) if counters.entries_in_the_way > 0 => {
            let (kept, missing) = (entries(extras), entries(counters.entries_in_the_way));
            let (remain, are) =
                (verb(extras, "remains", "remain"), verb(counters.entries_in_the_way, "is", "are"));
            let words = format!(
                "nothing was deleted, as requested: {kept} {remain} that only the target has, and {missing} of the source \
                 {are} missing, because others are in the way"
            );
            Err(refused(words))
        }
        Some(false) => {
            let extra = if extras == 1 {
                "1 extra entry remains".to_owned()
            } else {
                format!("{} extra entries remain", format_count(extras))
            };
            let words = format!("Nothing deleted, as requested: {extra}");
            surroundings.observer.event(Event::Notice { words });
            Ok(false)
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
        Some(DeletionMax::Count(max)) if extras > max => Some(format!(
            "{of} would be deleted, and --max-delete allows {}; none was deleted",
            format_count(max)
        )),
        Some(DeletionMax::Percent(max)) if u128::from(extras) * 100 > u128::from(total) * u128::from(max) => {
            Some(format!("{of} would be deleted, and --max-delete allows {max} %; none was deleted"))
        }
        None if extras > total / 2 => Some(format!(
            "{of} would be deleted, more than half; is that the right source? --max-delete {extras} allows it; \
             none was deleted"
        )),
        _ => None,
    }
}

/// Returns the word for a count, singular or plural.
pub fn verb(count: u64, one: &'static str, more: &'static str) -> &'static str {
    if count == 1 { one } else { more }
}

/// Returns a count of entries in words.
pub fn entries(count: u64) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{} entries", format_count(count)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;
    use crate::event::Observer;
    use crate::live_limits::LiveLimits;
    use crate::pace::RunLimits;
    use crate::prompts::{Prompts, Secret};

    struct Nobody;

    impl Prompts for Nobody {
        fn sudo_password(&mut self, _: &str, _: u32) -> Option<Secret> {
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
        let agreed = Deletion { agreed: true, ..Deletion::default() };
        let ask = |deletion: &Deletion, only_planned: bool, stopped: bool| {
            let cancel = Arc::new(AtomicBool::new(stopped));
            let limits = Arc::new(LiveLimits::new(RunLimits::default(), Instant::now));
            let mut surroundings = RunEnvironment { prompts: &mut Nobody, observer: &Nobody, cancel, limits };
            agree(&done, deletion, only_planned, &mut surroundings).map_err(|error| error.kind)
        };
        for deletion in [agreed, Deletion::default()] {
            assert_eq!(ask(&deletion, false, true), Err(ErrorKind::Cancelled));
            assert_eq!(ask(&deletion, true, true), Err(ErrorKind::Cancelled));
            assert_eq!(ask(&deletion, true, false), Ok(true));
        }
        assert_eq!(ask(&agreed, false, false), Ok(true));
        assert_eq!(ask(&Deletion::default(), false, false), Err(ErrorKind::Refused));
    }

    /// Answers every question with no, and keeps what is told.
    #[derive(Default)]
    struct Unwilling(Mutex<Vec<String>>);

    impl Prompts for &Unwilling {
        fn sudo_password(&mut self, _: &str, _: u32) -> Option<Secret> {
            None
        }

        fn may_delete(&mut self, _: &str) -> Option<bool> {
            Some(false)
        }
    }

    impl Observer for Unwilling {
        fn event(&self, event: Event) {
            if let Event::Notice { words } = event {
                self.0.lock().unwrap().push(words);
            }
        }
    }

    #[test]
    fn a_user_who_wants_no_deletion_gets_none_and_no_error() {
        let mut done = Transfer::default();
        (done.summary.counters.entries_only_in_target, done.summary.counters.entries_in_target) = (101, 1000);
        let unwilling = Unwilling::default();
        let ask = |done: &Transfer| {
            let limits = Arc::new(LiveLimits::new(RunLimits::default(), Instant::now));
            let (prompts, cancel) = (&mut &unwilling, Arc::default());
            let mut surroundings = RunEnvironment { prompts, observer: &unwilling, cancel, limits };
            agree(done, &Deletion::default(), false, &mut surroundings).map_err(|error| error.kind)
        };
        assert_eq!(ask(&done), Ok(false));
        done.summary.counters.entries_only_in_target = 1;
        assert_eq!(ask(&done), Ok(false));
        let told = unwilling.0.lock().unwrap().clone();
        let words = ["101 extra entries remain", "1 extra entry remains"];
        assert_eq!(told, words.map(|extra| format!("Nothing deleted, as requested: {extra}")));
        // Not all of the source is at the target then.
        done.summary.counters.entries_in_the_way = 1;
        assert_eq!(ask(&done), Err(ErrorKind::Refused));
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
