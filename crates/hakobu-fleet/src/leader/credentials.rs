//! The credentials that go with leases.

use hakobu_core::error::Result;

use super::Leader;
use crate::ids::RelationshipId;
use crate::message::LeaseName;
use crate::names::BrokerName;
use crate::sent_credentials::{SentCredential, sent_credentials};

impl Leader {
    /// Returns the credentials of a relationship for a broker that was given a lease. They are those that the relationship has
    /// now, so that renewed ones serve runs under way.
    ///
    /// # Errors
    /// Those of the ledger, and of opening what is sealed.
    pub(super) fn credentials_for(
        &mut self,
        relationship: Option<RelationshipId>,
        broker: &BrokerName,
        lease: &LeaseName,
    ) -> Result<Vec<SentCredential>> {
        let Some(id) = relationship else { return Ok(Vec::new()) };
        if !self.credentials.contains_key(&id) {
            let record = self.ledger.relationship(id)?;
            let references = record.map(|record| record.relationship.credentials).unwrap_or_default();
            self.credentials.insert(id, references);
        }
        let references = self.credentials.get(&id).map(Vec::as_slice).unwrap_or_default();
        let key = self.brokers.get(broker).and_then(|live| live.key);
        sent_credentials(references, self.keys.as_deref(), key, &lease.credentials_purpose())
    }

    /// Forgets the credentials of a relationship whose run has ended.
    pub(super) fn forget_credentials(&mut self, relationship: Option<RelationshipId>) {
        if let Some(id) = relationship {
            self.credentials.remove(&id);
        }
    }
}
