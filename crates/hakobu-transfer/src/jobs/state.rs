//! The state of a job.

use hakobu_core::error::ErrorStep;
use hakobu_core::report::{Outcome, can_go_on, step_by_name};
use serde::{Deserialize, Serialize};

/// The state of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// A process runs it.
    Running,
    /// The user asked it to stop.
    Paused,
    /// It was stopped, lost its connection for good, could not log in, or ended without a report, because it was killed
    /// or the host restarted.
    Interrupted,
    /// It has completed.
    Done,
    /// It ended in another way, and running it again would not help.
    Failed,
}

impl JobState {
    /// Returns the state of a job, given whether its run holds the lock, whether it was asked to stop, and how it
    /// ended.
    pub(super) fn of(runs: bool, paused: bool, ended: Option<&EndedReport>) -> Self {
        let goes_on = ended.is_none_or(EndedReport::can_go_on);
        match ended {
            _ if runs => Self::Running,
            _ if goes_on && paused => Self::Paused,
            _ if goes_on => Self::Interrupted,
            Some(EndedReport { outcome: Outcome::Done, .. }) => Self::Done,
            _ => Self::Failed,
        }
    }

    /// Returns the name for users and programs.
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

/// The relevant part of the report of a run that has ended. It has its own type so that the reports of other versions
/// can be read too.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct EndedReport {
    /// The outcome of the run.
    pub outcome: Outcome,
    /// The exit code.
    pub exit_code: u8,
    /// The error that ended the run early, if any.
    #[serde(default)]
    pub error: Option<EndedError>,
    /// The time of the end, RFC 3339 in UTC.
    #[serde(default)]
    pub ended_at: String,
    /// The bytes of content that were processed.
    #[serde(default)]
    pub bytes_done: u64,
}

/// The error that ended a run early.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct EndedError {
    /// The kind, for programs.
    pub kind: String,
    /// The step that failed, for programs.
    #[serde(default, with = "step_by_name")]
    pub step: ErrorStep,
    /// The step that failed.
    #[serde(default)]
    pub during: String,
    /// The path or host.
    #[serde(default)]
    pub at: String,
    /// The cause, for people.
    #[serde(default)]
    pub error: String,
}

impl EndedReport {
    /// Returns the stand-in for an unreadable report: the job counts as failed, because it should be examined before it
    /// runs again.
    pub(super) fn unreadable(why: String) -> Self {
        let error = EndedError {
            kind: "io".to_owned(),
            step: ErrorStep::Other,
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

    /// Returns true if the same run can resume where this one stopped. A job that could not log in has lost nothing,
    /// either.
    pub fn can_go_on(&self) -> bool {
        let no_login = self.error.as_ref().is_some_and(|error| error.step == ErrorStep::Login);
        no_login || can_go_on(self.outcome, self.error.as_ref().map(|error| error.kind.as_str()))
    }
}
