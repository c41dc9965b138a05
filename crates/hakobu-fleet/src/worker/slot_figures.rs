//! The figures of a slot's engine over the last seconds, from which the bottleneck is known.

use std::collections::VecDeque;

use hakobu_core::counters::CounterTotals;
use hakobu_core::report::Bottleneck;

use crate::ids::RunId;

/// The length of the time that is judged, in nanoseconds.
const WINDOW_NS: u64 = 5_000_000_000;
/// The time between two samples, in nanoseconds.
const SAMPLE_NS: u64 = 500_000_000;

/// The figures of a slot's engine over the last seconds. They go on from unit to unit of a run, as a unit may be too short to be
/// judged alone.
#[derive(Debug, Default)]
pub struct SlotFigures {
    run: RunId,
    /// The sums of the units that have ended.
    ended: CounterTotals,
    /// The figures of the present unit.
    unit: CounterTotals,
    samples: VecDeque<(u64, CounterTotals)>,
}

impl SlotFigures {
    /// Begins with a unit. Returns true if it is the first one of another run.
    pub fn begin_unit(&mut self, run: RunId, now_ns: u64) -> bool {
        let is_other = self.run != run;
        if !is_other {
            self.ended = self.sum();
            self.unit = CounterTotals::default();
        } else {
            *self = Self { run, ..Self::default() };
            self.samples.push_back((now_ns, CounterTotals::default()));
        }
        is_other
    }

    /// Takes the figures of the present unit.
    pub fn take(&mut self, now_ns: u64, totals: &CounterTotals) {
        self.unit.clone_from(totals);
        if totals.paused_until_s.is_some() {
            // The bottleneck before a pause is not that of the pause.
            self.samples.clear();
        }
        if self.samples.back().is_some_and(|(at, _)| now_ns.saturating_sub(*at) < SAMPLE_NS) {
            return;
        }
        self.samples.push_back((now_ns, self.sum()));
        while self.samples.get(1).is_some_and(|(at, _)| now_ns.saturating_sub(*at) >= WINDOW_NS) {
            self.samples.pop_front();
        }
    }

    /// Returns the name of the present bottleneck; empty if it is not known.
    pub fn bottleneck(&self) -> String {
        let found = self.samples.front().and_then(|(_, before)| Bottleneck::of(&self.sum().since(before)));
        found.map(|found| found.stage).unwrap_or_default()
    }

    /// Returns the figures of all units of the run. Those of the ends are the present unit's.
    fn sum(&self) -> CounterTotals {
        let mut sum = self.unit.clone();
        sum.merge(&self.ended);
        sum
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::counters::LaneStage;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn figures(stage: LaneStage, seconds: u64) -> CounterTotals {
        let mut totals = CounterTotals::default();
        totals.stage_ns[stage as usize] = seconds * SECOND;
        totals
    }

    #[test]
    fn the_last_seconds_decide_over_units() {
        let mut slot = SlotFigures::default();
        let (run, other) = (RunId::new(1).unwrap(), RunId::new(2).unwrap());
        slot.begin_unit(run, 0);
        assert_eq!(slot.bottleneck(), "");
        for second in 1..=20 {
            slot.take(second * SECOND, &figures(LaneStage::Read, second));
        }
        assert_eq!(slot.bottleneck(), "source read");
        // A unit that has told nothing yet does not hide what is known.
        slot.begin_unit(run, 20 * SECOND);
        assert_eq!(slot.bottleneck(), "source read");
        // Within some seconds another bottleneck shows, though the first one had most of the time.
        for second in 1..=5 {
            slot.take((20 + second) * SECOND, &figures(LaneStage::Sync, second));
        }
        assert_eq!(slot.bottleneck(), "target sync");
        assert!(slot.samples.len() <= 11, "{}", slot.samples.len());
        slot.begin_unit(other, 25 * SECOND);
        assert_eq!(slot.bottleneck(), "");
    }

    #[test]
    fn samples_are_few() {
        let mut slot = SlotFigures::default();
        slot.begin_unit(RunId::new(1).unwrap(), 0);
        (0..100_000).for_each(|at| slot.take(at * SECOND / 1000, &figures(LaneStage::Read, 1 + at / 1000)));
        assert!(slot.samples.len() <= 12, "{}", slot.samples.len());
    }
}
