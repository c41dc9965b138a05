//! The machines that are judged together, what the way between them carries, and what it should get.

use hakobu_core::host::HostFacts;

use super::finding::Whose;
use super::way::Way;

/// What a way should get where its capacity is not known: 1 Gbit/s.
const WANTED_BYTES_PER_SECOND: f64 = 125e6;
/// A rate below this share of what is wanted is worth a word.
pub(super) const ENOUGH: f64 = 0.8;

/// Where a capacity comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// It was measured.
    Measured(f64),
    /// The slower of the network devices; the way may carry less.
    Devices(f64),
    /// It is not known.
    Unknown,
}

impl Capacity {
    /// Bytes per second, if they are known.
    pub(super) fn known(self) -> Option<f64> {
        match self {
            Self::Measured(rate) | Self::Devices(rate) => Some(rate),
            Self::Unknown => None,
        }
    }

    /// A rate, but no more than this.
    pub(super) fn bounded(self, rate: f64) -> f64 {
        self.known().map_or(rate, |most| rate.min(most))
    }
}

/// The machines that are judged together, and the way between them.
pub(super) struct Ends<'a> {
    pub(super) here: &'a HostFacts,
    pub(super) there: Option<&'a HostFacts>,
    pub(super) way: &'a Way,
}

impl<'a> Ends<'a> {
    pub(super) fn both(&self) -> impl Iterator<Item = (Whose, &'a HostFacts)> + use<'a> {
        let there = self.there.map(|facts| (Whose::There, facts));
        std::iter::once((Whose::Here, self.here)).chain(there)
    }

    /// What the way carries at most, as far as that is known.
    pub(super) fn capacity(&self) -> Capacity {
        if let Some(rate) = self.way.capacity_bytes_per_second {
            return Capacity::Measured(rate as f64);
        }
        self.devices().map_or(Capacity::Unknown, Capacity::Devices)
    }

    /// The speed of the slower network device, if it is known.
    pub(super) fn devices(&self) -> Option<f64> {
        let speeds = self.both().filter_map(|(_, facts)| facts.leaving_device()?.speed_bits_per_second);
        speeds.min().map(|bits| bits as f64 / 8.0)
    }

    /// What the way should get, in bytes per second.
    pub(super) fn wanted(&self) -> f64 {
        match self.capacity() {
            Capacity::Unknown => WANTED_BYTES_PER_SECOND,
            // A way that is only assumed is not taken for as fast as the device.
            Capacity::Devices(rate) if !self.way.measured => rate.min(WANTED_BYTES_PER_SECOND),
            Capacity::Devices(rate) | Capacity::Measured(rate) => rate,
        }
    }
}
