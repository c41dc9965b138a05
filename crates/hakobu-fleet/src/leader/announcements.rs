//! Tells people of ends of runs, and of brokers that are silent for long.

use hakobu_core::error::{Error, Result};

use super::silent_brokers::SilentBroker;
use super::{Leader, Then};
use crate::change::LedgerChange;
use crate::ids::{RelationshipId, RunId};
use crate::notification::{Notification, NotificationKind, NotifiedRun};
use crate::notification_queue::{NotificationQueue, QueuedNotification};
use crate::notification_setting::NotificationSetting;
use crate::run_report::RunReport;

/// The silence after which a broker that had units is lost, in milliseconds.
const LOST_AFTER_MS: u64 = 5 * 60_000;
impl Leader {
    /// Sets the queue of notifications. Without one, nobody is told of anything. Ends of runs that an earlier leader did not
    /// tell, or of which it did not learn that they were told, are told again.
    pub fn set_notifications(&mut self, queue: NotificationQueue) {
        self.announcements.queue = Some(queue);
        if let Err(error) = self.announce_untold() {
            self.ledger_error = Some(error);
        }
    }

    fn announce_untold(&mut self) -> Result<()> {
        for run in self.ledger.untold_runs()? {
            let report = self.ledger.report(run)?;
            let report = report.and_then(|report| serde_json::from_slice::<RunReport>(&report).ok());
            match self.end_of_run(run, report.and_then(|report| report.error))? {
                Some(told) => self.announcements.queue.iter().for_each(|queue| queue.put(told.clone())),
                // Nobody is to be told any more.
                None => self.pending.push((LedgerChange::TellRun(run), Then::Nothing)),
            }
        }
        Ok(())
    }

    /// Tells of a run that has ended. An error of the ledger is kept, as the run has ended all the same.
    pub(super) fn announce_end(&mut self, run: RunId, error: Option<&Error>) {
        let Some(queue) = self.announcements.queue.clone() else { return };
        match self.end_of_run(run, error.map(ToString::to_string)) {
            Ok(told) => told.into_iter().for_each(|told| queue.put(told)),
            Err(error) => self.ledger_error = Some(error),
        }
    }

    fn end_of_run(&mut self, id: RunId, reason: Option<String>) -> Result<Option<QueuedNotification>> {
        let Some(row) = self.ledger.run(id)? else { return Ok(None) };
        let (Some(ended), Some(outcome), Some(relationship)) = (row.ended, row.outcome, row.relationship)
        else {
            return Ok(None);
        };
        let kind = NotificationKind::of_outcome(outcome);
        let Some((name, recipients)) = self.recipients(relationship, kind)? else { return Ok(None) };
        let run = NotifiedRun {
            number: id,
            started: row.started,
            ended,
            files: row.counters.entries_created.saturating_add(row.counters.entries_updated),
            bytes: row.counters.figures().bytes_done,
            failures: row.failures,
        };
        let notification = Notification {
            relationship: Some(name),
            run: Some(run),
            reason: reason.filter(|_| kind == NotificationKind::RunFailed),
            ..Notification::new(format!("run-{id}"), kind, ended)
        };
        Ok(Some(QueuedNotification { recipients, notification: notification.bounded() }))
    }

    /// Returns the name of a relationship, and those who are told of a kind of event.
    fn recipients(
        &mut self,
        id: RelationshipId,
        kind: NotificationKind,
    ) -> Result<Option<(String, NotificationSetting)>> {
        let Some(record) = self.ledger.relationship(id)? else { return Ok(None) };
        // It was checked when it was saved. One of a later version is not understood here.
        let setting = record.relationship.notification.as_deref();
        let setting = setting.and_then(NotificationSetting::understood);
        Ok(setting.filter(|setting| setting.tells(kind)).map(|setting| (record.relationship.name, setting)))
    }

    /// Tells of brokers that are silent for long. Who answers for several relationships is told once.
    pub(super) fn announce_lost_brokers(&mut self) {
        let Some(queue) = self.announcements.queue.clone() else { return };
        let (now, now_ms) = self.now();
        let is_lost = |silent: &SilentBroker| now_ms.saturating_sub(silent.seen_ms) >= LOST_AFTER_MS;
        let lost: Vec<_> = self.announcements.silent.extract_if(.., |_, silent| is_lost(silent)).collect();
        for (broker, silent) in lost {
            let kind = NotificationKind::BrokerLost;
            let mut names = Vec::new();
            let mut all: Option<NotificationSetting> = None;
            for id in silent.relationships {
                match self.recipients(id, kind) {
                    Ok(Some((name, setting))) => {
                        names.push(name);
                        match &mut all {
                            Some(all) => all.add_recipients(setting),
                            None => all = Some(setting),
                        }
                    }
                    Ok(None) => {}
                    Err(error) => self.ledger_error = Some(error),
                }
            }
            let Some(recipients) = all else { continue };
            let minutes = now_ms.saturating_sub(silent.seen_ms) / 60_000;
            let words =
                format!("it had units of {}, and has not reported for {minutes} min", names.join(", "));
            let notification = Notification {
                relationship: (names.len() == 1).then(|| names.remove(0)),
                broker: Some(broker.to_string()),
                reason: Some(words),
                ..Notification::new(format!("broker-{broker}-{now}"), kind, now)
            };
            queue.put(QueuedNotification { recipients, notification: notification.bounded() });
        }
    }
}
