//! Keeps all brokers busy: offers what is ready, and has long units give something away while others are idle.

use std::collections::{BTreeMap, BTreeSet};

use super::{ActiveRun, Leader, as_ms};
use crate::ids::RunId;
use crate::message::UnitOffer;
use crate::message_form::encode_offer;
use crate::names::GroupName;
use crate::run::RunPhase;

/// The number of units in one offer.
const OFFER_UNITS: usize = 1;
/// The number of offers that are made to a group at a time.
const OFFERS_AT_ONCE: usize = 32;

impl Leader {
    /// Returns the number of units that idle brokers of each group could take, and the runs that these reach.
    fn free_slots(&self) -> BTreeMap<GroupName, (usize, BTreeSet<RunId>)> {
        let mut free: BTreeMap<GroupName, (usize, BTreeSet<RunId>)> = BTreeMap::new();
        for broker in self.brokers.values().filter(|broker| broker.free() > 0) {
            let is_reached = |run: &&ActiveRun| {
                run.row.group == broker.group && !run.rests() && broker.reach.has_all(&run.locations)
            };
            let mut runs = self.runs.values().filter(is_reached).map(|run| run.row.id).peekable();
            if runs.peek().is_some() {
                let (slots, reached) = free.entry(broker.group.clone()).or_default();
                *slots += broker.free();
                reached.extend(runs);
            }
        }
        free
    }

    /// Returns the runs of a group on which no idle broker may work, because of limits.
    fn full_runs(&self, group: &GroupName) -> BTreeSet<RunId> {
        let idle = || self.brokers.iter().filter(|(_, live)| live.group == *group && live.free() > 0);
        let runs = self.runs.values().filter(|run| run.row.group == *group);
        let full = runs.filter(|run| idle().all(|(broker, _)| self.is_full_for(run, broker)));
        full.map(|run| run.row.id).collect()
    }

    /// Asks as many long units as there are idle brokers to give away what waits.
    pub(super) fn ask_for_splits(&mut self) {
        let (_, now_ms) = self.now();
        let split_after_ms = as_ms(self.settings.split_after);
        for (group, (mut idle, reached)) in self.free_slots() {
            let full = self.full_runs(&group);
            let may_grow =
                |run: &&mut ActiveRun| reached.contains(&run.row.id) && !full.contains(&run.row.id);
            let runs = self.runs.values_mut().filter(may_grow);
            let runs: Vec<_> = runs.collect();
            let ready: usize =
                runs.iter().filter(|run| run.has_ready(now_ms)).map(|run| run.ready.len()).sum();
            idle = idle.saturating_sub(ready);
            let units = runs.into_iter().filter(|run| run.row.phase == RunPhase::Copy);
            let mut units: Vec<_> = units.flat_map(|run| run.leased.values_mut()).collect();
            // Each that was asked already feeds somebody soon.
            idle = idle.saturating_sub(units.iter().filter(|unit| unit.splits).count());
            units.sort_by_key(|unit| unit.since_ms);
            let long = units.into_iter().filter(|unit| {
                !unit.splits
                    && unit.progress.is_some()
                    && now_ms.saturating_sub(unit.since_ms) >= split_after_ms
            });
            long.take(idle).for_each(|unit| unit.splits = true);
        }
    }

    /// Offers ready units to groups that have idle brokers.
    pub(super) fn offer(&mut self) {
        let (_, now_ms) = self.now();
        for (group, (idle, reached)) in self.free_slots() {
            let mut left = idle.min(OFFERS_AT_ONCE);
            for run in self.runs.values_mut().filter(|run| reached.contains(&run.row.id)) {
                if let Err(error) = run.read_ready(&mut *self.ledger) {
                    self.ledger_error = Some(error);
                    return;
                }
                let keys = run.offer(left, now_ms);
                left -= keys.len();
                for units in keys.chunks(OFFER_UNITS) {
                    let offer = UnitOffer { run: run.row.id, units: units.to_vec() };
                    let Ok(bytes) = encode_offer(&offer) else { continue };
                    self.buses.iter().for_each(|bus| bus.offer(&group, bytes.clone()));
                }
            }
        }
    }
}
