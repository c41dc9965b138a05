//! Limits that hold over the whole fleet, divided among the units under way by what they used lately. They are changed while
//! runs go on.

use std::collections::BTreeSet;

use super::limited_endpoint::{LimitedEndpoint, endpoints_of};
use super::{ActiveRun, Leader, LeasedUnit, Then};
use crate::ids::{RunId, UnitId, UnitKey};
use crate::limit_shares::{RecentUse, limit_shares};
use crate::limits_setting::{LEAST_BYTES_PER_SECOND, LimitsSetting};
use crate::message::SentLimits;
use crate::names::{BrokerName, GroupName};

/// The runs that share a limit.
#[derive(Clone, Copy, Debug)]
enum LimitScope<'a> {
    /// One run.
    Run(RunId),
    /// All runs of a group.
    Group(&'a GroupName),
    /// All runs that touch an endpoint.
    Endpoint(&'a [u8]),
}

impl LimitScope<'_> {
    /// Returns true if a run is among them.
    fn has(self, run: &ActiveRun) -> bool {
        match self {
            Self::Run(id) => run.row.id == id,
            Self::Group(group) => run.row.group == *group,
            Self::Endpoint(location) => run.endpoints.contains_key(location),
        }
    }
}

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
    fn limits_for<'a>(&'a self, run: &'a ActiveRun) -> impl Iterator<Item = (&'a LimitsSetting, LimitScope<'a>)> {
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

    /// Returns the limits of one unit of a run: its share in each of those that count for the run.
    pub(super) fn unit_limits(&self, key: UnitKey) -> SentLimits {
        let Some(active) = self.runs.get(&key.run) else { return SentLimits::default() };
        let shares = self.limits_for(active).map(|(limits, scope)| {
            let mut share = share(limits, self.runs_in(scope).flat_map(|run| &run.leased), key.unit);
            if let LimitScope::Endpoint(location) = scope
                && active.endpoints.get(location) == Some(&false)
            {
                // It is read from elsewhere.
                share.source_p99_ms = None;
            }
            share
        });
        let mut limits = shares.reduce(|one, other| stricter(&one, &other)).unwrap_or_default();
        limits.is_paused |= active.rests();
        limits
    }

    /// Returns true if a run gets no further broker: as many work on the runs of one of its limits as that allows, and this is
    /// none of them.
    pub(super) fn is_full_for(&self, run: &ActiveRun, broker: &BrokerName) -> bool {
        self.limits_for(run).any(|(limits, scope)| {
            let Some(most) = limits.brokers else { return false };
            let moving = || self.runs_in(scope).filter(|run| !run.is_held());
            let leased = moving().flat_map(ActiveRun::brokers);
            let leasing = self.leasing().filter(|(id, _)| moving().any(|run| run.row.id == *id));
            let brokers: BTreeSet<_> = leased.chain(leasing.map(|(_, broker)| broker)).collect();
            !brokers.contains(broker) && brokers.len() >= most as usize
        })
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

/// Returns the limits of one of these units, or of one more.
fn share<'a>(
    limits: &LimitsSetting,
    units: impl Iterator<Item = (&'a UnitId, &'a LeasedUnit)>,
    unit: UnitId,
) -> SentLimits {
    let units: Vec<_> = units.collect();
    let part = |total: u64, least: u64, used: fn(&LeasedUnit) -> RecentUse| {
        let mut used: Vec<RecentUse> = units.iter().map(|(_, leased)| used(leased)).collect();
        let at = units.iter().position(|(other, _)| **other == unit).unwrap_or_else(|| {
            used.push(None);
            used.len() - 1
        });
        limit_shares(total, least, &used).get(at).copied().unwrap_or(0).max(least)
    };
    SentLimits {
        bytes_per_second: limits
            .bytes_per_second
            .map(|rate| part(rate, LEAST_BYTES_PER_SECOND, |leased| leased.used_bytes)),
        operations_per_second: limits.operations_per_second.map(|rate| {
            let part = part(rate.into(), 1, |leased| leased.used_operations);
            u32::try_from(part).unwrap_or(u32::MAX)
        }),
        source_p99_ms: limits.source_p99_ms.map(|ms| ms.ceil().clamp(1.0, 60_000.0) as u32),
        is_paused: limits.paused,
    }
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
        source_p99_ms: least(one.source_p99_ms, other.source_p99_ms),
        is_paused: one.is_paused || other.is_paused,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::ids::{Epoch, Moment};
    use crate::names::BrokerName;

    fn units(used: &[RecentUse]) -> BTreeMap<UnitId, LeasedUnit> {
        let broker = || BrokerName::new("b").unwrap();
        let times = (Epoch::default(), Moment::default());
        let unit = |used: RecentUse| LeasedUnit {
            used_bytes: used,
            used_operations: used,
            ..LeasedUnit::new(broker(), times, 0, 0)
        };
        (1..).zip(used).map(|(number, used)| (UnitId::new(number).unwrap(), unit(*used))).collect()
    }

    #[test]
    fn shares_are_parts_and_never_nothing() {
        let limits = LimitsSetting {
            bytes_per_second: Some(90_000),
            operations_per_second: Some(10),
            source_p99_ms: Some(0.5),
            ..LimitsSetting::default()
        };
        let of =
            |used: &[RecentUse], unit: u64| share(&limits, units(used).iter(), UnitId::new(unit).unwrap());
        let one = of(&[None; 3], 2);
        assert_eq!(of(&[None; 2], 77).bytes_per_second, Some(30_000), "one that is being leased counts");
        let (idle, busy) = (of(&[Some(0), None, None], 1), of(&[Some(0), None, None], 3));
        assert_eq!((idle.bytes_per_second, idle.operations_per_second), (Some(10_000), Some(1)));
        assert_eq!((busy.bytes_per_second, busy.operations_per_second), (Some(40_000), Some(5)));
        assert_eq!((one.bytes_per_second, one.operations_per_second), (Some(30_000), Some(3)));
        assert_eq!((one.source_p99_ms, one.is_paused), (Some(1), false));
        let small = of(&[None; 1000], 1);
        assert_eq!((small.bytes_per_second, small.operations_per_second), (Some(10_000), Some(1)));
        let paused = SentLimits { bytes_per_second: Some(20_000), is_paused: true, ..SentLimits::default() };
        let both = stricter(&one, &paused);
        assert_eq!((both.bytes_per_second, both.operations_per_second), (Some(20_000), Some(3)));
        assert!(both.is_paused);
    }
}
