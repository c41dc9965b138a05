//! The way between two machines.

use std::time::Duration;

/// The way between the two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How long a question and its answer take.
    pub round_trip: Duration,
    /// Whether that was measured: with no other machine named, a way is assumed.
    pub measured: bool,
    /// What the way carries in bytes per second, all connections together, if that was measured.
    pub capacity_bytes_per_second: Option<u64>,
    /// How many connections hakobu opens.
    pub lanes: u16,
}

impl Way {
    /// The way that is assumed where no other machine is named: a long one, where windows matter most.
    pub fn assumed(lanes: u16) -> Self {
        Self {
            round_trip: Duration::from_millis(100),
            measured: false,
            capacity_bytes_per_second: None,
            lanes,
        }
    }

    pub(super) fn round_trip_s(&self) -> f64 {
        // What is measured over ssh is never shorter than this, and nothing is divided by 0.
        self.round_trip.as_secs_f64().max(1e-6)
    }

    /// For people, with its unit.
    pub(super) fn shown(&self) -> String {
        format!("{:.1} ms", self.round_trip_s() * 1e3).replace(".0 ms", " ms")
    }
}
