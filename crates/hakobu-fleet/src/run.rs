//! Runs: one execution of a relationship, phase by phase.

use hakobu_core::error::Result;

use crate::ids::{Moment, RelationshipId, RunId};
use crate::limits::check_at_most;
use crate::names::GroupName;
use crate::relationship::check_setting;
use crate::run_figures::RunFigures;
use crate::run_losses::RunLosses;
use crate::unit::UnitWork;
use crate::unit_counters::UnitCounters;

/// The maximum length of a phase's cursor in bytes: a place with a path.
pub const CURSOR_BYTES_MAX: usize = 8 << 10;
/// The maximum number of units that one step adds.
pub const STEP_UNITS_MAX: usize = 10_000;
/// The maximum length of a report in bytes.
pub const REPORT_BYTES_MAX: usize = 16 << 20;

/// The phases of a run, in their order. A run may leave some out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RunPhase {
    /// Entries are copied, without files that have several names.
    Copy,
    /// Files with several names are copied once, and linked.
    Links,
    /// Extra entries are removed from the target.
    Removal,
    /// The attributes of open directories are set.
    Directories,
    /// Source and target are compared.
    Verify,
    /// Nothing is left to do.
    Ended,
}

impl RunPhase {
    /// All phases, in their order.
    pub const ALL: [Self; 6] =
        [Self::Copy, Self::Links, Self::Removal, Self::Directories, Self::Verify, Self::Ended];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Links => "links",
            Self::Removal => "removal",
            Self::Directories => "directories",
            Self::Verify => "verify",
            Self::Ended => "ended",
        }
    }

    /// Returns the phase with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// The outcome of a run that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RunOutcome {
    /// Everything was done.
    Complete,
    /// Some entries failed.
    Partial,
    /// The run could not go on.
    Failed,
    /// Somebody stopped it.
    Cancelled,
}

impl RunOutcome {
    /// All outcomes.
    pub const ALL: [Self; 4] = [Self::Complete, Self::Partial, Self::Failed, Self::Cancelled];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns the outcome with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.name() == name)
    }
}

/// The numbers of units of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitCounts {
    /// Units that were ever added.
    pub added: u64,
    /// Units that are committed.
    pub committed: u64,
    /// Units that were tried too often.
    pub given_up: u64,
}

impl UnitCounts {
    /// Returns the number of units that are ready or leased.
    pub fn open(&self) -> u64 {
        self.added.saturating_sub(self.committed).saturating_sub(self.given_up)
    }
}

/// A run to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRun {
    /// The relationship; none for a run of its own.
    pub relationship: Option<RelationshipId>,
    /// The group whose brokers work on it.
    pub group: GroupName,
    /// Locations and options at the start, as JSON: a later change of the relationship does not change a run.
    pub request: String,
    /// The moment of the start.
    pub started: Moment,
    /// The first units: the roots, or what failed in an earlier run.
    pub units: Vec<UnitWork>,
}

/// A step of a run: further units of the same phase, or the next phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunStep {
    /// The run.
    pub run: RunId,
    /// The number of the last step, which must be the current one.
    pub step: u64,
    /// The phase from now on. Another phase than before needs that no unit is left, and none may go back.
    pub phase: RunPhase,
    /// The place up to which units of this phase were made.
    pub cursor: Vec<u8>,
    /// The units to add.
    pub units: Vec<UnitWork>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run.
    pub run: RunId,
    /// The moment.
    pub ended: Moment,
    /// The outcome. Units that are left are dropped, which only [`RunOutcome::Cancelled`] and [`RunOutcome::Failed`] allow.
    pub outcome: RunOutcome,
    /// The figures of units that are dropped, as their brokers last told.
    pub dropped: RunFigures,
    /// The report, as JSON.
    pub report: Vec<u8>,
}

/// A run, without its report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    /// The number.
    pub id: RunId,
    /// The relationship.
    pub relationship: Option<RelationshipId>,
    /// The group whose brokers work on it.
    pub group: GroupName,
    /// Locations and options, as JSON.
    pub request: String,
    /// The phase.
    pub phase: RunPhase,
    /// The number of the last step.
    pub step: u64,
    /// The place up to which units of this phase were made.
    pub cursor: Vec<u8>,
    /// The numbers of units.
    pub units: UnitCounts,
    /// The counters of committed units.
    pub counters: UnitCounters,
    /// The number of failures.
    pub failures: u64,
    /// Properties that committed units could not keep.
    pub losses: RunLosses,
    /// The forecast, as JSON.
    pub forecast: Option<String>,
    /// The moment of the start.
    pub started: Moment,
    /// The moment of the end.
    pub ended: Option<Moment>,
    /// The outcome, if it has ended.
    pub outcome: Option<RunOutcome>,
    /// True if somebody paused it.
    pub is_paused: bool,
    /// The limits that hold in place of those of its relationship, as JSON.
    pub limits: Option<String>,
}

impl NewRun {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_setting("the request of a run", Some(&self.request))?;
        check_units(&self.units)
    }

    /// Returns the record of the run before its units are added.
    pub(crate) fn record(&self, id: RunId) -> RunRow {
        RunRow {
            id,
            relationship: self.relationship,
            group: self.group.clone(),
            request: self.request.clone(),
            phase: RunPhase::Copy,
            step: 0,
            cursor: Vec::new(),
            units: UnitCounts::default(),
            counters: UnitCounters::default(),
            failures: 0,
            losses: RunLosses::default(),
            forecast: None,
            started: self.started,
            ended: None,
            outcome: None,
            is_paused: false,
            limits: None,
        }
    }
}

impl RunStep {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of a phase's cursor", self.cursor.len(), CURSOR_BYTES_MAX)?;
        check_units(&self.units)
    }
}

impl RunEnd {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of a report", self.report.len(), REPORT_BYTES_MAX)
    }
}

fn check_units(units: &[UnitWork]) -> Result<()> {
    check_at_most("the units of one step", units.len(), STEP_UNITS_MAX)?;
    units.iter().try_for_each(UnitWork::check)
}
