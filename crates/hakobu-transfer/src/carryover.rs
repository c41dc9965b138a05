//! State that is kept from one run of a request to the next.

use crate::devices::AgreedDisks;
use crate::opening::TransferHosts;
use hakobu_core::outages::Outages;

/// The state that is kept from one run of a request to the next.
#[derive(Default)]
pub struct Carryover {
    /// The disks that the user has agreed to overwrite.
    pub agreed: AgreedDisks,
    /// The open hosts if another run follows, so that no new login is needed.
    pub hosts: Option<TransferHosts>,
    /// True if another run follows.
    pub keeps_hosts: bool,
    /// True if no later run copies what an earlier one has missed.
    pub is_last: bool,
    /// True if an attempt of this run has already discarded earlier progress and started anew.
    pub begun: bool,
    /// True if the last run was repeated after a lost connection.
    pub was_repeated: bool,
    /// The number of entries that runs before the first one have created at the target.
    pub created_before: u64,
    /// The number of entries that the attempt may have created at the target, if known.
    pub entries_made: Option<u64>,
    /// True if the run ends once everything has been examined and agreed on.
    pub only_agrees: bool,
    /// True if the source is held still, so that nothing may be written to it meanwhile.
    pub is_still: bool,
    /// True if it has been reported what these hosts cannot keep.
    pub told: bool,
    /// True if the last run of several that share the work has taken its part.
    pub has_begun_unit: bool,
    /// True if the data went through ssh because no port could be reached.
    pub by_ssh: bool,
    /// The times without a connection.
    pub outages: Outages,
}

impl Carryover {
    /// Returns the state for several runs.
    pub fn for_more() -> Self {
        Self { keeps_hosts: true, ..Self::default() }
    }
}
