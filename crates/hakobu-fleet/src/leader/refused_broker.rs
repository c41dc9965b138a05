//! A broker that the leader refuses.

use crate::ids::Moment;
use crate::names::GroupName;

/// A broker that was refused lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedBroker {
    /// Its group.
    pub group: GroupName,
    /// The version of the messages that it speaks.
    pub form: u8,
    /// The version of its program, if it told it.
    pub version: Option<String>,
    /// The moment since which it is refused.
    pub since: Moment,
    /// The time by the leader's clock at which it was last refused, in milliseconds.
    pub seen_ms: u64,
    /// The time at which the ledger was last told, in milliseconds.
    pub(super) told_ms: Option<u64>,
}
