//! The units of a run that have ended, by phase.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The numbers of units that have ended in each phase that a run may leave out: a phase without any had nothing to do, or was
/// skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PhaseUnits {
    /// Those that linked names of one file.
    pub links: u64,
    /// Those that removed what only the target has.
    pub removal: u64,
    /// Those that set the attributes of open directories.
    pub directories: u64,
    /// Those that compared source and target.
    pub verify: u64,
}

impl PhaseUnits {
    /// Adds other numbers.
    pub fn add(&mut self, more: &Self) {
        let Self { links, removal, directories, verify } = more;
        for (sum, more) in [
            (&mut self.links, links),
            (&mut self.removal, removal),
            (&mut self.directories, directories),
            (&mut self.verify, verify),
        ] {
            *sum = sum.saturating_add(*more);
        }
    }
}
