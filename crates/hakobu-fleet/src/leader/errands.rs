//! Errands of the interface, as the leader passes them on.

use hakobu_core::error::{Error, ErrorKind, Result};

use super::Leader;
use crate::errand::{Errand, ErrandView};
use crate::message::{ErrandAnswer, SentErrand};
use crate::names::{BrokerName, GroupName};
use crate::reach::named_locations;
use crate::relationship::CredentialReference;
use crate::sent_credentials::sent_credentials;

impl Leader {
    /// Takes an errand with its credentials for the brokers of a group. Returns its number.
    ///
    /// # Errors
    /// `Unsupported` if no broker that is there reaches its locations, and `TimedOut` if too many wait.
    pub fn add_errand(
        &mut self,
        group: GroupName,
        errand: Errand,
        credentials: Vec<CredentialReference>,
    ) -> Result<u64> {
        let locations = errand.locations();
        let reach = self.group_reach(&group, &locations);
        if reach.brokers > 0 && reach.reaching == 0 {
            let named = if reach.unreached.is_empty() { &locations } else { &reach.unreached };
            let words = format!(
                "no broker of the group {group} that is connected reaches {}",
                named_locations(named)
            );
            let error = Error::new(ErrorKind::Unsupported, "asking a broker", words);
            return Err(error.hint("see which locations they reach: hakobu fleet brokers list"));
        }
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
        let Some(live) = self.brokers.get(broker) else { return Vec::new() };
        let (key, reach, keys) = (live.key, live.reach.clone(), self.keys.clone());
        let seal = |references: &[CredentialReference], id: u64| {
            sent_credentials(references, keys.as_deref(), key, &SentErrand::credentials_purpose(id))
        };
        self.errands.give((group, broker, &reach), self.clock.elapsed_ms(), seal)
    }

    /// Takes the answer of a broker.
    pub(super) fn errand_done(&mut self, group: &GroupName, broker: &BrokerName, answer: ErrandAnswer) {
        self.errands.take(group, broker, answer, self.clock.elapsed_ms());
    }
}
