//! Brokers that are refused, because they speak another form of messages.

use super::Leader;
use super::live_broker::{NAME_KEPT_MS, SILENT_MAX_MS, TELL_EVERY_MS};
use super::refused_broker::RefusedBroker;
use crate::broker::BrokerSighting;
use crate::change::LedgerChange;
use crate::message_form::ForeignCall;
use crate::names::{BrokerName, GroupName};

/// The maximum number of refused brokers that are remembered.
const REFUSED_MAX: usize = 1_000;

impl Leader {
    /// Returns the brokers that were refused lately.
    pub fn refused_brokers(&self) -> &std::collections::BTreeMap<BrokerName, RefusedBroker> {
        &self.refused
    }

    /// Notes a call that is refused because of its form. The bus knows the name, or else the call has told it.
    pub(super) fn note_refused(&mut self, group: &GroupName, known: Option<BrokerName>, call: ForeignCall) {
        let (now, now_ms) = self.now();
        let Some(name) = known.or(call.broker) else { return };
        let has_namesake =
            self.brokers.get(&name).is_some_and(|live| now_ms.saturating_sub(live.seen_ms) < NAME_KEPT_MS);
        if has_namesake || (self.refused.len() >= REFUSED_MAX && !self.refused.contains_key(&name)) {
            return;
        }
        let refused = self.refused.entry(name.clone()).or_insert_with(|| RefusedBroker {
            group: group.clone(),
            form: call.form,
            version: None,
            since: now,
            seen_ms: now_ms,
            told_ms: None,
        });
        (refused.group, refused.form, refused.seen_ms) = (group.clone(), call.form, now_ms);
        let is_other_version = call.version.is_some() && call.version != refused.version;
        if is_other_version {
            refused.version = call.version;
        }
        let is_told = refused.told_ms.is_some_and(|told_ms| now_ms.saturating_sub(told_ms) < TELL_EVERY_MS);
        if is_other_version || !is_told {
            refused.told_ms = Some(now_ms);
            let version = refused.version.clone().unwrap_or_default();
            let sighting = BrokerSighting { name, group: group.clone(), version, now };
            self.pending.push((LedgerChange::SeeBroker(sighting), super::Then::Nothing));
        }
    }

    /// Forgets refused brokers that are silent. The ledger knows them still.
    pub(super) fn forget_refused(&mut self) {
        let (_, now_ms) = self.now();
        self.refused.retain(|_, refused| now_ms.saturating_sub(refused.seen_ms) < SILENT_MAX_MS);
    }
}
