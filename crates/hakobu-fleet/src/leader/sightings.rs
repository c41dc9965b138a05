//! Brokers that report, and those that do not any more: what the ledger knows of them.

use super::live_broker::{SILENT_MAX_MS, TELL_EVERY_MS};
use super::{Leader, LiveBroker, Then};
use crate::broker::{BrokerSighting, VERSION_BYTES_MAX};
use crate::change::LedgerChange;
use crate::limits::shortened;
use crate::names::BrokerName;

impl Leader {
    /// Has the ledger keep when a broker last reported.
    pub(super) fn tell_sighting(&mut self, name: &BrokerName) {
        let (now, now_ms) = self.now();
        let Some(live) = self.brokers.get_mut(name) else { return };
        live.told_ms = live.seen_ms.max(1);
        let seen = now.minus_ms(now_ms.saturating_sub(live.seen_ms));
        let version = shortened(&live.version, VERSION_BYTES_MAX);
        let sighting = BrokerSighting { name: name.clone(), group: live.group.clone(), version, now: seen };
        self.pending.push((LedgerChange::SeeBroker(sighting), Then::Nothing));
    }

    /// Has the ledger keep when brokers last reported: now and then, and of one that has become silent at once. So the next leader
    /// knows it as well.
    pub(super) fn tell_sightings(&mut self) {
        let (_, now_ms) = self.now();
        let is_due = now_ms.saturating_sub(self.told_ms) >= TELL_EVERY_MS;
        if is_due {
            self.told_ms = now_ms;
        }
        let is_news = |live: &LiveBroker| live.told_ms < live.seen_ms && (is_due || live.is_silent(now_ms));
        let names: Vec<_> =
            self.brokers.iter().filter(|(_, live)| is_news(live)).map(|(name, _)| name.clone()).collect();
        names.iter().for_each(|name| self.tell_sighting(name));
    }

    /// Forgets brokers that are silent. The ledger knows them still.
    pub(super) fn forget_brokers(&mut self) {
        let (_, now_ms) = self.now();
        let is_gone = |live: &LiveBroker| live.silent_ms(now_ms) >= SILENT_MAX_MS;
        let gone: Vec<_> = self.brokers.extract_if(.., |_, live| is_gone(live)).collect();
        for (name, live) in gone {
            self.announcements.is_silent(name, live.seen_ms, live.relationships);
        }
    }
}
