//! A broker, as the leader sees it now.

use std::collections::BTreeSet;

use crate::broker_key::BrokerPublicKey;
use crate::ids::{Moment, RelationshipId, UnitKey};
use crate::message::BrokerReport;
use crate::names::GroupName;
use crate::reach::BrokerReach;

/// The time after which another process may have the name of a broker that is silent, in milliseconds.
pub(super) const NAME_KEPT_MS: u64 = 10_000;
/// The time after which the ledger is told again which brokers are there, in milliseconds: all of them in one transaction.
pub(super) const TELL_EVERY_MS: u64 = 10_000;
/// The time after which a silent broker is no longer among those that are there, in milliseconds.
pub(super) const SILENT_MAX_MS: u64 = 60_000;
/// The time without a report after which a broker is silent, in milliseconds. It reports twice a second.
pub(super) const SILENT_AFTER_MS: u64 = 3_000;

/// A broker that reported lately.
#[derive(Clone, Debug)]
pub struct LiveBroker {
    /// Its group.
    pub group: GroupName,
    /// The number of its process.
    pub process: u64,
    /// Its version.
    pub version: String,
    /// The number of units that it works on at a time.
    pub slots: u16,
    /// True if it gets no further units, as somebody asked for.
    pub is_draining: bool,
    /// True if it takes no further units, because it ends.
    pub is_ending: bool,
    /// The time by the leader's clock at which it last reported, in milliseconds.
    pub seen_ms: u64,
    /// The last report of which the ledger knows, by its time in milliseconds. 0: it knows of none.
    pub(super) told_ms: u64,
    /// Its units.
    pub units: Vec<UnitKey>,
    /// The key for which credentials are sealed.
    pub(super) key: Option<BrokerPublicKey>,
    /// The locations that it reaches.
    pub reach: BrokerReach,
    /// The relationships of the units that it was given and has.
    pub(super) relationships: BTreeSet<RelationshipId>,
    /// The time by which its clock was ahead of the leader's, in milliseconds, when it last told it and the time before.
    clock_ahead_ms: [Option<i64>; 2],
}

/// The largest difference of clocks that is told, in milliseconds: some 30 000 years.
const CLOCK_AHEAD_MAX_MS: i128 = 1_000_000_000_000_000;

impl LiveBroker {
    /// Creates the state of a broker that reports for the first time.
    pub(super) fn new(group: GroupName, process: u64, now_ms: u64) -> Self {
        Self {
            group,
            process,
            version: String::new(),
            slots: 0,
            is_draining: false,
            is_ending: false,
            seen_ms: now_ms,
            told_ms: 0,
            units: Vec::new(),
            key: None,
            reach: BrokerReach::default(),
            relationships: BTreeSet::new(),
            clock_ahead_ms: [None; 2],
        }
    }

    /// Takes the time of its clock.
    pub(super) fn take_clock(&mut self, broker_ms: u64, now: Moment) {
        let ahead_ms = i128::from(broker_ms) - i128::from(now.get());
        let ahead_ms = ahead_ms.clamp(-CLOCK_AHEAD_MAX_MS, CLOCK_AHEAD_MAX_MS);
        let last = i64::try_from(ahead_ms).ok();
        self.clock_ahead_ms = [last, self.clock_ahead_ms[0]];
    }

    /// Returns the time by which its clock is ahead of the leader's, in milliseconds, if it has told it. A message that was late
    /// makes a clock seem behind: so the larger of two counts.
    pub fn clock_ahead_ms(&self) -> Option<i64> {
        self.clock_ahead_ms.into_iter().flatten().max()
    }

    /// Takes a report.
    pub(super) fn take(&mut self, report: &BrokerReport, now_ms: u64) {
        self.version.clone_from(&report.version);
        self.slots = report.slots;
        self.is_ending = report.is_ending;
        self.seen_ms = now_ms;
        self.key = report.key;
        self.units = report.units.iter().map(|unit| unit.lease.key).collect();
    }

    /// Returns the time since its last report in milliseconds.
    pub fn silent_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.seen_ms)
    }

    /// Returns true if several of its reports are missing.
    pub fn is_silent(&self, now_ms: u64) -> bool {
        self.silent_ms(now_ms) >= SILENT_AFTER_MS
    }

    /// Returns the number of units that it could take now.
    pub fn free(&self) -> usize {
        if self.is_draining || self.is_ending {
            return 0;
        }
        usize::from(self.slots).saturating_sub(self.units.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_late_message_makes_no_clock_wrong() {
        let mut broker = LiveBroker::new(GroupName::new("g").unwrap(), 1, 0);
        assert_eq!(broker.clock_ahead_ms(), None);
        let now = |ms| Moment::new(ms).unwrap();
        for (broker_ms, now_ms, ahead_ms) in [
            (5_000, 5_000, 0),
            (6_000, 14_000, 0),
            (7_000, 7_010, -10),
            (8_000, 8_000, 0),
            (u64::MAX, 0, i64::MAX),
        ] {
            broker.take_clock(broker_ms, now(now_ms));
            let shown = broker.clock_ahead_ms().unwrap();
            assert_eq!(shown, ahead_ms.min(1_000_000_000_000_000), "{broker_ms} at {now_ms}");
        }
        (0..2).for_each(|_| broker.take_clock(0, now(3_600_000)));
        assert_eq!(broker.clock_ahead_ms(), Some(-3_600_000));
    }
}
