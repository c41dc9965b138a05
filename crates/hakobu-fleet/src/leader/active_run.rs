//! A run that has not ended, as the leader knows it beside the ledger: which units are ready, and who works on which.

use std::collections::{BTreeMap, VecDeque};

use hakobu_core::error::{Error, Result};

use crate::comparable_location::ComparableLocation;
use crate::filter_ages::with_moments;
use crate::ids::{Epoch, Moment, UnitId, UnitKey};
use crate::ledger::Ledger;
use crate::limit_shares::RecentUse;
use crate::limits_setting::LimitsSetting;
use crate::message::{SentLimits, UnitProgress};
use crate::names::BrokerName;
use crate::run::{RunPhase, RunRow};
use crate::run_figures::RunFigures;
use crate::run_request::FleetRequest;

/// The number of ready units below which further ones are read.
const READY_MIN: usize = 256;
/// The number of ready units that are read at a time.
const READY_PAGE: usize = 2048;
/// The time after which a unit that nobody has taken is offered again in milliseconds.
const OFFERED_FOR_MS: u64 = 5_000;
/// The pause after the first failed attempt of a unit in milliseconds. Each further one doubles it.
const PAUSE_FIRST_MS: u64 = 1_000;
/// The longest pause between attempts in milliseconds.
const PAUSE_MAX_MS: u64 = 60_000;

/// A unit that is ready.
#[derive(Clone, Copy, Debug)]
pub struct ReadyUnit {
    /// The unit.
    pub key: UnitKey,
    /// Its epoch.
    pub epoch: Epoch,
    /// The time by the leader's clock before which nobody gets it, in milliseconds.
    pub not_before_ms: u64,
    /// The time by the leader's clock before which it is not offered again, in milliseconds.
    pub offered_until_ms: u64,
}

/// A unit that is leased.
#[derive(Clone, Debug)]
pub struct LeasedUnit {
    /// The broker.
    pub broker: BrokerName,
    /// The epoch.
    pub epoch: Epoch,
    /// The deadline in the ledger, by the calendar.
    pub deadline: Moment,
    /// The time by the leader's clock at which the lease ends unless it is renewed, in milliseconds.
    pub ends_ms: u64,
    /// The time by the leader's clock at which it began.
    pub since_ms: u64,
    /// True if the unit was asked to give away what waits.
    pub splits: bool,
    /// True if it may have begun under another leader, so that its first report tells what was done before.
    pub was_taken_over: bool,
    /// The last progress.
    pub progress: Option<UnitProgress>,
    /// The bytes per second between the last two reports.
    pub used_bytes: RecentUse,
    /// The operations per second between the last two reports.
    pub used_operations: RecentUse,
    /// The limits that the broker was told last.
    pub told: SentLimits,
}

impl LeasedUnit {
    /// Creates one that begins now, of which nothing is known.
    pub fn new(broker: BrokerName, (epoch, deadline): (Epoch, Moment), ends_ms: u64, since_ms: u64) -> Self {
        Self {
            broker,
            epoch,
            deadline,
            ends_ms,
            since_ms,
            splits: false,
            was_taken_over: false,
            progress: None,
            used_bytes: None,
            used_operations: None,
            told: SentLimits::default(),
        }
    }

    /// Creates one that the ledger has, and that goes on for as long as a lease lasts.
    pub fn taken_over(broker: BrokerName, lease: (Epoch, Moment), ends_ms: u64, now_ms: u64) -> Self {
        Self { was_taken_over: true, ..Self::new(broker, lease, ends_ms, now_ms) }
    }

    /// Takes a report about it.
    pub fn take(&mut self, progress: UnitProgress) {
        if let Some(before) = &self.progress {
            let ms = progress.running_ms.saturating_sub(before.running_ms);
            // One operation in a longer time is more than none.
            let rate = |now: u64, before: u64| {
                (ms > 0).then(|| now.saturating_sub(before).saturating_mul(1000).div_ceil(ms))
            };
            self.used_bytes = rate(progress.bytes, before.bytes).or(self.used_bytes);
            self.used_operations = rate(progress.operations, before.operations).or(self.used_operations);
        }
        if self.told.is_paused {
            // Its needs are not known.
            (self.used_bytes, self.used_operations) = (None, None);
        }
        self.progress = Some(progress);
    }
}

/// A run that has not ended.
#[derive(Debug)]
pub struct ActiveRun {
    /// Its row in the ledger.
    pub row: RunRow,
    /// Its request.
    pub request: FleetRequest,
    /// Its sources and its target.
    pub locations: Vec<ComparableLocation>,
    /// The request as brokers get it: ages in filters are moments.
    pub(super) sent_request: String,
    /// The units that can be leased, the earliest first.
    pub ready: VecDeque<ReadyUnit>,
    /// The leased units.
    pub leased: BTreeMap<UnitId, LeasedUnit>,
    /// The number of attempts in a row of units that failed, for the pause between them.
    attempts: BTreeMap<UnitId, u32>,
    /// The last unit that was read from the ledger.
    read_to: Option<UnitId>,
    /// True if the ledger may have further ready units behind it.
    has_more: bool,
    /// The last error with which a broker returned a unit.
    pub last_error: Option<Error>,
    /// True if its schedule has a blackout now.
    pub is_blackout: bool,
    /// The limits, over all brokers.
    pub limits: Option<LimitsSetting>,
    /// The locations of endpoints with limits that it touches, each with true if a source is there.
    pub(super) endpoints: BTreeMap<Vec<u8>, bool>,
}

impl ActiveRun {
    /// Takes up a run.
    ///
    /// # Errors
    /// Those of reading its request.
    pub fn new(row: RunRow, limits: Option<LimitsSetting>) -> Result<Self> {
        let request = FleetRequest::parse(&row.request)?;
        let sent_request = with_moments(request.clone(), row.started).json()?;
        let locations = ComparableLocation::of_request(&request);
        Ok(Self {
            row,
            request,
            locations,
            sent_request,
            ready: VecDeque::new(),
            leased: BTreeMap::new(),
            attempts: BTreeMap::new(),
            read_to: None,
            has_more: true,
            last_error: None,
            is_blackout: false,
            limits,
            endpoints: BTreeMap::new(),
        })
    }

    /// Notes that units were added in the ledger.
    pub fn has_new_units(&mut self) {
        self.has_more = true;
    }

    /// Reads further ready units if few are left.
    ///
    /// # Errors
    /// Those of the ledger.
    pub fn read_ready(&mut self, ledger: &mut dyn Ledger) -> Result<()> {
        if !self.has_more || self.ready.len() >= READY_MIN {
            return Ok(());
        }
        let units = ledger.ready_units(self.row.id, self.read_to, READY_PAGE)?;
        self.has_more = units.len() >= READY_PAGE;
        for unit in units {
            self.read_to = self.read_to.max(Some(unit.key.unit));
            if !self.leased.contains_key(&unit.key.unit) {
                let (key, epoch) = (unit.key, unit.state.epoch);
                self.ready.push_back(ReadyUnit { key, epoch, not_before_ms: 0, offered_until_ms: 0 });
            }
        }
        Ok(())
    }

    /// Returns true if nothing of it moves now.
    pub fn rests(&self) -> bool {
        self.row.is_paused || self.is_blackout
    }

    /// Returns true if a unit could be leased now.
    pub fn has_ready(&self, now_ms: u64) -> bool {
        !self.rests() && self.ready.iter().any(|unit| unit.not_before_ms <= now_ms)
    }

    /// Takes a ready unit: one of those that were offered, or else the earliest.
    pub fn take_ready(&mut self, offered: &[UnitKey], now_ms: u64) -> Option<ReadyUnit> {
        if self.rests() {
            return None;
        }
        let may = |unit: &ReadyUnit| unit.not_before_ms <= now_ms;
        let wanted =
            self.ready.iter().take(READY_MIN).position(|unit| may(unit) && offered.contains(&unit.key));
        let at = wanted.or_else(|| self.ready.iter().position(may))?;
        self.ready.remove(at)
    }

    /// Returns up to so many ready units that are to be offered now.
    pub fn offer(&mut self, count: usize, now_ms: u64) -> Vec<UnitKey> {
        let is_due = |unit: &&mut ReadyUnit| unit.not_before_ms <= now_ms && unit.offered_until_ms <= now_ms;
        let due = self.ready.iter_mut().take(READY_MIN).filter(is_due).take(count);
        due.map(|unit| {
            unit.offered_until_ms = now_ms.saturating_add(OFFERED_FOR_MS);
            unit.key
        })
        .collect()
    }

    /// Notes that a unit can be leased again. `counts`: the last attempt failed, so that the next one waits.
    pub fn put_back(&mut self, key: UnitKey, epoch: Epoch, counts: bool, now_ms: u64) {
        let mut not_before_ms = 0;
        if counts {
            let attempts = self.attempts.entry(key.unit).or_default();
            *attempts = attempts.saturating_add(1);
            let pause_ms =
                PAUSE_FIRST_MS.checked_shl(*attempts - 1).unwrap_or(PAUSE_MAX_MS).min(PAUSE_MAX_MS);
            not_before_ms = now_ms.saturating_add(pause_ms);
        }
        self.ready.push_front(ReadyUnit { key, epoch, not_before_ms, offered_until_ms: 0 });
    }

    /// Forgets a unit that is gone.
    pub fn forget(&mut self, unit: UnitId) {
        self.leased.remove(&unit);
        self.attempts.remove(&unit);
    }

    /// Returns true if its units look again at entries that were counted before: they remove or compare, or a retry looks at the
    /// whole tree.
    pub fn looks_again(&self) -> bool {
        matches!(self.row.phase, RunPhase::Removal | RunPhase::Verify) || self.has_second_look()
    }

    /// Returns true for a retry that looks at the whole tree.
    pub(super) fn has_second_look(&self) -> bool {
        self.request.is_retry && self.row.phase == RunPhase::Copy && !self.row.cursor.is_empty()
    }

    /// Returns the figures of units under way that count, as their brokers last told.
    pub fn under_way(&self) -> RunFigures {
        self.under_way_without(|_| false)
    }

    /// Returns the figures of units under way but for some.
    pub(super) fn under_way_without(&self, is_out: impl Fn(UnitId) -> bool) -> RunFigures {
        if self.looks_again() {
            return RunFigures::default();
        }
        let units = self.leased.iter().filter(|(unit, _)| !is_out(**unit));
        let told = units.filter_map(|(_, leased)| leased.progress.as_ref());
        told.map(UnitProgress::figures).fold(RunFigures::default(), RunFigures::plus)
    }

    /// Returns true if what units have done that were taken over is not known yet.
    pub fn waits_for_reports(&self) -> bool {
        self.leased.values().any(|leased| leased.was_taken_over && leased.progress.is_none())
    }

    /// Returns the brokers that work on it.
    pub fn brokers(&self) -> impl Iterator<Item = &BrokerName> {
        self.leased.values().map(|unit| &unit.broker)
    }
}
