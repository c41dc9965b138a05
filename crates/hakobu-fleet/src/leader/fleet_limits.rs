//! Limits that hold over the whole fleet, divided among the units under way by what they used lately. They are changed while
//! runs go on.

use std::collections::BTreeSet;

use super::limit_scope::LimitScope;
use super::limited_endpoint::{LimitedEndpoint, endpoints_of};
use super::{ActiveRun, Leader, LeasedUnit, Then};
use crate::ids::{RunId, UnitId, UnitKey};
use crate::limit_shares::{LimitUse, next_share};
use crate::limits_setting::{LEAST_BYTES_PER_SECOND, LEAST_OPERATIONS_PER_SECOND, LimitsSetting};
use crate::message::SentLimits;
use crate::names::{BrokerName, GroupName};

impl Leader {
    /// Replaces the limits of a group, as the ledger has them.
    pub(super) fn set_group_limits(&mut self, group: GroupName, limits: Option<LimitsSetting>) {
        match limits {
            Some(limits) => self.group_limits.insert(group, limits),
            None => self.group_limits.remove(&group),
        };
    }

    /// Returns the limits of groups.
    pub fn all_group_limits(&self) -> impl Iterator<Item = (&GroupName, &LimitsSetting)> {
        self.group_limits.iter()
    }

    /// Replaces the limits of the endpoint at a location, as the ledger has them.
    pub(super) fn set_endpoint_limits(&mut self, location: Vec<u8>, limited: Option<LimitedEndpoint>) {
        match limited {
            Some(limited) => self.endpoint_limits.insert(location, limited),
            None => self.endpoint_limits.remove(&location),
        };
        self.find_endpoints();
    }

    /// Finds the endpoints with limits that each run touches.
    pub(super) fn find_endpoints(&mut self) {
        for run in self.runs.values_mut() {
            run.endpoints = endpoints_of(&run.request, &self.endpoint_limits);
        }
    }

    /// Returns the limits of endpoints by their locations, each with the number of runs under way that touch it.
    pub fn all_endpoint_limits(&self) -> impl Iterator<Item = (&[u8], &LimitsSetting, u64)> {
        self.endpoint_limits.iter().map(|(location, limited)| {
            (&location[..], &limited.limits, self.runs_in(LimitScope::Endpoint(location)).count() as u64)
        })
    }

    /// Returns the limits that count for a run, each with the runs that share it.
    pub(crate) fn limits_for<'a>(
        &'a self,
        run: &'a ActiveRun,
    ) -> impl Iterator<Item = (&'a LimitsSetting, LimitScope<'a>)> {
        let group = &run.row.group;
        let of_run = run.limits.iter().map(|limits| (limits, LimitScope::Run(run.row.id)));
        let of_group = self.group_limits.get(group).map(|limits| (limits, LimitScope::Group(group)));
        let of_endpoints = run.endpoints.keys().filter_map(|location| {
            let limited = self.endpoint_limits.get(location)?;
            Some((&limited.limits, LimitScope::Endpoint(location)))
        });
        of_run.chain(of_group).chain(of_endpoints)
    }

    /// Returns the runs that share a limit.
    fn runs_in<'a>(&'a self, scope: LimitScope<'a>) -> impl Iterator<Item = &'a ActiveRun> {
        self.runs.values().filter(move |run| scope.has(run))
    }

    /// Returns the limits of one unit of a run, and notes that its broker is told: its share in each of those that count for the
    /// run.
    pub(super) fn unit_limits(&mut self, key: UnitKey) -> SentLimits {
        let Some(active) = self.runs.get(&key.run) else { return SentLimits::default() };
        let shares = self.limits_for(active).map(|(limits, scope)| {
            let mut share = self.share(limits, scope, key.unit);
            if let LimitScope::Endpoint(location) = scope
                && active.endpoints.get(location) == Some(&false)
            {
                // It is read from elsewhere.
                share.source_p99_us = None;
            }
            share
        });
        let mut limits = shares.reduce(|one, other| stricter(&one, &other)).unwrap_or_default();
        limits.is_paused |= active.rests();
        if let Some(leased) = self.runs.get_mut(&key.run).and_then(|run| run.leased.get_mut(&key.unit)) {
            leased.told.clone_from(&limits);
        }
        limits
    }

    /// Returns the share of a unit in limits.
    fn share(&self, limits: &LimitsSetting, scope: LimitScope<'_>, unit: UnitId) -> SentLimits {
        let units = self.runs_in(scope).flat_map(|run| {
            let is_held = self.is_held(run);
            run.leased.iter().map(move |(id, leased)| SharingUnit { id: *id, leased, is_held })
        });
        share(limits, &units.collect::<Vec<_>>(), unit)
    }

    /// Returns true if a run gets no further unit for a broker: as many brokers work on the runs of one of its limits as that
    /// allows, and this is none of them, or another share of it would be too small.
    pub(super) fn is_full_for(&self, run: &ActiveRun, broker: &BrokerName) -> bool {
        self.limits_for(run).any(|(limits, scope)| {
            let (most_units, most_brokers) = (units_max(limits), brokers_max(limits));
            if (most_units, most_brokers) == (usize::MAX, usize::MAX) {
                return false;
            }
            let moving = || self.runs_in(scope).filter(|run| !self.is_held(run));
            let leased = moving().flat_map(ActiveRun::brokers);
            let leasing = self.leasing().filter(|(id, _)| moving().any(|run| run.row.id == *id));
            let units: Vec<_> = leased.chain(leasing.map(|(_, broker)| broker)).collect();
            let brokers: BTreeSet<_> = units.iter().copied().collect();
            units.len() >= most_units || !brokers.contains(broker) && brokers.len() >= most_brokers
        })
    }

    /// Returns true if a run is paused, by itself or with others.
    fn is_held(&self, run: &ActiveRun) -> bool {
        run.rests() || self.limits_for(run).any(|(limits, _)| limits.paused)
    }

    /// Returns true if a limit that a run shares with others pauses it.
    pub(super) fn is_paused_with_others(&self, run: &ActiveRun) -> bool {
        let mut shared = self.limits_for(run).filter(|(_, scope)| !matches!(scope, LimitScope::Run(_)));
        shared.any(|(limits, _)| limits.paused)
    }

    /// Returns the runs and the brokers of leases that wait for the ledger.
    fn leasing(&self) -> impl Iterator<Item = (RunId, &BrokerName)> {
        self.pending.iter().filter_map(|(_, then)| match then {
            Then::Lease { broker, asked: (key, _), .. } => Some((key.run, broker)),
            _ => None,
        })
    }
}

/// A unit of a run that shares a limit.
#[derive(Clone, Copy)]
struct SharingUnit<'a> {
    id: UnitId,
    leased: &'a LeasedUnit,
    /// True if its run is paused. What it was told counts until it has heard of that.
    is_held: bool,
}

/// Returns the number of units that limits can be divided among: each needs a share that the engine can keep.
fn units_max(limits: &LimitsSetting) -> usize {
    let by_bytes = limits.bytes_per_second.map(|rate| rate / LEAST_BYTES_PER_SECOND);
    let by_operations =
        limits.operations_per_second.map(|rate| u64::from(rate) / LEAST_OPERATIONS_PER_SECOND);
    let most = by_bytes.into_iter().chain(by_operations).min();
    most.map_or(usize::MAX, |most| usize::try_from(most.max(1)).unwrap_or(usize::MAX))
}

/// Returns the number of brokers that may work.
fn brokers_max(limits: &LimitsSetting) -> usize {
    limits.brokers.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// Returns the units that work under limits: in the order of their numbers, as many as may. There are more if limits were lowered,
/// or if a run goes on that was paused. The others rest until some of these have ended.
fn working<'a>(limits: &LimitsSetting, units: &[SharingUnit<'a>]) -> Vec<SharingUnit<'a>> {
    let (most_units, most_brokers) = (units_max(limits), brokers_max(limits));
    let mut units: Vec<_> = units.iter().copied().filter(|unit| !unit.is_held).collect();
    units.sort_by_key(|unit| unit.id);
    let mut brokers = BTreeSet::new();
    units.retain(|unit| {
        let may = brokers.contains(&unit.leased.broker) || brokers.len() < most_brokers;
        if may {
            brokers.insert(&unit.leased.broker);
        }
        may
    });
    units.truncate(most_units);
    units
}

/// Returns the share of one of these units.
fn share(limits: &LimitsSetting, units: &[SharingUnit<'_>], unit: UnitId) -> SentLimits {
    let working = working(limits, units);
    let Some(index) = working.iter().position(|other| other.id == unit) else {
        return SentLimits { is_paused: true, ..SentLimits::default() };
    };
    let part = |total: u64, least: u64, of: fn(&LeasedUnit) -> LimitUse| {
        let parts: Vec<LimitUse> = working.iter().map(|unit| of(unit.leased)).collect();
        let rest = units.iter().filter(|unit| working.iter().all(|working| working.id != unit.id));
        let kept = rest.map(|unit| of(unit.leased).share).fold(0, u64::saturating_add);
        next_share(total, least, &parts, kept, index)
    };
    let bytes = limits.bytes_per_second.map(|rate| part(rate, LEAST_BYTES_PER_SECOND, bytes_of));
    let operations = limits.operations_per_second.map(|rate| {
        let part = part(rate.into(), LEAST_OPERATIONS_PER_SECOND, operations_of);
        u32::try_from(part).unwrap_or(u32::MAX)
    });
    SentLimits {
        bytes_per_second: bytes,
        operations_per_second: operations,
        source_p99_us: limits.source_p99_ms.map(|ms| (ms * 1000.0).round() as u32),
        // Without a share, it waits for what the others give back.
        is_paused: limits.paused || bytes == Some(0) || operations == Some(0),
    }
}

fn bytes_of(leased: &LeasedUnit) -> LimitUse {
    let share = leased.told.bytes_per_second.filter(|_| !leased.told.is_paused);
    LimitUse { used: leased.used_bytes, share: share.unwrap_or_default() }
}

fn operations_of(leased: &LeasedUnit) -> LimitUse {
    let share = leased.told.operations_per_second.filter(|_| !leased.told.is_paused);
    LimitUse { used: leased.used_operations, share: share.map(u64::from).unwrap_or_default() }
}

fn stricter(one: &SentLimits, other: &SentLimits) -> SentLimits {
    fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
    SentLimits {
        bytes_per_second: least(one.bytes_per_second, other.bytes_per_second),
        operations_per_second: least(one.operations_per_second, other.operations_per_second),
        source_p99_us: least(one.source_p99_us, other.source_p99_us),
        is_paused: one.is_paused || other.is_paused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{Epoch, Moment};
    use crate::limit_shares::RecentUse;

    fn leased(broker: u64, used: RecentUse) -> LeasedUnit {
        let broker = BrokerName::new(format!("b{broker}")).unwrap();
        let times = (Epoch::default(), Moment::default());
        LeasedUnit { used_bytes: used, used_operations: used, ..LeasedUnit::new(broker, times, 0, 0) }
    }

    /// Returns what units are told, each in its turn, twice.
    fn told(limits: &LimitsSetting, used: &[RecentUse]) -> Vec<SentLimits> {
        let mut units: Vec<_> = used.iter().zip(0..).map(|(used, broker)| leased(broker, *used)).collect();
        for index in (0..units.len()).chain(0..units.len()) {
            let id = |index: usize| UnitId::new(index as u64 + 1).unwrap();
            let sharing = units.iter().enumerate().map(|(index, leased)| SharingUnit {
                id: id(index),
                leased,
                is_held: false,
            });
            units[index].told = share(limits, &sharing.collect::<Vec<_>>(), id(index));
        }
        units.into_iter().map(|leased| leased.told).collect()
    }

    #[test]
    fn shares_are_parts_of_the_limit() {
        let limits = LimitsSetting {
            bytes_per_second: Some(90_000),
            operations_per_second: Some(10),
            source_p99_ms: Some(0.5),
            ..LimitsSetting::default()
        };
        let equal = told(&limits, &[None; 3]);
        assert!(equal.iter().all(|share| share.bytes_per_second == Some(30_000)), "{equal:?}");
        let operations: Vec<_> = equal.iter().filter_map(|share| share.operations_per_second).collect();
        assert_eq!(operations, [3, 3, 4]);
        assert_eq!((equal[0].source_p99_us, equal[0].is_paused), (Some(500), false));
        let by_use = told(&limits, &[Some(0), None, None]);
        let (idle, busy) = (&by_use[0], &by_use[2]);
        assert_eq!((idle.bytes_per_second, idle.operations_per_second), (Some(10_000), Some(1)));
        assert_eq!((busy.bytes_per_second, busy.operations_per_second), (Some(40_000), Some(5)));
        let paused = SentLimits { bytes_per_second: Some(20_000), is_paused: true, ..SentLimits::default() };
        let both = stricter(&equal[1], &paused);
        assert_eq!((both.bytes_per_second, both.operations_per_second), (Some(20_000), Some(3)));
        assert!(both.is_paused);
    }

    #[test]
    fn units_that_a_limit_has_no_share_for_rest() {
        let limits = LimitsSetting { bytes_per_second: Some(49_999), ..LimitsSetting::default() };
        assert_eq!(units_max(&limits), 4);
        let many = told(&limits, &[None; 1000]);
        let total: u64 =
            many.iter().filter(|share| !share.is_paused).filter_map(|share| share.bytes_per_second).sum();
        assert!((49_900..50_000).contains(&total), "{total}");
        assert_eq!(many.iter().position(|share| share.is_paused), Some(4));
        assert!(many[4..].iter().all(|share| share.is_paused));
        let few = LimitsSetting { operations_per_second: Some(3), ..limits };
        assert_eq!(told(&few, &[None; 9]).iter().filter(|share| !share.is_paused).count(), 3);
        let brokers = LimitsSetting { brokers: Some(2), ..LimitsSetting::default() };
        assert_eq!(units_max(&brokers), usize::MAX);
        let held: Vec<_> = told(&brokers, &[None; 4]).iter().map(|share| share.is_paused).collect();
        assert_eq!(held, [false, false, true, true]);
    }
}
