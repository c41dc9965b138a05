//! The network path between two machines.

use std::time::Duration;

/// The network path between two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkPath {
    /// The round-trip time.
    pub round_trip: Duration,
    /// True if the round-trip time was measured. If no other machine is named, it is assumed.
    pub measured: bool,
    /// The measured capacity in bytes per second, for all connections together.
    pub capacity_bytes_per_second: Option<u64>,
    /// The number of connections that hakobu opens.
    pub lanes: u16,
}

impl NetworkPath {
    /// Returns the network path that is assumed if no other machine is named: a long one, where windows matter most.
    pub fn assumed(lanes: u16) -> Self {
        Self {
            round_trip: Duration::from_millis(100),
            measured: false,
            capacity_bytes_per_second: None,
            lanes,
        }
    }

    pub(super) fn round_trip_s(&self) -> f64 {
        // A time measured over ssh is never shorter than this; it prevents a division by 0.
        self.round_trip.as_secs_f64().max(1e-6)
    }

    /// Formats the round-trip time with its unit.
    pub(super) fn shown(&self) -> String {
        format!("{:.1} ms", self.round_trip_s() * 1e3).replace(".0 ms", " ms")
    }
}
