//! Units and runs whose state in the ledger is not certain: a transaction failed, or took place although its answer was lost.

use hakobu_core::error::Result;

use super::schedule_plans::SchedulePlans;
use super::{Leader, LeasedUnit, as_ms};
use crate::ids::{RunId, UnitKey};

/// The number of rows of ended runs that are removed at a time.
const SWEPT_ROWS: usize = 2_000;
/// The time between two removals in milliseconds.
const SWEEP_EVERY_MS: u64 = 1_000;

impl Leader {
    /// Has a unit looked up again.
    pub(super) fn doubt_unit(&mut self, key: UnitKey) {
        self.doubts.units.insert(key);
    }

    /// Has a run looked up again.
    pub(super) fn doubt_run(&mut self, run: RunId) {
        self.doubts.runs.insert(run);
    }

    /// Has the lists of runs and schedules read again.
    pub(super) fn doubt_lists(&mut self) {
        self.doubts.lists = true;
    }

    /// Looks up what is doubtful. The rest is looked up at the next time if the ledger does not work.
    pub(super) fn settle_doubts(&mut self) {
        if self.doubts.lists
            && let Err(error) = self.read_lists()
        {
            self.ledger_error = Some(error);
            return;
        }
        while let Some(key) = self.doubts.units.pop_first() {
            if let Err(error) = self.settle_unit(key) {
                self.doubts.units.insert(key);
                self.ledger_error = Some(error);
                return;
            }
            self.doubts.runs.insert(key.run);
        }
        while let Some(run) = self.doubts.runs.pop_first() {
            if let Some(active) = self.runs.get_mut(&run) {
                active.has_new_units();
            }
            if let Err(error) = self.move_on(run) {
                self.doubts.runs.insert(run);
                self.ledger_error = Some(error);
                return;
            }
            self.ledger_error = None;
        }
    }

    fn read_lists(&mut self) -> Result<()> {
        let open = self.ledger.open_runs()?;
        let plans = SchedulePlans::read(&mut *self.ledger, self.clock.moment())?;
        let before = std::mem::replace(&mut self.plans, plans);
        self.plans.keep(before);
        self.doubts.runs.extend(open.into_iter().map(|row| row.id));
        self.doubts.lists = false;
        Ok(())
    }

    fn settle_unit(&mut self, key: UnitKey) -> Result<()> {
        let unit = self.ledger.unit(key)?;
        let (_, now_ms) = self.now();
        let ends_ms = now_ms.saturating_add(as_ms(self.settings.lease));
        let Some(run) = self.runs.get_mut(&key.run) else { return Ok(()) };
        let Some(unit) = unit else {
            run.forget(key.unit);
            return Ok(());
        };
        let epoch = unit.state.epoch;
        match unit.state.holder {
            Some(holder) => {
                if run.leased.get(&key.unit).is_none_or(|leased| leased.epoch != epoch) {
                    // Whoever has it may believe so for as long as a lease lasts.
                    let leased =
                        LeasedUnit::taken_over(holder.broker, (epoch, holder.deadline), ends_ms, now_ms);
                    run.leased.insert(key.unit, leased);
                }
            }
            None => {
                run.leased.remove(&key.unit);
                run.ready.retain(|ready| ready.key != key);
                run.put_back(key, epoch, false, now_ms);
            }
        }
        Ok(())
    }

    /// Removes rows of runs that have ended, some at a time.
    pub(super) fn sweep(&mut self) {
        let (_, now_ms) = self.now();
        if now_ms.saturating_sub(self.doubts.swept_ms) < SWEEP_EVERY_MS {
            return;
        }
        self.doubts.swept_ms = now_ms;
        if let Err(error) = self.ledger.sweep(SWEPT_ROWS) {
            self.ledger_error = Some(error);
        }
    }
}
