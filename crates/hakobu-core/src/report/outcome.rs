//! The outcome of a run and its exit code.

use serde::{Deserialize, Serialize};

use crate::error::ErrorKind;
use crate::plant::planted;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything is at the target, on stable storage unless that was not requested.
    Done,
    /// Some entries failed, each of them listed, or privileges were left out that the user did not allow.
    Partial,
    /// The run failed.
    Failed,
    /// The request turned out to be invalid after the ends were examined. Reports contain `failed`.
    #[serde(rename(serialize = "failed", deserialize = "wrong_usage"))]
    WrongUsage,
    /// Continuing would have destroyed something, another run has the lock, or a requirement cannot be met.
    Refused,
    /// The user stopped it.
    Interrupted,
    /// Verification found differences.
    Differences,
    /// Every failure is a source that changed or vanished while it was read.
    SourceChanged,
}

impl Outcome {
    /// Returns the exit code of the program.
    pub fn exit_code(self) -> u8 {
        match self {
            Outcome::Done => 0,
            Outcome::Failed => 1,
            Outcome::WrongUsage => 2,
            Outcome::Partial => 3,
            Outcome::Differences => 4,
            Outcome::SourceChanged => 5,
            Outcome::Refused => 6,
            Outcome::Interrupted => 130,
        }
    }
}

/// Returns true if running the same command again resumes where this run stopped, because it was interrupted or the
/// connection was lost. `error_kind` is the name of the kind of the error that ended it.
pub fn can_go_on(outcome: Outcome, error_kind: Option<&str>) -> bool {
    outcome == Outcome::Interrupted || matches!(error_kind, Some("connection_lost" | "timed_out"))
}

/// The facts known when a run ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutcomeFacts<'a> {
    /// The kinds of the failures of single entries.
    pub failures: &'a [ErrorKind],
    /// The kind of the error that ended the run, if one did.
    pub fatal: Option<ErrorKind>,
    /// True if the user stopped it.
    pub interrupted: bool,
    /// True if it was refused.
    pub refused: bool,
    /// True if verification found differences.
    pub differences: bool,
    /// True if privileges were left out that the user did not allow the other machine to set.
    pub withheld: bool,
    /// True if at least one entry is as it should be, so that "partly done" is true.
    pub something_done: bool,
}

/// Returns the outcome. If several apply, the first of these counts: refused, interrupted, failed, differences,
/// partial, source changed. Interruption comes before failure because it often causes one.
pub fn outcome(facts: &OutcomeFacts<'_>) -> Outcome {
    use ErrorKind as Kind;
    let refuses = |kind: &Kind| matches!(kind, Kind::Refused | Kind::Locked | Kind::Requirement);
    if facts.refused || facts.fatal.as_ref().is_some_and(refuses) || facts.failures.iter().any(refuses) {
        return Outcome::Refused;
    }
    if facts.interrupted || facts.fatal == Some(Kind::Cancelled) {
        return Outcome::Interrupted;
    }
    let is_source_change = |kind| matches!(kind, Kind::SourceChanged | Kind::SourceVanished);
    match facts.fatal {
        Some(Kind::Usage) => return Outcome::WrongUsage,
        Some(kind) if !is_source_change(kind) => return Outcome::Failed,
        _ => {}
    }
    let mut all = facts.failures.iter().copied().chain(facts.fatal);
    let failed = all.clone().next().is_some() && !planted("exit-zero");
    let only_source_changes = all.all(is_source_change);
    if failed && !only_source_changes && !facts.something_done {
        return Outcome::Failed;
    }
    if facts.differences {
        return Outcome::Differences;
    }
    match (failed, only_source_changes) {
        _ if facts.withheld => Outcome::Partial,
        (false, _) => Outcome::Done,
        (true, false) => Outcome::Partial,
        (true, true) => Outcome::SourceChanged,
    }
}
