//! Changes the number of lanes during a run and keeps the number that transfers most.

use std::collections::VecDeque;

use super::shared::EngineState;
use super::tuner::{LaneChange, Tuner, TunerSample};
use crate::counters::CounterTotals;
use crate::event::Event;
use crate::report::Bottleneck;

/// The number of samples over which the bottleneck is determined.
const JUDGED_LOOKS: usize = 6;

/// The tuner of a run, and its latest figures.
pub(super) struct Tuning {
    tuner: Tuner,
    figures: VecDeque<CounterTotals>,
}

impl Tuning {
    /// Returns `None` if the number of lanes is fixed, or if the bytes that arrive are not known.
    pub fn new(shared: &EngineState<'_>) -> Option<Self> {
        let job = shared.setup.job;
        let is_free = job.lanes_max > job.lanes && shared.setup.target.passed().is_some();
        let now_ns = shared.setup.clock.now_ns();
        is_free
            .then(|| Self { tuner: Tuner::new(job.lanes, job.lanes_max, now_ns), figures: VecDeque::new() })
    }

    /// Takes a sample. Returns the new number of lanes if it is to change.
    pub fn look(&mut self, shared: &EngineState<'_>, figures: &CounterTotals) -> Option<usize> {
        let passed = shared.setup.target.passed()?;
        if self.figures.len() == JUDGED_LOOKS {
            self.figures.pop_front();
        }
        let is_bound = shared.pacer.is_paused()
            || self.figures.front().is_some_and(|earlier| Bottleneck::binds_all(&figures.since(earlier)));
        self.figures.push_back(figures.clone());
        let seen = TunerSample {
            now_ns: shared.setup.clock.now_ns(),
            passed,
            has_waiting: shared.queue.has_waiting(),
            is_bound,
        };
        let LaneChange { lanes, told } = self.tuner.look(seen)?;
        if let Some((choice, reason)) = told {
            shared.setup.observer.event(Event::Decision { choice, reason });
        }
        Some(usize::from(lanes))
    }
}
