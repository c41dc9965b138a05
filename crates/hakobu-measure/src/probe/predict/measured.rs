//! What was measured, and what a copy is to do with it.

use std::time::Duration;

use hakobu_core::probe::{MachineFigures, ReadFigures, WayFigures, WriteFigures};

/// What was measured; nothing where it was not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured<'a> {
    /// The place that is read. Without one content comes out of memory.
    pub source: Option<&'a ReadFigures>,
    /// The place that is written to.
    pub target: Option<&'a WriteFigures>,
    /// The machine that has the source.
    pub source_machine: Option<&'a MachineFigures>,
    /// The machine that has the target.
    pub target_machine: Option<&'a MachineFigures>,
    /// The way, from the source to the target.
    pub way: Option<&'a WayFigures>,
    /// Whether there is one: both ends are not in one process.
    pub apart: bool,
    /// How long it took to log in and to make connections.
    pub start: Duration,
    /// A question and its answer.
    pub round_trip: Duration,
    /// How many lanes a copy begins with, and how many it may have in the end.
    pub lanes: (u16, u16),
    /// Bytes a second that a copy is held to, if it is.
    pub limit_bytes_per_second: Option<u64>,
    /// Both places were measured with little load, so they may well do more.
    pub gentle: bool,
}

impl Measured<'_> {
    /// How many it begins with.
    pub(super) fn lanes(&self) -> u16 {
        self.lanes.0.max(1)
    }
}
