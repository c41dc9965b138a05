//! One slot of a broker: it works on one unit at a time.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind};
use hakobu_core::event::Event;

use super::broker_unit::BrokerUnit;
use super::unit_run::{RunCache, UnitOutcome};
use super::{BrokerWorker, unexpected};
use crate::bus::HeldOffer;
use crate::ids::UnitKey;
use crate::message::{BrokerRequest, CommittedWork, GrantedUnit, LeaderAnswer, SentError};
use crate::message_form::decode_offer;
use crate::transition::RefuseCause;

/// The time to wait for an offer before the leader is asked without one.
const OFFER_WAIT: Duration = Duration::from_millis(500);
/// The pause after an error of the bus.
const ERROR_PAUSE: Duration = Duration::from_millis(500);
/// The pause between two attempts to commit.
const COMMIT_PAUSE: Duration = Duration::from_millis(500);
/// The time for which a result is offered to a control plane that does not answer. Work is done again afterwards.
const COMMIT_LIMIT: Duration = Duration::from_secs(3600);

impl BrokerWorker {
    /// Works on units until the broker ends.
    pub(super) fn work(&self) {
        let mut cache = RunCache::default();
        while !self.is_ending() {
            if self.is_draining.load(Ordering::Acquire) {
                std::thread::sleep(ERROR_PAUSE);
                continue;
            }
            let Some((granted, asked_ms)) = self.lease(&[]) else {
                let offer = self.wait_for_offer();
                let offered = offer.as_ref().map(|offer| offered_units(&**offer)).unwrap_or_default();
                if offered.is_empty() || self.is_ending() {
                    continue;
                }
                if let Some((granted, asked_ms)) = self.lease(&offered) {
                    self.carry_out(&mut cache, &granted, asked_ms);
                }
                if let Some(offer) = offer {
                    offer.end();
                }
                continue;
            };
            self.carry_out(&mut cache, &granted, asked_ms);
        }
    }

    fn wait_for_offer(&self) -> Option<Box<dyn HeldOffer>> {
        self.bus.next_offer(OFFER_WAIT).unwrap_or_else(|_lost| {
            std::thread::sleep(ERROR_PAUSE);
            None
        })
    }

    /// Asks for a unit. Returns it with the time at which it was asked for.
    fn lease(&self, offered: &[UnitKey]) -> Option<(GrantedUnit, u64)> {
        let request = BrokerRequest::Lease { offered: offered.to_vec() };
        match self.ask(request) {
            Ok((LeaderAnswer::Leases(units), asked_ms)) => Some((units.into_iter().next()?, asked_ms)),
            // The reporter tells what the trouble is.
            Ok(_) | Err(_) => {
                std::thread::sleep(ERROR_PAUSE);
                None
            }
        }
    }

    /// Works on a unit, and commits or returns it.
    fn carry_out(&self, cache: &mut RunCache, granted: &GrantedUnit, asked_ms: u64) {
        let state = Arc::new(BrokerUnit::new(granted, cache.controls.clone(), asked_ms, self.now_ns));
        self.units.lock().unwrap_or_else(PoisonError::into_inner).push(state.clone());
        let outcome = self.run_unit(cache, granted, &state);
        if matches!(outcome, UnitOutcome::Failed(_)) && state.is_overdue() {
            // That is why it failed.
            self.lose(&state);
        }
        state.engine_ended();
        match outcome {
            _ if state.is_lost() => {}
            UnitOutcome::Done(result) => self.commit(&state, &result),
            UnitOutcome::Failed(error) => {
                let is_stopped = self.stopping.load(Ordering::Acquire);
                let cause = if is_stopped { RefuseCause::Draining } else { RefuseCause::Failed };
                self.give_back(&state, cause, &error);
            }
        }
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        units.retain(|unit| !Arc::ptr_eq(unit, &state));
    }

    /// Commits a result. A repeated commit is answered as the first one.
    fn commit(&self, state: &Arc<BrokerUnit>, result: &CommittedWork) {
        let began_ms = self.clock.elapsed_ms();
        loop {
            let (lease, result) = (state.lease.clone(), Box::new(result.clone()));
            let words = match self.ask(BrokerRequest::Commit { lease, result }) {
                Ok((LeaderAnswer::Done, _)) => return,
                Ok((LeaderAnswer::Lost, _)) => return self.lose(state),
                Ok((LeaderAnswer::Unacceptable(words), _)) => {
                    let error = Error::new(ErrorKind::Protocol, "committing a unit", words);
                    return self.give_back(state, RefuseCause::Failed, &error);
                }
                Ok((LeaderAnswer::Refused(words), _)) => words,
                Ok(_) => unexpected().to_string(),
                Err(error) => error.to_string(),
            };
            let waited = Duration::from_millis(self.clock.elapsed_ms().saturating_sub(began_ms));
            if state.is_lost() || waited >= COMMIT_LIMIT || self.stopping.load(Ordering::Acquire) {
                let words = format!("the result of a unit was not taken: {words}");
                self.observer.event(Event::Notice { words });
                return;
            }
            std::thread::sleep(COMMIT_PAUSE);
        }
    }

    fn give_back(&self, state: &Arc<BrokerUnit>, cause: RefuseCause, error: &Error) {
        if cause == RefuseCause::Failed {
            self.observer.event(Event::Notice { words: format!("a unit failed: {error}") });
        }
        let error = (cause == RefuseCause::Failed).then(|| SentError::from(error));
        // Otherwise the lease ends by itself.
        let _lost = self.ask(BrokerRequest::Return { lease: state.lease.clone(), cause, error });
    }
}

fn offered_units(offer: &dyn HeldOffer) -> Vec<UnitKey> {
    decode_offer(offer.bytes()).map(|offer| offer.units).unwrap_or_default()
}
