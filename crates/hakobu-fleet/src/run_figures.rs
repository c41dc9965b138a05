//! The figures that say how much of a run is done. There is one definition of each, for the interface, the command line, the page
//! and the report.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How much of a run is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunFigures {
    /// The entries that were found at the source, each once.
    pub entries_found: u64,
    /// Those of them that are done: created, updated, given other attributes, found unchanged, or left out on purpose. Those that
    /// failed are not among them.
    pub entries_done: u64,
    /// The bytes of content that were written to the target, or that it was found to have when contents were compared. Bytes of
    /// files that are unchanged by their sizes and times are not among them.
    pub bytes_done: u64,
}

impl RunFigures {
    /// Returns the sum.
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self {
            entries_found: self.entries_found.saturating_add(more.entries_found),
            entries_done: self.entries_done.saturating_add(more.entries_done),
            bytes_done: self.bytes_done.saturating_add(more.bytes_done),
        }
    }

    /// Returns the figures as they are shown. An entry that is done was found: by another unit, or by a lane that was asked before
    /// the one that did it.
    #[must_use]
    pub fn shown(self) -> Self {
        Self { entries_found: self.entries_found.max(self.entries_done), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_shown_as_done_than_was_found() {
        let figures =
            |entries_found, entries_done, bytes_done| RunFigures { entries_found, entries_done, bytes_done };
        // One unit has done what another one found.
        let sum = figures(5, 2, 7).plus(figures(0, 3, u64::MAX));
        assert_eq!((sum, sum.shown()), (figures(5, 5, u64::MAX), figures(5, 5, u64::MAX)));
        assert_eq!(figures(5, 6, 0).shown(), figures(6, 6, 0));
    }
}
