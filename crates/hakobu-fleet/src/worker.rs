//! A broker: asks the leader for units, has the mover of this program carry them out, and commits their results.
//!
//! One thread reports for all units of the broker, which renews their leases. Each slot is a thread that works on one unit at
//! a time. A unit whose lease is over is stopped, and changes nothing more at the target: another broker has it then.

mod broker_unit;
mod errand_threads;
mod granted_exchange;
mod range_sizes;
mod slot;
mod slot_figures;
mod unit_observer;
mod unit_run;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_transfer::shared_run::boot_time_ns;

use crate::bus::BrokerBus;
use crate::errand::ErrandRunner;
use crate::fleet_clock::FleetClock;
use crate::message::{BrokerCall, BrokerReport, BrokerRequest, LeaderAnswer, SentErrand, UnitOrder};
use crate::message_form::{decode, encode};
use crate::names::BrokerName;
use crate::reach::BrokerReach;
use crate::run_request::RequestReader;
use crate::sent_credentials::CredentialReader;
use broker_unit::BrokerUnit;
use errand_threads::ErrandThreads;
pub use range_sizes::RangeSizes;

/// The time between two reports.
const REPORT_EVERY: Duration = Duration::from_millis(500);
/// The time to wait for an answer to a report: much less than a lease, as units whose lease is over are stopped in between.
const REPORT_LIMIT: Duration = Duration::from_secs(3);
/// The time between two messages with the time of this machine, in milliseconds.
const CLOCK_EVERY_MS: u64 = 10_000;
/// The time to wait for the answer to such a message, which is needed for nothing.
const CLOCK_LIMIT: Duration = Duration::from_millis(500);
/// The time to wait for any other answer of the leader.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// The number of times that the answer to an errand is sent.
const ANSWER_ATTEMPTS: u32 = 3;

/// The settings of a broker.
#[derive(Clone, Debug)]
pub struct WorkerSettings {
    /// Its name.
    pub name: BrokerName,
    /// The version of the program.
    pub version: String,
    /// The number of units that it works on at a time.
    pub slots: u16,
    /// A random number of the process.
    pub process: u64,
    /// The locations that it reaches.
    pub reach: BrokerReach,
}

/// A broker.
pub struct BrokerWorker {
    settings: WorkerSettings,
    bus: Arc<dyn BrokerBus>,
    reader: Arc<dyn RequestReader>,
    clock: Arc<dyn FleetClock>,
    /// The clock of leases in nanoseconds.
    now_ns: fn() -> u64,
    observer: Arc<dyn Observer + Send + Sync>,
    units: Mutex<Vec<Arc<BrokerUnit>>>,
    errands: ErrandThreads,
    credentials: Option<Arc<CredentialReader>>,
    ranges: RangeSizes,
    is_draining: AtomicBool,
    /// Asks it to finish what it has, and to end.
    ending: Arc<AtomicBool>,
    /// Asks it to return what it has, and to end.
    stopping: Arc<AtomicBool>,
    has_ended: AtomicBool,
}

impl BrokerWorker {
    /// Creates a broker. `ending` asks it to end soon, `stopping` to end at once. Notices go to the observer.
    pub fn new(
        settings: WorkerSettings,
        (bus, reader): (Arc<dyn BrokerBus>, Arc<dyn RequestReader>),
        (clock, observer): (Arc<dyn FleetClock>, Arc<dyn Observer + Send + Sync>),
        (ending, stopping): (Arc<AtomicBool>, Arc<AtomicBool>),
    ) -> Self {
        Self {
            settings,
            bus,
            reader,
            clock,
            now_ns: boot_time_ns,
            observer,
            units: Mutex::default(),
            errands: ErrandThreads::default(),
            credentials: None,
            ranges: RangeSizes::default(),
            is_draining: AtomicBool::new(false),
            ending,
            stopping,
            has_ended: AtomicBool::new(false),
        }
    }

    /// Has it carry out errands as well.
    #[must_use]
    pub fn with_errands(mut self, runner: Arc<dyn ErrandRunner>) -> Self {
        self.errands = ErrandThreads::new(runner);
        self
    }

    /// Has it read credentials, which units and errands may need.
    #[must_use]
    pub fn with_credentials(mut self, reader: CredentialReader) -> Self {
        self.credentials = Some(Arc::new(reader));
        self
    }

    /// Sets the sizes of the ranges in which it gives large files away.
    #[must_use]
    pub fn with_ranges(mut self, ranges: RangeSizes) -> Self {
        self.ranges = ranges;
        self
    }

    /// Works until it is asked to end. What it has then is given away or finished, and committed.
    pub fn run(&self) {
        std::thread::scope(|scope| {
            let reporter = scope.spawn(|| self.report());
            let slots: Vec<_> =
                (0..self.settings.slots.max(1)).map(|_| scope.spawn(|| self.work())).collect();
            for slot in slots {
                let _has_panicked = slot.join();
            }
            self.has_ended.store(true, Ordering::Release);
            reporter.thread().unpark();
        });
        self.errands.stop();
        // The leader finds out by itself if this is lost.
        let _lost = self.ask(BrokerRequest::Leave);
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire) || self.stopping.load(Ordering::Acquire)
    }

    /// Sends a request to the leader, and returns its answer with the time at which it was asked, in milliseconds.
    fn ask(&self, request: BrokerRequest) -> Result<(LeaderAnswer, u64)> {
        self.ask_within(request, ANSWER_LIMIT)
    }

    fn ask_within(&self, request: BrokerRequest, limit: Duration) -> Result<(LeaderAnswer, u64)> {
        let WorkerSettings { name, process, .. } = &self.settings;
        let bytes = encode(&BrokerCall { broker: name.clone(), process: *process, request })?;
        let asked_ms = self.clock.elapsed_ms();
        let answer = decode(&self.bus.call(bytes, limit)?)?;
        Ok((answer, asked_ms))
    }

    fn units(&self) -> Vec<Arc<BrokerUnit>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reports until all slots have ended.
    fn report(&self) {
        let mut last_words = String::new();
        let mut clock_told_ms: Option<u64> = None;
        while !self.has_ended.load(Ordering::Acquire) {
            let units = self.units();
            // After a sleep, before the network is waited for.
            self.lose_overdue(&units);
            if self.stopping.load(Ordering::Acquire) {
                units.iter().for_each(|unit| unit.stop());
            }
            let report = BrokerReport {
                version: self.settings.version.clone(),
                slots: self.settings.slots,
                is_ending: self.is_ending(),
                units: units.iter().map(|unit| unit.progress(self.clock.elapsed_ms())).collect(),
                key: self.credentials.as_ref().map(|reader| reader.public()),
                reaches: self.settings.reach.typed().map(<[u8]>::to_vec).collect(),
            };
            let words = match self.ask_within(BrokerRequest::Report(report), REPORT_LIMIT) {
                Ok((LeaderAnswer::Orders(orders), asked_ms)) => {
                    self.is_draining.store(orders.is_draining, Ordering::Release);
                    orders.errands.into_iter().for_each(|errand| self.begin_errand(errand, asked_ms));
                    for (unit, order) in units.iter().zip(orders.units) {
                        match order {
                            UnitOrder::Continue { lease_ms, splits, limits } => {
                                unit.renew(asked_ms, lease_ms);
                                unit.set_splits(splits);
                                unit.set_limits(&limits);
                            }
                            UnitOrder::Stop if unit.runs() => self.lose(unit),
                            // Its result is on its way: the answer to that says if it was taken.
                            UnitOrder::Stop => {}
                        }
                    }
                    self.tell_clock(&mut clock_told_ms, asked_ms);
                    String::new()
                }
                Ok((LeaderAnswer::Refused(words), _)) => words,
                Ok(_) => unexpected().to_string(),
                Err(error) => error.to_string(),
            };
            self.tell_once(&mut last_words, words);
            self.lose_overdue(&units);
            self.errands.stop_overdue(self.clock.elapsed_ms());
            std::thread::park_timeout(REPORT_EVERY);
        }
    }

    /// Tells the leader the time of this machine, now and then. One that does not know this request refuses it.
    fn tell_clock(&self, told_ms: &mut Option<u64>, now_ms: u64) {
        if told_ms.is_none_or(|told_ms| now_ms.saturating_sub(told_ms) >= CLOCK_EVERY_MS) {
            *told_ms = Some(now_ms);
            let request = BrokerRequest::Clock(self.clock.moment().get());
            let _is_not_needed = self.ask_within(request, CLOCK_LIMIT);
        }
    }

    /// Stops the units whose leases ended before they could be renewed: the leader gives them to others.
    fn lose_overdue(&self, units: &[Arc<BrokerUnit>]) {
        units.iter().filter(|unit| unit.is_overdue()).for_each(|unit| self.lose(unit));
    }

    /// Stops a unit that is no longer this broker's.
    fn lose(&self, unit: &BrokerUnit) {
        if unit.lose() {
            let words = "a unit is no longer this broker's: what it has not finished is thrown away";
            self.observer.event(Event::Notice { words: words.to_owned() });
        }
    }

    /// Begins with an errand. Its answer is sent from its own thread.
    fn begin_errand(&self, errand: SentErrand, now_ms: u64) {
        let WorkerSettings { name, process, .. } = &self.settings;
        let (bus, broker, process) = (self.bus.clone(), name.clone(), *process);
        self.errands.begin((errand, self.credentials.clone()), now_ms, move |answer| {
            let request = BrokerRequest::ErrandDone(Box::new(answer));
            let Ok(bytes) = encode(&BrokerCall { broker, process, request }) else { return };
            for _attempt in 0..ANSWER_ATTEMPTS {
                if bus.call(bytes.clone(), ANSWER_LIMIT).is_ok() {
                    return;
                }
            }
        });
    }

    /// Tells the user about trouble with the control plane, and when it is over, but each only once.
    fn tell_once(&self, last: &mut String, words: String) {
        if *last == words {
            return;
        }
        let notice = match words.is_empty() {
            true => "the control plane answers again".to_owned(),
            false => words.clone(),
        };
        self.observer.event(Event::Notice { words: notice });
        *last = words;
    }
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Protocol, "asking the control plane", "its answer is not one to this request")
}
