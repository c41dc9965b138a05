//! Leases: the right of a broker to work on a unit until a deadline.

use crate::ids::{Epoch, Moment, UnitKey};
use crate::names::BrokerName;
use crate::unit::UnitWork;

/// The number of leases of one unit that may end without a commit, other than by draining. A unit that kills whoever works on
/// it must not go round for ever.
pub const ATTEMPTS_MAX: u32 = 16;

/// The broker that has a unit, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseHolder {
    /// The broker.
    pub broker: BrokerName,
    /// The moment from which the unit may be given to another.
    pub deadline: Moment,
}

/// The state of a unit that is not committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitState {
    /// The current epoch.
    pub epoch: Epoch,
    /// The number of leases that ended without a commit, other than by draining.
    pub attempts: u32,
    /// The broker that leases it; none if it is ready.
    pub holder: Option<LeaseHolder>,
}

/// A lease as given to a broker, with the work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The unit.
    pub key: UnitKey,
    /// The epoch that renewing and committing need.
    pub epoch: Epoch,
    /// The end of the lease by the clock of the control plane.
    pub deadline: Moment,
    /// The work.
    pub work: UnitWork,
}
