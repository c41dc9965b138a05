//! The machines that are judged together, and the capacity and target rate of the network path between them.

use hakobu_core::host::HostFacts;

use super::finding::FindingHost;
use super::network_path::NetworkPath;

/// The target rate of a network path of unknown capacity, in bytes per second: 1 Gbit/s.
const WANTED_BYTES_PER_SECOND: f64 = 125e6;
/// The share of the target rate below which a finding is reported.
pub(super) const ENOUGH: f64 = 0.8;

/// The capacity of a network path and its origin. Rates are in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// The measured capacity.
    Measured(f64),
    /// The rate of the slower network device. The network path may carry less.
    Devices(f64),
    /// Unknown.
    Unknown,
}

impl Capacity {
    /// Returns the capacity in bytes per second, if known.
    pub(super) fn known(self) -> Option<f64> {
        match self {
            Self::Measured(rate) | Self::Devices(rate) => Some(rate),
            Self::Unknown => None,
        }
    }

    /// Limits a rate to the capacity.
    pub(super) fn bounded(self, rate: f64) -> f64 {
        self.known().map_or(rate, |most| rate.min(most))
    }
}

/// The machines that are judged together, and the network path between them.
pub(super) struct PathEnds<'a> {
    pub(super) here: &'a HostFacts,
    pub(super) there: Option<&'a HostFacts>,
    pub(super) way: &'a NetworkPath,
}

impl<'a> PathEnds<'a> {
    pub(super) fn both(&self) -> impl Iterator<Item = (FindingHost, &'a HostFacts)> + use<'a> {
        let there = self.there.map(|facts| (FindingHost::There, facts));
        std::iter::once((FindingHost::Here, self.here)).chain(there)
    }

    /// Returns the maximum capacity of the network path, as far as known.
    pub(super) fn capacity(&self) -> Capacity {
        if let Some(rate) = self.way.capacity_bytes_per_second {
            return Capacity::Measured(rate as f64);
        }
        self.devices().map_or(Capacity::Unknown, Capacity::Devices)
    }

    /// Returns the rate of the slower network device in bytes per second, if known.
    pub(super) fn devices(&self) -> Option<f64> {
        let speeds = self.both().filter_map(|(_, facts)| facts.leaving_device()?.speed_bits_per_second);
        speeds.min().map(|bits| bits as f64 / 8.0)
    }

    /// Returns the target rate of the network path in bytes per second.
    pub(super) fn wanted(&self) -> f64 {
        match self.capacity() {
            Capacity::Unknown => WANTED_BYTES_PER_SECOND,
            // An assumed network path is not expected to be as fast as the device.
            Capacity::Devices(rate) if !self.way.measured => rate.min(WANTED_BYTES_PER_SECOND),
            Capacity::Devices(rate) | Capacity::Measured(rate) => rate,
        }
    }
}
