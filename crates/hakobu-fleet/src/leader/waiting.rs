//! Runs of which nothing moves although nobody paused them, and what they wait for.

use super::live_broker::SILENT_AFTER_MS;
use super::{ActiveRun, Leader, LeasedUnit, LiveBroker, as_ms};
use crate::names::BrokerName;
use crate::run_wait::RunWait;

impl Leader {
    /// Returns what a run waits for; none if it goes on, or somebody paused it.
    pub fn waits_for(&self, run: &ActiveRun) -> Option<RunWait> {
        let (_, now_ms) = self.now();
        if run.row.is_paused || run.limits.as_ref().is_some_and(|limits| limits.paused) {
            return None;
        }
        if run.is_blackout {
            return Some(RunWait::Blackout);
        }
        if self.is_paused_with_others(run) {
            return Some(RunWait::Limit);
        }
        if run.leased.values().any(|leased| self.silent_ms(leased).is_none()) {
            return None;
        }
        let of_group = |live: &&LiveBroker| live.group == run.row.group && !live.is_silent(now_ms);
        let there = || self.brokers.iter().filter(|(_, live)| of_group(live));
        let takes = |(_, live): &(&BrokerName, &LiveBroker)| !live.is_draining && !live.is_ending;
        if !there().any(|broker| takes(&broker)) {
            return Some(if there().next().is_none() { RunWait::NoBroker } else { RunWait::Draining });
        }
        let reaches = |(_, live): &(&BrokerName, &LiveBroker)| live.reach.has_all(&run.locations);
        let may_reach = || there().filter(takes).filter(reaches);
        if may_reach().next().is_none() {
            return Some(RunWait::Unreachable(self.unreached(&run.row.group, &run.request)));
        }
        let free = || may_reach().filter(|(_, live)| live.free() > 0);
        let is_full = free().next().is_some() && free().all(|(name, _)| self.is_full_for(run, name));
        if is_full && run.leased.is_empty() && run.has_ready(now_ms) {
            return Some(RunWait::Limit);
        }
        let may_take = may_reach().any(|(name, _)| !self.is_full_for(run, name));
        if may_take && run.has_ready(now_ms) {
            return None;
        }
        let until = run.leased.values().map(|leased| leased.ends_ms).max();
        if let Some(until_ms) = until {
            let brokers = run.brokers().cloned().collect();
            return Some(RunWait::SilentBrokers(brokers, until_ms.saturating_sub(now_ms)));
        }
        let next_ms = run.ready.iter().map(|unit| unit.not_before_ms).min()?;
        Some(RunWait::Pause(next_ms.saturating_sub(now_ms)))
    }

    /// Returns the time since the broker of a unit last reported on it in milliseconds, if reports are missing.
    pub fn silent_ms(&self, leased: &LeasedUnit) -> Option<u64> {
        let (_, now_ms) = self.now();
        let lease_ms = as_ms(self.settings.lease);
        let silent_ms = now_ms.saturating_add(lease_ms).saturating_sub(leased.ends_ms);
        (silent_ms >= SILENT_AFTER_MS).then_some(silent_ms)
    }
}
