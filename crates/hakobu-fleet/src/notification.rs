//! Notifications: events that people hear of although they do not look, as JSON for programs and as mail.

pub mod delivery;
pub mod mail;
pub mod webhook;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{Moment, RunId};
use crate::limits::shortened;
use crate::run::RunOutcome;

/// The version of the setting and of the body.
pub const NOTIFICATION_VERSION: u8 = 1;
/// The maximum length of each text of a notification in bytes.
pub const NOTIFICATION_TEXT_BYTES_MAX: usize = 4096;

/// The kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NotificationKind {
    /// A run ended, and everything was done.
    RunComplete,
    /// A run ended, and some entries failed.
    RunPartial,
    /// A run could not go on.
    RunFailed,
    /// Somebody stopped a run.
    RunCancelled,
    /// A broker has not been seen for long.
    BrokerLost,
}

impl NotificationKind {
    /// The kinds that are told unless others are chosen: those after which somebody has something to do.
    pub const PROBLEMS: [Self; 3] = [Self::RunPartial, Self::RunFailed, Self::BrokerLost];

    /// Returns the kind for the end of a run.
    pub fn of_outcome(outcome: RunOutcome) -> Self {
        match outcome {
            RunOutcome::Complete => Self::RunComplete,
            RunOutcome::Partial => Self::RunPartial,
            RunOutcome::Failed => Self::RunFailed,
            RunOutcome::Cancelled => Self::RunCancelled,
        }
    }
}

/// A run that a notification is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotifiedRun {
    /// The number.
    #[schema(value_type = u64)]
    pub number: RunId,
    /// The moment of its start, in milliseconds since 1970.
    #[schema(value_type = u64)]
    pub started: Moment,
    /// The moment of its end.
    #[schema(value_type = u64)]
    pub ended: Moment,
    /// The files that were copied.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The entries that failed.
    pub failures: u64,
}

/// A notification: the body that webhooks get. New fields are only added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct Notification {
    /// The version of the form, which is 1.
    pub version: u8,
    /// The ID, which is equal in all attempts to deliver it.
    pub id: String,
    /// The kind.
    pub kind: NotificationKind,
    /// The moment, in milliseconds since 1970.
    #[schema(value_type = u64)]
    pub when: Moment,
    /// The name of the relationship, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relationship: Option<String>,
    /// The run, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<NotifiedRun>,
    /// The name of the broker, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker: Option<String>,
    /// The reason in words, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The page with more about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Notification {
    /// Creates a notification. `id` is unique: the number of the run, or of the row about which it is.
    pub fn new(id: impl Into<String>, kind: NotificationKind, when: Moment) -> Self {
        Self {
            version: NOTIFICATION_VERSION,
            id: id.into(),
            kind,
            when,
            relationship: None,
            run: None,
            broker: None,
            reason: None,
            link: None,
        }
    }

    /// Cuts texts that are too long.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        let texts = [&mut self.relationship, &mut self.broker, &mut self.reason, &mut self.link];
        for text in texts.into_iter().flatten().filter(|text| text.len() > NOTIFICATION_TEXT_BYTES_MAX) {
            *text = shortened(text, NOTIFICATION_TEXT_BYTES_MAX);
        }
        self
    }

    /// Returns one line in English: the subject of a mail.
    pub fn subject(&self) -> String {
        let relationship = self.relationship.as_deref().unwrap_or("a single run");
        let broker = self.broker.as_deref().unwrap_or("a broker");
        match self.kind {
            NotificationKind::RunComplete => format!("{relationship}: complete"),
            NotificationKind::RunPartial => {
                let failures = self.run.as_ref().map_or(0, |run| run.failures);
                format!("{relationship}: ended with {failures} failures")
            }
            NotificationKind::RunFailed => format!("{relationship}: failed"),
            NotificationKind::RunCancelled => format!("{relationship}: cancelled"),
            NotificationKind::BrokerLost => format!("broker {broker} is lost"),
        }
    }

    /// Returns all of it in English: the text of a mail.
    pub fn text(&self) -> String {
        let mut lines = vec![format!("{}.", self.subject()), String::new()];
        let mut add = |name: &str, value: String| lines.push(format!("{name}: {value}"));
        if let Some(run) = &self.run {
            add("Run", run.number.to_string());
            add("Started", time_words(run.started));
            add("Ended", time_words(run.ended));
            add("Copied", format!("{} files, {} bytes", run.files, run.bytes));
            add("Failures", run.failures.to_string());
        }
        if let Some(reason) = &self.reason {
            add("Reason", reason.clone());
        }
        if let Some(link) = &self.link {
            add("More", link.clone());
        }
        lines.push(String::new());
        lines.join("\n")
    }
}

/// Returns a moment in words.
pub(crate) fn time_words(moment: Moment) -> String {
    let stamp = i64::try_from(moment.get()).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    stamp.map_or_else(|| moment.to_string(), |stamp| stamp.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partial() -> Notification {
        let when = Moment::new(1_800_000_000_000).unwrap();
        let run = NotifiedRun {
            number: RunId::new(7).unwrap(),
            started: Moment::new(1_799_999_000_000).unwrap(),
            ended: when,
            files: 12,
            bytes: 3456,
            failures: 2,
        };
        Notification {
            relationship: Some("home".to_owned()),
            run: Some(run),
            ..Notification::new("run-7", NotificationKind::RunPartial, when)
        }
    }

    #[test]
    fn the_body_has_a_fixed_form() {
        assert_eq!(
            serde_json::to_string(&partial()).unwrap(),
            r#"{"version":1,"id":"run-7","kind":"run_partial","when":1800000000000,"relationship":"home","run":{"number":7,"started":1799999000000,"ended":1800000000000,"files":12,"bytes":3456,"failures":2}}"#
        );
        assert_eq!(
            partial().text(),
            "home: ended with 2 failures.\n\nRun: 7\nStarted: 2027-01-15 07:43:20 UTC\nEnded: 2027-01-15 08:00:00 UTC\n\
             Copied: 12 files, 3456 bytes\nFailures: 2\n"
        );
        for outcome in RunOutcome::ALL {
            let kind = serde_json::to_value(NotificationKind::of_outcome(outcome)).unwrap();
            assert_eq!(kind, format!("run_{}", outcome.name()));
        }
    }

    #[test]
    fn texts_are_bounded() {
        let long = Notification { reason: Some("\u{e9}".repeat(NOTIFICATION_TEXT_BYTES_MAX)), ..partial() };
        assert_eq!(long.bounded().reason.unwrap().len(), NOTIFICATION_TEXT_BYTES_MAX);
        assert_eq!(partial().bounded(), partial());
    }
}
