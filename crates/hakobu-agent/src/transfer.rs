//! One copy from the request to its end: attempts, until it is done or what is lost does not come back in time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::engine::Summary;
use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Event;

use crate::attempt::Attempt;
use crate::carryover::Carryover;
use crate::outcome::{Surroundings, Transfer, add_earlier};
use crate::request::CopyRequest;
use crate::retry::{Next, Retries};

/// By then a stop is known that ended a connection.
const STOP_SEEN_WITHIN: Duration = Duration::from_millis(200);

/// Copies once.
pub(crate) fn run_once(
    request: &CopyRequest,
    surroundings: &mut Surroundings<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let mut transfer = attempts(request, surroundings, carryover);
    carryover.outages.end();
    transfer.outages = carryover.outages;
    transfer
}

/// Tries until it is done, or what is lost does not come back in time.
fn attempts(
    request: &CopyRequest,
    surroundings: &mut Surroundings<'_>,
    carryover: &mut Carryover,
) -> Transfer {
    let began = Instant::now();
    carryover.begun = false;
    let mut connect = None;
    let mut earlier: Option<Summary> = None;
    let mut earlier_wire_bytes = None;
    let mut retries = Retries::new(request.retry_for, request.unattended);
    loop {
        let mut transfer = Transfer::default();
        let login_limit = retries.login_limit(Instant::now());
        let carryover = &mut *carryover;
        let attempt = Attempt { request, surroundings: &mut *surroundings, began, login_limit, carryover };
        if let Err(error) = attempt.run(&mut transfer) {
            transfer.summary.fatal.get_or_insert(error);
        }
        connect = connect.or(Some(transfer.connect).filter(|connect| !connect.is_zero()));
        transfer.connect = connect.unwrap_or_default();
        if surroundings.cancel.load(Relaxed) && transfer.summary.fatal.is_some() {
            transfer.summary.fatal = Some(stopped());
        }
        let advanced = transfer.summary.counters.target_written_bytes > 0;
        // Of several files some may not have been.
        carryover.begun |= advanced && request.pairs.is_empty() && request.sources.len() == 1;
        if let Some(earlier) = &earlier {
            add_earlier(&mut transfer.summary, earlier);
        }
        transfer.wire_bytes = sum(transfer.wire_bytes, earlier_wire_bytes);
        let Some(error) = transfer.summary.fatal.clone() else { return transfer };
        let next = retries.after(&error, advanced, Instant::now());
        if next == Next::End {
            return transfer;
        }
        // The Ctrl-C of a terminal reaches ssh as well, whose end may be seen first.
        let (lost_at, asked) = (Instant::now(), !sleep(STOP_SEEN_WITHIN, &surroundings.cancel));
        if asked {
            transfer.summary.fatal = Some(stopped());
            return transfer;
        }
        if connect.is_some() {
            carryover.outages.begin(lost_at);
        }
        match next {
            Next::Again(pause, words) => {
                surroundings.observer.event(Event::Notice { words });
                if !sleep(pause, &surroundings.cancel) {
                    transfer.summary.fatal = Some(stopped());
                    return transfer;
                }
            }
            Next::End => return transfer,
            Next::GiveUp(error) => {
                transfer.summary.fatal = Some(error);
                return transfer;
            }
        }
        earlier_wire_bytes = transfer.wire_bytes;
        earlier = Some(transfer.summary);
    }
}

fn stopped() -> Error {
    Error::new(ErrorKind::Cancelled, "copying", "stopped as asked")
}

/// What both attempts had on the wire, as far as it is known.
fn sum(now: Option<(u64, u64)>, earlier: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (now, earlier) {
        (Some(now), Some(earlier)) => {
            Some((now.0.saturating_add(earlier.0), now.1.saturating_add(earlier.1)))
        }
        (known, None) | (None, known) => known,
    }
}

/// Sleeps unless a stop is asked for.
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
