//! Brokers of a group that reach locations.

use super::{Leader, LiveBroker};
use crate::comparable_location::ComparableLocation;
use crate::names::GroupName;
use crate::run_request::{FleetRequest, LocationText};

/// The brokers of a group that are there, and those of them that reach locations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReachingBrokers {
    /// The number of brokers that are there.
    pub brokers: u64,
    /// The number of those that reach all locations.
    pub reaching: u64,
    /// The locations that none of them reaches.
    pub unreached: Vec<LocationText>,
}

impl Leader {
    /// Returns which brokers of a group reach locations.
    pub fn group_reach(&self, group: &GroupName, locations: &[LocationText]) -> ReachingBrokers {
        let (_, now_ms) = self.now();
        self.reach_of(locations, |live| live.group == *group && !live.is_silent(now_ms))
    }

    /// Returns the locations of a request that no broker of its group reaches that takes units, or all of them if each reaches some.
    pub(super) fn unreached(&self, group: &GroupName, request: &FleetRequest) -> Vec<LocationText> {
        let (_, now_ms) = self.now();
        let locations = request.clone().into_locations();
        let takes = |live: &LiveBroker| {
            live.group == *group && !live.is_silent(now_ms) && !live.is_draining && !live.is_ending
        };
        let reach = self.reach_of(&locations, takes);
        if reach.unreached.is_empty() { locations } else { reach.unreached }
    }

    fn reach_of(&self, locations: &[LocationText], counts: impl Fn(&LiveBroker) -> bool) -> ReachingBrokers {
        let there: Vec<_> = self.brokers.values().filter(|live| counts(live)).collect();
        let compared = locations.iter().map(|text| (text, ComparableLocation::new(&text.0)));
        let compared: Vec<_> = compared.collect();
        let all: Vec<_> = compared.iter().filter_map(|(_, location)| location.clone()).collect();
        let is_unreached = |location: &ComparableLocation| !there.iter().any(|live| live.reach.has(location));
        let unreached = compared.iter().filter(|(_, location)| location.as_ref().is_some_and(is_unreached));
        ReachingBrokers {
            brokers: there.len() as u64,
            reaching: there.iter().filter(|live| live.reach.has_all(&all)).count() as u64,
            unreached: unreached.map(|(text, _)| (*text).clone()).collect(),
        }
    }
}
