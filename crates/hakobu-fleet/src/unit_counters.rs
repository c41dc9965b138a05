//! The counters of a unit, and their sum over the committed units of a run.

use hakobu_core::counters::CounterTotals;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::phase_units::PhaseUnits;
use crate::run_figures::RunFigures;

macro_rules! unit_counters {
    ($( $name:ident ),* $(,)?) => {
        /// The counters of committed units, with the meaning that they have in [`CounterTotals`]. They are kept by their names,
        /// so that a later version may have others.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        #[serde(default)]
        #[allow(missing_docs)]
        pub struct UnitCounters {
            $( pub $name: u64, )*
            /// The figures of units that a run dropped when it was cancelled or failed, as their brokers last told.
            pub dropped: RunFigures,
            /// The units that have ended in each phase.
            pub phase_units: PhaseUnits,
        }

        impl UnitCounters {
            /// Adds the counters of a unit.
            pub fn add(&mut self, unit: &Self) {
                $( self.$name = self.$name.saturating_add(unit.$name); )*
                self.dropped = self.dropped.plus(unit.dropped);
                self.phase_units.add(&unit.phase_units);
            }
        }

        impl From<&CounterTotals> for UnitCounters {
            fn from(totals: &CounterTotals) -> Self {
                Self { $( $name: totals.$name, )* ..Self::default() }
            }
        }
    };
}

impl UnitCounters {
    /// Returns how much is done.
    pub fn figures(&self) -> RunFigures {
        let done = [
            self.entries_created,
            self.entries_updated,
            self.entries_unchanged,
            self.entries_attributes_only,
            self.entries_skipped,
        ];
        let committed = RunFigures {
            entries_found: self.entries_scanned,
            entries_done: done.into_iter().fold(0, u64::saturating_add),
            bytes_done: self.target_written_bytes.saturating_add(self.bytes_kept),
        };
        committed.plus(self.dropped)
    }

    /// Returns the counters without what only the ledger sets: those that a broker sends.
    #[must_use]
    pub fn of_broker(self) -> Self {
        Self { dropped: RunFigures::default(), phase_units: PhaseUnits::default(), ..self }
    }

    /// Returns the bytes of files that are dealt with, whether they had to be read or not: about as many in each run over a tree,
    /// however much of it has changed.
    pub fn bytes_settled(&self) -> u64 {
        self.source_read_bytes.saturating_add(self.bytes_kept).saturating_add(self.bytes_unchanged)
    }

    /// Returns the counters that a run which removes adds to those of the run which has copied: what it removes, and the
    /// entries that it copies once those in their way are gone.
    #[must_use]
    pub fn of_removal(&self) -> Self {
        let Self { entries_deleted, entries_created, entries_failed, directories_created, .. } = *self;
        let Self { source_requests, target_requests, source_read_bytes, target_written_bytes, .. } = *self;
        let Self { cloned_bytes, zeros_skipped_bytes, bytes_resumed, .. } = *self;
        Self {
            entries_deleted,
            entries_created,
            entries_failed,
            directories_created,
            source_requests,
            target_requests,
            source_read_bytes,
            target_written_bytes,
            cloned_bytes,
            zeros_skipped_bytes,
            bytes_resumed,
            ..Self::default()
        }
    }

    /// Returns the counters that a second look at a tree adds: what it changes. Other entries were counted before, or did not fail.
    #[must_use]
    pub fn of_second_look(self) -> Self {
        let Self { entries_created, entries_updated, entries_attributes_only, entries_failed, .. } = self;
        let found = [entries_created, entries_updated, entries_attributes_only, entries_failed];
        Self {
            entries_scanned: found.into_iter().fold(0, u64::saturating_add),
            bytes_scanned: 0,
            entries_unchanged: 0,
            bytes_unchanged: 0,
            entries_skipped: 0,
            ..self
        }
    }

    /// Returns the counters that a comparison adds to those of the run which has copied.
    #[must_use]
    pub fn of_comparison(&self) -> Self {
        let Self { entries_compared, entries_different, entries_failed, .. } = *self;
        let Self { source_requests, target_requests, source_read_bytes, .. } = *self;
        Self {
            entries_compared,
            entries_different,
            entries_failed,
            source_requests,
            target_requests,
            source_read_bytes,
            ..Self::default()
        }
    }
}

unit_counters!(
    entries_scanned,
    bytes_scanned,
    entries_created,
    entries_updated,
    entries_unchanged,
    bytes_unchanged,
    entries_attributes_only,
    entries_different,
    entries_compared,
    entries_absent,
    entries_only_in_target,
    entries_deleted,
    entries_skipped,
    entries_failed,
    directories_created,
    source_read_bytes,
    target_written_bytes,
    cloned_bytes,
    zeros_skipped_bytes,
    bytes_kept,
    bytes_resumed,
    source_requests,
    target_requests,
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay_at_the_largest_number() {
        let mut sum = UnitCounters { bytes_scanned: u64::MAX - 1, entries_scanned: 1, ..Default::default() };
        sum.add(&UnitCounters { bytes_scanned: 5, entries_scanned: 2, ..Default::default() });
        assert_eq!((sum.bytes_scanned, sum.entries_scanned), (u64::MAX, 3));
    }

    #[test]
    fn counters_of_another_version_are_read() {
        let read: UnitCounters = serde_json::from_str(r#"{"entries_created":3,"entries_dreamt":9}"#).unwrap();
        assert_eq!(read, UnitCounters { entries_created: 3, ..Default::default() });
    }

    #[test]
    fn figures_count_each_entry_once() {
        let counters = UnitCounters {
            entries_scanned: 20,
            entries_created: 1,
            entries_updated: 2,
            entries_unchanged: 3,
            entries_attributes_only: 4,
            entries_skipped: 5,
            entries_failed: 5,
            entries_deleted: 100,
            entries_compared: 100,
            source_read_bytes: 1000,
            target_written_bytes: 300,
            bytes_kept: 40,
            bytes_unchanged: 1000,
            dropped: RunFigures { entries_found: 7, entries_done: 6, bytes_done: 5 },
            ..Default::default()
        };
        let figures = RunFigures { entries_found: 27, entries_done: 21, bytes_done: 345 };
        assert_eq!(counters.figures(), figures);
        assert_eq!(
            counters.of_broker().figures(),
            RunFigures { entries_found: 20, entries_done: 15, bytes_done: 340 }
        );
    }
}
