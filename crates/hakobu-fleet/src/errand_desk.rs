//! Errands of the interface: who waits for one, which broker has it, and its result. They live as long as the leader does.

use std::collections::BTreeMap;

use hakobu_core::error::{Error, ErrorKind, Result};

use crate::api::problem::Problem;
use crate::errand::{Errand, ErrandResult, ErrandState, ErrandView, RESULT_BYTES_MAX};
use crate::message::{ErrandAnswer, SentErrand};
use crate::names::{BrokerName, GroupName};
use crate::reach::BrokerReach;
use crate::relationship::CredentialReference;
use crate::sent_credentials::SentCredential;

/// The maximum number of errands that are remembered.
const ERRANDS_MAX: usize = 256;
/// The maximum number of errands that wait or are worked on in a group.
const OPEN_MAX: usize = 32;
/// The number of errands that one broker works on at a time.
const BROKER_ERRANDS_MAX: usize = 4;
/// The time for which a result is kept in milliseconds.
const KEPT_MS: u64 = 600_000;
/// The time in which a broker must take an errand in milliseconds.
const TAKEN_WITHIN_MS: u64 = 30_000;
/// The time that an answer may take beyond the errand's own in milliseconds.
const ANSWER_MS: u64 = 10_000;
/// The operation that errors name.
const DURING: &str = "asking a broker";

#[derive(Debug)]
struct ErrandRow {
    view: ErrandView,
    group: GroupName,
    broker: Option<BrokerName>,
    errand: Errand,
    credentials: Vec<CredentialReference>,
    /// The time by the leader's clock at which it fails, or, after its end, is forgotten.
    until_ms: u64,
}

/// The errands.
#[derive(Debug, Default)]
pub struct ErrandDesk {
    last: u64,
    rows: BTreeMap<u64, ErrandRow>,
    /// Numbers of errands whose state has changed since somebody looked.
    changed: Vec<u64>,
}

impl ErrandDesk {
    fn is_open(row: &ErrandRow) -> bool {
        matches!(row.view.state, ErrandState::Waiting | ErrandState::Running)
    }

    /// Takes an errand with its credentials for the brokers of a group. Returns its number, which is above `first`.
    ///
    /// # Errors
    /// `TimedOut` if too many wait.
    pub fn add(
        &mut self,
        group: GroupName,
        (errand, credentials): (Errand, Vec<CredentialReference>),
        (first, now_ms): (u64, u64),
    ) -> Result<u64> {
        self.expire(now_ms);
        let open = self.rows.values().filter(|row| row.group == group && Self::is_open(row)).count();
        if open >= OPEN_MAX {
            let words = format!("{open} requests to the brokers of {group} wait already");
            return Err(Error::new(ErrorKind::TimedOut, DURING, words).hint("try again in a moment"));
        }
        if self.rows.len() >= ERRANDS_MAX {
            let done = self.rows.iter().find(|(_, row)| !Self::is_open(row)).map(|(id, _)| *id);
            match done {
                Some(id) => self.rows.remove(&id),
                None => {
                    return Err(Error::new(ErrorKind::TimedOut, DURING, "too many requests wait already"));
                }
            };
        }
        self.last = self.last.max(first) + 1;
        let view = ErrandView {
            id: self.last,
            group: group.to_string(),
            errand: errand.kind().to_owned(),
            state: ErrandState::Waiting,
            broker: None,
            result: None,
            error: None,
        };
        let until_ms = now_ms.saturating_add(TAKEN_WITHIN_MS);
        self.rows.insert(self.last, ErrandRow { view, group, broker: None, errand, credentials, until_ms });
        self.changed.push(self.last);
        Ok(self.last)
    }

    fn end(&mut self, id: u64, outcome: std::result::Result<ErrandResult, Problem>, now_ms: u64) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        match outcome {
            Ok(result) => (row.view.state, row.view.result) = (ErrandState::Done, Some(result)),
            Err(error) => (row.view.state, row.view.error) = (ErrandState::Failed, Some(error)),
        }
        row.until_ms = now_ms.saturating_add(KEPT_MS);
        self.changed.push(id);
    }

    /// Ends errands that nobody answered in time, and forgets results that are old.
    fn expire(&mut self, now_ms: u64) {
        let due: Vec<u64> =
            self.rows.iter().filter(|(_, row)| row.until_ms <= now_ms).map(|(id, _)| *id).collect();
        for id in due {
            let Some(row) = self.rows.get(&id) else { continue };
            let words = match row.view.state {
                ErrandState::Waiting => format!("no broker of the group {} is there", row.group),
                ErrandState::Running => "the broker did not answer in time".to_owned(),
                ErrandState::Done | ErrandState::Failed => {
                    self.rows.remove(&id);
                    continue;
                }
            };
            let error = Error::new(ErrorKind::TimedOut, DURING, words)
                .hint("see which brokers are there: hakobu fleet brokers list");
            self.end(id, Err(Problem::from(&error)), now_ms);
        }
    }

    /// Returns an errand.
    pub fn view(&self, id: u64) -> Option<&ErrandView> {
        self.rows.get(&id).map(|row| &row.view)
    }

    /// Returns the errands whose state has changed since the last call.
    pub fn take_changed(&mut self, now_ms: u64) -> Vec<ErrandView> {
        self.expire(now_ms);
        let mut changed = std::mem::take(&mut self.changed);
        changed.sort_unstable();
        changed.dedup();
        changed.iter().filter_map(|id| self.rows.get(id)).map(|row| row.view.clone()).collect()
    }

    /// Returns errands that a broker is to begin with: of those whose locations it reaches. `seal` returns the credentials of the errand with a number for it; an
    /// errand whose credentials it cannot have fails.
    pub fn give(
        &mut self,
        (group, broker, reach): (&GroupName, &BrokerName, &BrokerReach),
        now_ms: u64,
        seal: impl Fn(&[CredentialReference], u64) -> Result<Vec<SentCredential>>,
    ) -> Vec<SentErrand> {
        self.expire(now_ms);
        let own = |row: &&ErrandRow| row.broker.as_ref() == Some(broker) && Self::is_open(row);
        let busy = self.rows.values().filter(own).count();
        let fits = |row: &ErrandRow| {
            row.group == *group
                && row.view.state == ErrandState::Waiting
                && reach.has_texts(&row.errand.locations())
        };
        let waiting = self.rows.iter_mut().filter(|(_, row)| fits(row));
        let (mut sent, mut failed) = (Vec::new(), Vec::new());
        for (id, row) in waiting.take(BROKER_ERRANDS_MAX.saturating_sub(busy)) {
            let Ok(errand) = serde_json::to_string(&row.errand) else { continue };
            row.broker = Some(broker.clone());
            row.view.broker = Some(broker.to_string());
            row.view.state = ErrandState::Running;
            let limit_ms = row.errand.limit_ms();
            row.until_ms = now_ms.saturating_add(limit_ms).saturating_add(ANSWER_MS);
            match seal(&row.credentials, *id) {
                Ok(credentials) => sent.push(SentErrand { id: *id, limit_ms, errand, credentials }),
                Err(error) => failed.push((*id, Problem::from(&error))),
            }
            self.changed.push(*id);
        }
        failed.into_iter().for_each(|(id, problem)| self.end(id, Err(problem), now_ms));
        sent
    }

    /// Takes the answer of a broker. One that it was not asked for is dropped.
    pub fn take(&mut self, group: &GroupName, broker: &BrokerName, answer: ErrandAnswer, now_ms: u64) {
        let is_own = self.rows.get(&answer.id).is_some_and(|row| {
            row.group == *group
                && row.broker.as_ref() == Some(broker)
                && row.view.state == ErrandState::Running
        });
        if !is_own {
            return;
        }
        let outcome = match answer.result {
            Ok(json) if json.len() > RESULT_BYTES_MAX => Err(misread("the answer of the broker is too long")),
            Ok(json) => serde_json::from_str(&json).map_err(|error| misread(&error.to_string())),
            Err(error) => Err(Problem::from(&Error::from(error))),
        };
        self.end(answer.id, outcome, now_ms);
    }
}

fn misread(words: &str) -> Problem {
    Problem::from(&Error::new(ErrorKind::Protocol, "reading the answer of a broker", words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::byte_text::ByteText;

    fn browse() -> (Errand, Vec<CredentialReference>) {
        let location = ByteText(b"/a".to_vec());
        (Errand::Browse { location, arguments: Vec::new(), is_target: false }, Vec::new())
    }

    #[test]
    fn errands_are_bounded_and_end() {
        let mut desk = ErrandDesk::default();
        let (group, other) = (GroupName::new("a").unwrap(), GroupName::new("b").unwrap());
        let ids: Vec<u64> =
            (0..OPEN_MAX).map(|_| desk.add(group.clone(), browse(), (5, 0)).unwrap()).collect();
        assert!(desk.add(group.clone(), browse(), (5, 0)).is_err());
        assert!(desk.add(other, browse(), (5, 0)).is_ok());
        assert_eq!(ids[0], 6);
        desk.end(ids[0], Ok(ErrandResult::Browse { entries: Vec::new(), is_cut: false }), 0);
        assert!(desk.add(group.clone(), browse(), (5, 0)).is_ok(), "one is done");
        desk.expire(TAKEN_WITHIN_MS);
        assert_eq!(desk.rows[&ids[1]].view.state, ErrandState::Failed);
        assert_eq!(desk.rows[&ids[0]].view.state, ErrandState::Done);
        desk.expire(TAKEN_WITHIN_MS + KEPT_MS);
        assert!(desk.rows.is_empty());
    }

    #[test]
    fn an_errand_goes_to_its_group_with_its_credentials_or_fails() {
        let mut desk = ErrandDesk::default();
        let (group, other) = (GroupName::new("a").unwrap(), GroupName::new("b").unwrap());
        let broker = BrokerName::new("one").unwrap();
        let named = |name: &str| vec![CredentialReference::Environment(name.to_owned())];
        let good = desk.add(group.clone(), (browse().0, named("GOOD")), (0, 0)).unwrap();
        let bad = desk.add(group.clone(), (browse().0, named("BAD")), (0, 0)).unwrap();
        let seal = |references: &[CredentialReference], id: u64| match references {
            [CredentialReference::Environment(name)] if name == "GOOD" => {
                Ok(vec![SentCredential::Environment(format!("{name} {id}"))])
            }
            _ => Err(Error::new(ErrorKind::Unauthenticated, DURING, "they cannot be opened")),
        };
        let everywhere = BrokerReach::default();
        assert!(desk.give((&other, &broker, &everywhere), 0, seal).is_empty());
        let elsewhere = BrokerReach::new(&[b"/b".to_vec()]).unwrap();
        assert!(desk.give((&group, &broker, &elsewhere), 0, seal).is_empty());
        let sent = desk.give((&group, &broker, &everywhere), 0, seal);
        let credentials = vec![SentCredential::Environment(format!("GOOD {good}"))];
        assert_eq!(
            sent.iter().map(|errand| (errand.id, &errand.credentials)).collect::<Vec<_>>(),
            [(good, &credentials)]
        );
        let failed = desk.view(bad).unwrap();
        assert_eq!(
            (failed.state, &*failed.error.as_ref().unwrap().kind),
            (ErrandState::Failed, "unauthenticated")
        );
    }
}
