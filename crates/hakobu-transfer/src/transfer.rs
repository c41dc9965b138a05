//! Carries out one copy: makes attempts until it is done, or until a lost connection does not come back in time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::engine::RunSummary;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Event;
use hakobu_core::job::Removal;
use hakobu_core::report::ReportMachines;

use crate::attempt::Attempt;
use crate::carryover::Carryover;
use crate::entries_before::EntriesBefore;
use crate::retry::{Retries, RetryDecision};
use hakobu_core::outcome::{RunEnvironment, Transfer, add_earlier};
use hakobu_core::request::CopyRequest;

/// The time within which a stop that ended a connection is noticed.
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(200);

/// Carries out one copy.
pub fn run_once(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let mut transfer = attempts(request, surroundings, carryover);
    carryover.outages.end(Instant::now());
    transfer.outages = carryover.outages;
    transfer
}

/// Makes attempts until the copy is done, or until a lost connection does not come back in time.
fn attempts(
    request: &CopyRequest,
    surroundings: &mut RunEnvironment<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let began = Instant::now();
    (carryover.begun, carryover.was_repeated) = (false, false);
    let mut connect = None;
    let mut machines = ReportMachines::default();
    let mut earlier: Option<RunSummary> = None;
    let mut earlier_wire_bytes = None;
    let mut entries_before = EntriesBefore::after(carryover.created_before);
    let mut retries = Retries::new(request.retry_for, request.unattended);
    loop {
        let mut transfer = Transfer::default();
        let left = what_is_left(request, earlier.as_ref());
        let login_limit = retries.login_limit(Instant::now());
        let carryover = &mut *carryover;
        carryover.entries_made = Some(0);
        let attempt = Attempt {
            request: &left,
            surroundings: &mut *surroundings,
            began,
            login_limit,
            carryover,
            exchange: None,
        };
        if let Err(error) = attempt.run(&mut transfer) {
            transfer.summary.fatal.get_or_insert(error);
        }
        connect = connect.or(Some(transfer.connect).filter(|connect| !connect.is_zero()));
        transfer.connect = connect.unwrap_or_default();
        if transfer.machines == ReportMachines::default() {
            transfer.machines.clone_from(&machines);
        }
        machines.clone_from(&transfer.machines);
        if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
            transfer.summary.fatal = Some(stopped());
        }
        if request.removal == Removal::Count {
            let made = if request.dry_run { Some(0) } else { carryover.entries_made };
            transfer.target_may_have_more = !entries_before.count(&mut transfer.summary.counters, made);
        }
        let advanced = transfer.summary.counters.target_written_bytes > 0;
        // Of several files some may not have been started anew.
        carryover.begun |= advanced && request.pairs.is_empty() && request.sources.len() == 1;
        if let Some(earlier) = &earlier {
            add_earlier(&mut transfer.summary, earlier);
        }
        transfer.wire_bytes = sum(transfer.wire_bytes, earlier_wire_bytes);
        let Some(error) = transfer.summary.fatal.clone() else { return transfer };
        let next = retries.after(&error, advanced, Instant::now());
        if next == RetryDecision::End {
            return transfer;
        }
        // Ctrl-C in a terminal reaches ssh as well, whose end may be noticed first.
        let (lost_at, asked) = (Instant::now(), !sleep(STOP_SEEN_WITHIN, &surroundings.cancel));
        if asked {
            transfer.summary.fatal = Some(stopped());
            return transfer;
        }
        if connect.is_some() {
            carryover.outages.begin(lost_at);
        }
        match next {
            RetryDecision::Again(pause, words) => {
                surroundings.observer.event(Event::Notice { words });
                if request.itemize && connect.is_some() {
                    let words = "entries that the target completed just before the connection was lost are now \
                        unchanged, and are not listed";
                    surroundings.observer.event(Event::Notice { words: words.to_owned() });
                }
                if !sleep(pause, &surroundings.cancel) {
                    transfer.summary.fatal = Some(stopped());
                    return transfer;
                }
            }
            RetryDecision::End => return transfer,
            RetryDecision::GiveUp(error) => {
                transfer.summary.fatal = Some(error);
                return transfer;
            }
        }
        carryover.was_repeated = true;
        earlier_wire_bytes = transfer.wire_bytes;
        earlier = Some(transfer.summary);
    }
}

/// Returns the request for an attempt after earlier ones, which share one limit of removals. Entries removed in the
/// last moment before an engine was lost are not known, and that many may be removed once more.
fn what_is_left(request: &CopyRequest, earlier: Option<&RunSummary>) -> CopyRequest {
    let deleted = earlier.map_or(0, |earlier| earlier.counters.entries_deleted);
    CopyRequest { removals_max: request.removals_max.saturating_sub(deleted), ..request.clone() }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "copying", "stopped as asked")
}

/// Returns the bytes that both attempts sent and received, as far as known.
fn sum(now: Option<(u64, u64)>, earlier: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (now, earlier) {
        (Some(now), Some(earlier)) => {
            Some((now.0.saturating_add(earlier.0), now.1.saturating_add(earlier.1)))
        }
        (known, None) | (None, known) => known,
    }
}

/// Sleeps for `time`. Returns false if a stop was requested meanwhile.
fn sleep(time: Duration, cancel: &AtomicBool) -> bool {
    let end = Instant::now() + time;
    while Instant::now() < end {
        if cancel.load(Relaxed) {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_go_is_less_by_what_has_gone() {
        let request = CopyRequest { removals_max: 10, ..CopyRequest::default() };
        assert_eq!(what_is_left(&request, None).removals_max, 10);
        let mut earlier = RunSummary::default();
        for (deleted, left) in [(3, 7), (10, 0), (12, 0)] {
            earlier.counters.entries_deleted = deleted;
            assert_eq!(what_is_left(&request, Some(&earlier)).removals_max, left);
        }
    }
}
