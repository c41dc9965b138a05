//! Errands of the interface, as the leader passes them on.

use hakobu_core::error::Result;

use super::Leader;
use crate::errand::{Errand, ErrandView};
use crate::message::{ErrandAnswer, SentErrand};
use crate::names::{BrokerName, GroupName};
use crate::relationship::CredentialReference;
use crate::sent_credentials::sent_credentials;

impl Leader {
    /// Takes an errand with its credentials for the brokers of a group. Returns its number.
    ///
    /// # Errors
    /// `TimedOut` if too many wait.
    pub fn add_errand(
        &mut self,
        group: GroupName,
        errand: Errand,
        credentials: Vec<CredentialReference>,
    ) -> Result<u64> {
        let now = (self.clock.moment().get(), self.clock.elapsed_ms());
        self.errands.add(group, (errand, credentials), now)
    }

    /// Returns an errand.
    pub fn errand(&self, id: u64) -> Option<&ErrandView> {
        self.errands.view(id)
    }

    /// Returns the errands whose state has changed since the last call.
    pub fn changed_errands(&mut self) -> Vec<ErrandView> {
        self.errands.take_changed(self.clock.elapsed_ms())
    }

    /// Returns errands that a broker is to begin with.
    pub(super) fn errands_for(&mut self, group: &GroupName, broker: &BrokerName) -> Vec<SentErrand> {
        let (key, keys) = (self.brokers.get(broker).and_then(|live| live.key), self.keys.clone());
        let seal = |references: &[CredentialReference], id: u64| {
            sent_credentials(references, keys.as_deref(), key, &SentErrand::credentials_purpose(id))
        };
        self.errands.give((group, broker), self.clock.elapsed_ms(), seal)
    }

    /// Takes the answer of a broker.
    pub(super) fn errand_done(&mut self, group: &GroupName, broker: &BrokerName, answer: ErrandAnswer) {
        self.errands.take(group, broker, answer, self.clock.elapsed_ms());
    }
}
