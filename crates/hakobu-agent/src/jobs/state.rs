//! How a job stands.

use hakobu_core::error::Step;
use hakobu_core::report::{Outcome, can_go_on, step_by_name};
use serde::{Deserialize, Serialize};

/// How a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// A process runs it.
    Running,
    /// The user asked it to stop.
    Paused,
    /// It was stopped, lost its connection for good, could not log in, or ended without a report: killed, or the
    /// machine was restarted.
    Interrupted,
    /// It is done.
    Done,
    /// It ended in another way, and will not do better by itself.
    Failed,
}

impl JobState {
    /// The state of a job that may be locked by its run, was asked to stop, and has left a report.
    pub(super) fn of(runs: bool, paused: bool, ended: Option<&Ended>) -> Self {
        let goes_on = ended.is_none_or(Ended::can_go_on);
        match ended {
            _ if runs => Self::Running,
            _ if goes_on && paused => Self::Paused,
            _ if goes_on => Self::Interrupted,
            Some(Ended { outcome: Outcome::Done, .. }) => Self::Done,
            _ => Self::Failed,
        }
    }

    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Interrupted => "interrupted",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// What matters here of the report of a run that has ended. It is read on its own, so that the
/// reports of other versions are understood, too.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// The exit code.
    pub exit_code: u8,
    /// What ended the run, when it was not its own end.
    #[serde(default)]
    pub error: Option<EndedError>,
    /// When, RFC 3339 in UTC.
    #[serde(default)]
    pub ended_at: String,
    /// Bytes of content that were dealt with.
    #[serde(default)]
    pub bytes_done: u64,
}

/// What ended a run before its end.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EndedError {
    /// The kind, for programs.
    pub kind: String,
    /// The step that failed, for programs.
    #[serde(default, with = "step_by_name")]
    pub step: Step,
    /// The step that failed.
    #[serde(default)]
    pub during: String,
    /// Where.
    #[serde(default)]
    pub at: String,
    /// What went wrong, in words.
    #[serde(default)]
    pub error: String,
}

impl Ended {
    /// What stands for a report that cannot be read: it is better looked at than run again.
    pub(super) fn unreadable(why: String) -> Self {
        let error = EndedError {
            kind: "io".to_owned(),
            step: Step::Other,
            during: "reading the report".to_owned(),
            at: String::new(),
            error: why,
        };
        Self {
            outcome: Outcome::Failed,
            exit_code: Outcome::Failed.exit_code(),
            error: Some(error),
            ended_at: String::new(),
            bytes_done: 0,
        }
    }

    /// Whether the same run again goes on where this one stopped. A job that could not log in has
    /// lost nothing, either.
    pub fn can_go_on(&self) -> bool {
        let no_login = self.error.as_ref().is_some_and(|error| error.step == Step::Login);
        no_login || can_go_on(self.outcome, self.error.as_ref().map(|error| error.kind.as_str()))
    }
}
