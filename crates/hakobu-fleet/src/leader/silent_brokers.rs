//! The queue of notifications, and the brokers that may have to be told of.

use std::collections::{BTreeMap, BTreeSet};

use crate::ids::RelationshipId;
use crate::names::BrokerName;
use crate::notification_queue::NotificationQueue;

/// The maximum number of silent brokers that are remembered.
const SILENT_MAX: usize = 10_000;

/// A broker that is silent, and had units.
pub(super) struct SilentBroker {
    /// The time by the leader's clock at which it last reported, in milliseconds.
    pub(super) seen_ms: u64,
    pub(super) relationships: BTreeSet<RelationshipId>,
}

/// The notifications of a leader.
#[derive(Default)]
pub(super) struct Announcements {
    pub(super) queue: Option<NotificationQueue>,
    pub(super) silent: BTreeMap<BrokerName, SilentBroker>,
}

impl Announcements {
    /// Remembers a broker that is silent.
    pub(super) fn is_silent(
        &mut self,
        broker: BrokerName,
        seen_ms: u64,
        relationships: BTreeSet<RelationshipId>,
    ) {
        if self.queue.is_some() && !relationships.is_empty() && self.silent.len() < SILENT_MAX {
            self.silent.insert(broker, SilentBroker { seen_ms, relationships });
        }
    }

    /// Forgets that a broker was silent, as it reports again or has ended.
    pub(super) fn is_heard(&mut self, broker: &BrokerName) {
        self.silent.remove(broker);
    }
}
