//! What is kept from one run to the next of the same request.

use crate::devices::Agreed;
use crate::opening::Hosts;
use hakobu_core::outages::Outages;

/// What is kept from one run to the next of the same request.
#[derive(Default)]
pub(crate) struct Carryover {
    /// The disk to overwrite, once it has been agreed on.
    pub agreed: Agreed,
    /// Where there will be another run, the hosts, so that nobody has to log in again.
    pub hosts: Option<Hosts>,
    /// Whether there will be another run.
    pub keeps_hosts: bool,
    /// No run comes after this one that would bring over what an earlier one has missed.
    pub is_last: bool,
    /// What was to be begun anew has been, by an attempt of this run.
    pub begun: bool,
    /// How many entries the attempt may have made at the target, where that is known.
    pub entries_made: Option<u64>,
    /// The run ends once everything has been looked at and agreed on.
    pub only_agrees: bool,
    /// Somebody holds the source still: nothing may have been written to it meanwhile.
    pub is_still: bool,
    /// Whether it was said what these hosts cannot keep.
    pub told: bool,
    /// The data went through ssh, as no port could be reached.
    pub by_ssh: bool,
    /// How long connections were lost.
    pub outages: Outages,
}

impl Carryover {
    /// For several runs.
    pub fn for_more() -> Self {
        Self { keeps_hosts: true, ..Self::default() }
    }
}
