//! The units and runs that a leader looks up again.

use std::collections::BTreeSet;

use crate::ids::{RunId, UnitKey};

/// The units and runs that are looked up again.
#[derive(Default)]
pub(super) struct LeaderDoubts {
    pub units: BTreeSet<UnitKey>,
    pub runs: BTreeSet<RunId>,
    /// True if runs or relationships may be there that the leader does not know.
    pub lists: bool,
    pub swept_ms: u64,
}
