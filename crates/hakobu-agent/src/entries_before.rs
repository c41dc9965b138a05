//! The count of the entries that a target had when a run began, over attempts of which some were lost.
//!
//! How many entries may be removed depends on how many there were. An attempt lists the target while it fills it: each directory
//! before anything is made in it, so the first one counts what was there. A later one also counts what those before it have
//! made. Of these the engine knows how many there can be (what the target lacked), and so does the process that holds the
//! target, so it is enough that one of the two was not lost: that many are subtracted.
//!
//! Where both were lost, as when this machine was cut off from two others, what the last attempt counts says nothing. Then
//! those entries count that attempts had seen before, of an engine elsewhere up to its last word, which comes five times a
//! second. So such a run is refused where what would go is more than half of what had been compared when the connection
//! was lost, and otherwise goes on.

use hakobu_core::counters::Snapshot;

/// The count of the entries that a target had when a run began. It may be too low, and never is too high.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntriesBefore {
    /// How many there were at least.
    least: u64,
    /// How many entries the attempts so far may have made, where that is known.
    made: Option<u64>,
}

impl Default for EntriesBefore {
    fn default() -> Self {
        Self { least: 0, made: Some(0) }
    }
}

impl EntriesBefore {
    /// Counts what an attempt saw at the target, and puts into its figures what was there when the run began. `made` is how
    /// many entries it may have made itself, where that is known. Returns false where there may have been more than can be
    /// told.
    pub fn count(&mut self, figures: &mut Snapshot, made: Option<u64>) -> bool {
        let before = self.made;
        if let Some(made) = before {
            self.least = self.least.max(figures.entries_in_target.saturating_sub(made));
        }
        // There are as many at least as only the target has.
        figures.entries_in_target = self.least.max(figures.entries_only_in_target);
        self.made = before.zip(made).map(|(before, made)| before.saturating_add(made));
        before.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is counted after attempts that saw so many entries, and may have made so many.
    fn counted(attempts: &[(u64, Option<u64>)], extras: u64) -> (u64, bool) {
        let mut before = EntriesBefore::default();
        let mut last = (0, false);
        for (entries_in_target, made) in attempts {
            let (entries_in_target, entries_only_in_target) = (*entries_in_target, extras);
            let mut figures = Snapshot { entries_in_target, entries_only_in_target, ..Snapshot::default() };
            let is_known = before.count(&mut figures, *made);
            last = (figures.entries_in_target, is_known);
        }
        last
    }

    #[test]
    fn what_earlier_attempts_made_does_not_count() {
        assert_eq!(counted(&[(3, Some(5))], 1), (3, true));
        // The first had seen little when it was lost.
        assert_eq!(counted(&[(0, Some(3)), (6, Some(0))], 3), (3, true));
        assert_eq!(counted(&[(0, Some(3)), (10, Some(4)), (20, None)], 3), (13, true));
        // Not all that was to be made was: what had been seen counts all the same.
        assert_eq!(counted(&[(100, Some(50)), (120, Some(0))], 3), (100, true));
    }

    #[test]
    fn where_nobody_knows_what_was_made_only_what_had_been_seen_counts() {
        assert_eq!(counted(&[(0, None), (6, Some(0))], 3), (3, false));
        assert_eq!(counted(&[(90, None), (100, Some(0))], 3), (90, false));
        assert_eq!(counted(&[(90, Some(2)), (97, None), (99, Some(0)), (101, Some(0))], 3), (95, false));
    }
}
