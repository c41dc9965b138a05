//! The measurements from which a copy is predicted, and the settings of that copy.

use std::time::Duration;

use hakobu_core::probe::{MachineFigures, ReadFigures, WayFigures, WriteFigures};

/// The measurements and settings; `None` if something was not measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measurements<'a> {
    /// The source. Without one, content comes from memory.
    pub source: Option<&'a ReadFigures>,
    /// The target.
    pub target: Option<&'a WriteFigures>,
    /// The machine with the source.
    pub source_machine: Option<&'a MachineFigures>,
    /// The machine with the target.
    pub target_machine: Option<&'a MachineFigures>,
    /// The network path from the source to the target.
    pub way: Option<&'a WayFigures>,
    /// True if there is a network path, that is, if the two ends are not in one process.
    pub apart: bool,
    /// The time for login and connection setup.
    pub start: Duration,
    /// The round-trip time.
    pub round_trip: Duration,
    /// The number of lanes at the start of a copy, and the maximum number.
    pub lanes: (u16, u16),
    /// The rate limit of the copy in bytes per second, if any.
    pub limit_bytes_per_second: Option<u64>,
    /// True if both ends were measured with gentle load, so they may be faster.
    pub gentle: bool,
}

impl Measurements<'_> {
    /// Returns the number of lanes at the start.
    pub(super) fn lanes(&self) -> u16 {
        self.lanes.0.max(1)
    }
}
