//! Counts the entries that a target had when a run began, across attempts of which some were lost.
//!
//! The number of entries that may be removed depends on that count. An attempt lists the target while it fills it:
//! each directory before anything is created in it. The first attempt therefore counts what was there, and a later
//! one also counts what earlier ones have created. The engine knows the maximum of that number (what the target
//! lacked), and so does the target server, so it is enough if one of the two was not lost: that many are subtracted.
//!
//! If both were lost, for example when this host was cut off from two others, the count of the last attempt is
//! useless. Then only the entries count that attempts had seen before; for an engine on another host, up to its last
//! report, which comes five times a second. Such a run is refused if it would delete more than half of what had been
//! compared when the connection was lost, and continues otherwise.

use hakobu_core::counters::CounterTotals;

/// The number of entries that a target had when a run began. It may be too low, but is never too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntriesBefore {
    /// The minimum number of entries.
    least: u64,
    /// The number of entries that the attempts so far may have created, if known.
    made: Option<u64>,
}

impl EntriesBefore {
    /// Creates the number before any attempt. `created`: the number of entries that runs before it have created.
    pub fn after(created: u64) -> Self {
        Self { least: 0, made: Some(created) }
    }

    /// Counts the entries that an attempt saw at the target, and replaces them in its figures by those that were
    /// there when the run began. `made`: the number of entries that the attempt may have created, if known. Returns
    /// false if there may have been more than can be counted.
    pub fn count(&mut self, figures: &mut CounterTotals, made: Option<u64>) -> bool {
        let before = self.made;
        if let Some(made) = before {
            self.least = self.least.max(figures.entries_in_target.saturating_sub(made));
        }
        // The target had at least the entries that only it has.
        figures.entries_in_target = self.least.max(figures.entries_only_in_target);
        self.made = before.zip(made).map(|(before, made)| before.saturating_add(made));
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the count after attempts, each with the entries that it saw and those that it may have created.
    fn counted(attempts: &[(u64, Option<u64>)], extras: u64) -> (u64, bool) {
        counted_after(0, attempts, extras)
    }

    fn counted_after(created: u64, attempts: &[(u64, Option<u64>)], extras: u64) -> (u64, bool) {
        let mut before = EntriesBefore::after(created);
        let mut last = (0, false);
        for (entries_in_target, made) in attempts {
            let (entries_in_target, entries_only_in_target) = (*entries_in_target, extras);
            let mut figures =
                CounterTotals { entries_in_target, entries_only_in_target, ..CounterTotals::default() };
            let is_known = before.count(&mut figures, *made);
            last = (figures.entries_in_target, is_known);
        }
        last
    }

    #[test]
    fn what_earlier_attempts_made_does_not_count() {
        assert_eq!(counted(&[(3, Some(5))], 1), (3, true));
        // The first attempt had seen little when it was lost.
        assert_eq!(counted(&[(0, Some(3)), (6, Some(0))], 3), (3, true));
        assert_eq!(counted(&[(0, Some(3)), (10, Some(4)), (20, None)], 3), (13, true));
        // Not everything was created that was to be. What had been seen counts nevertheless.
        assert_eq!(counted(&[(100, Some(50)), (120, Some(0))], 3), (100, true));
    }

    #[test]
    fn what_runs_before_it_created_does_not_count() {
        assert_eq!(counted_after(48, &[(53, Some(0))], 5), (5, true));
        assert_eq!(counted_after(48, &[(50, Some(2)), (55, Some(0))], 5), (5, true));
        // Of those that were created, some are gone.
        assert_eq!(counted_after(48, &[(20, Some(0))], 5), (5, true));
    }

    #[test]
    fn where_nobody_knows_what_was_made_only_what_had_been_seen_counts() {
        assert_eq!(counted(&[(0, None), (6, Some(0))], 3), (3, false));
        assert_eq!(counted(&[(90, None), (100, Some(0))], 3), (90, false));
        assert_eq!(counted(&[(90, Some(2)), (97, None), (99, Some(0)), (101, Some(0))], 3), (95, false));
    }
}
