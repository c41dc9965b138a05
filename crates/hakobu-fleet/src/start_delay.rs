//! Starts by schedule that wait for something, or were left out.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{Moment, RunId};

/// The cause of a delay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DelayCause {
    /// This run of the relationship, which had not ended.
    RunOpen(RunId),
    /// This run, which copies to the same target, or to a place within or around it.
    TargetInUse(RunId),
    /// A blackout of the schedule.
    Blackout,
    /// The control plane was away at that time.
    Away,
    /// The request of the relationship is refused, with these words.
    Refused(String),
}

/// A start by schedule that was not made at its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartDelay {
    /// The moment for which it was planned. Of several that wait, the first; of several that were left out, the last.
    pub planned: Moment,
    /// True if it was left out, and false if it is made as soon as it may.
    pub is_left_out: bool,
    /// The cause.
    pub cause: DelayCause,
}

/// The kind of cause of a delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DelayKind {
    /// A run of the relationship that had not ended.
    RunOpen,
    /// A run that copies to the same target, or to a place within or around it.
    TargetInUse,
    /// A blackout of the schedule.
    Blackout,
    /// The control plane was away at that time.
    Away,
    /// The request of the relationship is refused.
    Refused,
}

/// A start by schedule that was not made at its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct StartDelayView {
    /// The kind of cause.
    pub kind: DelayKind,
    /// True if the start was left out, and false if it is made as soon as it may.
    pub is_left_out: bool,
    /// The moment for which it was planned, in milliseconds since 1970. Of several that wait, the first; of several that were left
    /// out, the last.
    pub planned_ms: u64,
    /// The run that is the cause.
    pub run: Option<u64>,
    /// The state in words that follow "the start", such as `waits for the end of run 12, which is under way`.
    pub message: String,
}

impl StartDelay {
    /// Returns true if it goes on for the same reason.
    pub fn is_like(&self, other: &Self) -> bool {
        self.is_left_out == other.is_left_out && self.cause == other.cause
    }

    /// Returns the state in words that follow "the start".
    pub fn words(&self) -> String {
        const TARGET: &str = "to this target, or to a place within or around it";
        match (&self.cause, self.is_left_out) {
            (DelayCause::RunOpen(run), false) => {
                format!("waits for the end of run {run}, which is under way")
            }
            (DelayCause::RunOpen(run), true) => {
                format!("was left out, as run {run} was under way")
            }
            (DelayCause::TargetInUse(run), false) => {
                format!("waits for the end of run {run}, which copies {TARGET}")
            }
            (DelayCause::TargetInUse(run), true) => {
                format!("was left out, as run {run} copied {TARGET}")
            }
            (DelayCause::Blackout, false) => "waits for the end of a blackout".to_owned(),
            (DelayCause::Blackout, true) => "was left out, as it was in a blackout".to_owned(),
            (DelayCause::Away, false) => "waits, as the control plane was away".to_owned(),
            (DelayCause::Away, true) => "was left out, as the control plane was away".to_owned(),
            (DelayCause::Refused(words), false) => format!("is not possible: {words}"),
            (DelayCause::Refused(words), true) => format!("was left out: {words}"),
        }
    }
}

impl From<&StartDelay> for StartDelayView {
    fn from(delay: &StartDelay) -> Self {
        let (kind, run) = match &delay.cause {
            DelayCause::RunOpen(run) => (DelayKind::RunOpen, Some(*run)),
            DelayCause::TargetInUse(run) => (DelayKind::TargetInUse, Some(*run)),
            DelayCause::Blackout => (DelayKind::Blackout, None),
            DelayCause::Away => (DelayKind::Away, None),
            DelayCause::Refused(_) => (DelayKind::Refused, None),
        };
        Self {
            kind,
            is_left_out: delay.is_left_out,
            planned_ms: delay.planned.get(),
            run: run.map(RunId::get),
            message: delay.words(),
        }
    }
}
