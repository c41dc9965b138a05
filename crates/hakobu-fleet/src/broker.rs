//! Brokers, as the control plane last saw them.

use hakobu_core::error::Result;

use crate::ids::Moment;
use crate::limits::check_at_most;
use crate::names::{BrokerName, GroupName};

/// The maximum length of a version in bytes.
pub const VERSION_BYTES_MAX: usize = 64;

/// A message by which a broker shows that it is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerSighting {
    /// The name.
    pub name: BrokerName,
    /// The group.
    pub group: GroupName,
    /// The version of the program.
    pub version: String,
    /// The moment at which it was seen.
    pub now: Moment,
}

/// A broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRecord {
    /// The name.
    pub name: BrokerName,
    /// The group, when it was last seen.
    pub group: GroupName,
    /// The version, when it was last seen.
    pub version: String,
    /// The moment at which it was first seen.
    pub first_seen: Moment,
    /// The moment at which it was last seen.
    pub last_seen: Moment,
    /// True if it gets no further units.
    pub is_draining: bool,
}

impl BrokerSighting {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of a broker's version", self.version.len(), VERSION_BYTES_MAX)
    }

    /// Returns the record after this sighting.
    pub(crate) fn record(&self, before: Option<BrokerRecord>) -> BrokerRecord {
        let (first_seen, last_seen, is_draining) = match before {
            Some(before) => (before.first_seen, before.last_seen.max(self.now), before.is_draining),
            None => (self.now, self.now, false),
        };
        let (name, group, version) = (self.name.clone(), self.group.clone(), self.version.clone());
        BrokerRecord { name, group, version, first_seen, last_seen, is_draining }
    }
}
