//! Tries whether sending a changed file completely is faster, by sending some chunks without comparing.

use super::*;
use crate::engine::whole_file::{DecisionFacts, WholeDecision, WholeFileChoice};

impl Worker<'_> {
    /// Returns the rate of comparing so far in bytes per second if this lane is to make the trial.
    pub(super) fn is_to_try_whole(&mut self, file: &LargeFile) -> Option<f64> {
        // If nothing is equal, comparing ends by itself.
        if !file.may_go_whole() || !file.finds_equal() {
            return None;
        }
        let target = self.shared.setup.target;
        let round_trip = || target.passed().map(|passed| passed.round_trip_least);
        match file.whole.next(self.whole_facts(file), round_trip) {
            WholeDecision::Compare => None,
            WholeDecision::Try(comparing) => Some(comparing),
            WholeDecision::Tell(choice, reason) => {
                self.tell_whole(file, choice, reason);
                None
            }
        }
    }

    /// Reports the decision for the rest of the file, and applies it.
    fn tell_whole(&self, file: &LargeFile, choice: &str, reason: String) {
        if file.whole.pays() {
            file.moves.forgo();
        }
        let choice = format!("{}: {choice}", file.target);
        self.shared.setup.observer.event(Event::Decision { choice, reason });
    }

    fn whole_facts(&self, file: &LargeFile) -> DecisionFacts {
        DecisionFacts {
            size_bytes: file.size_bytes(),
            compared_bytes: file.compared_bytes(),
            now_ns: self.shared.setup.clock.now_ns(),
        }
    }

    /// Makes the trial while nothing else of this lane is in progress. Returns false if the run was stopped.
    pub(super) fn try_whole(&mut self, file: &Arc<LargeFile>, comparing: f64) -> Result<bool> {
        if !self.wait_for_all()? {
            return Ok(false);
        }
        let clock = self.shared.setup.clock;
        let (began_ns, mut bytes) = (clock.now_ns(), 0);
        for _ in 0..WholeFileChoice::chunks_to_try(file.chunks()) {
            let Some(extent) = file.take_chunk() else { break };
            let done = self.chunk(file, ChunkCursor::only(extent), None);
            self.unless_fatal(file, done.map_err(at_source))?;
            bytes += extent.length;
            // The chunk was written without comparing it.
            file.changes();
        }
        if !self.wait_for_all()? {
            return Ok(false);
        }
        if bytes > 0 && !file.has_failed() {
            let ns = clock.now_ns().saturating_sub(began_ns).max(1);
            let sending = bytes as f64 / (ns as f64 / 1e9);
            if let Some((choice, reason)) = file.whole.sent(comparing, sending, self.whole_facts(file)) {
                self.tell_whole(file, choice, reason);
            }
        }
        Ok(true)
    }

    /// Waits until all operations of this lane are answered. Returns false if the run was stopped.
    fn wait_for_all(&mut self) -> Result<bool> {
        self.target.flush();
        while !self.under_way.is_empty() {
            if self.shared.queue.is_stopped() {
                return Ok(false);
            }
            self.wait_for_answer(FULL_WAIT)?;
        }
        Ok(true)
    }
}
