//! Changes that a ledger applies, and its answers.
//!
//! A change that is refused changes nothing, and does not keep the others of its batch from being applied. A change that is not
//! well formed is an error of the whole batch, so [`LedgerChange::check`] belongs before it.

use std::collections::HashSet;

use hakobu_core::error::{Error, Result};

use crate::audit::AuditEntry;
use crate::broker::BrokerSighting;
use crate::endpoint_location::ENDPOINT_BYTES_MAX;
use crate::failure::FailureRow;
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RunId, TokenId, UnitKey};
use crate::lease::Lease;
use crate::limits::{check_at_most, malformed};
use crate::link_name::LinkNameRow;
use crate::names::{BrokerName, GroupName};
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::OpenFileRow;
use crate::relationship::{Relationship, check_setting};
use crate::run::{NewRun, RunEnd, RunStep, STEP_UNITS_MAX};
use crate::run_losses::RunLosses;
use crate::token::{NewToken, TokenHash, TokenRecord};
use crate::transition::{RefuseCause, UnitRefusal, UnitTransition};
use crate::unit::{ItemPart, UnitItem, UnitWork};
use crate::unit_counters::UnitCounters;

/// The maximum number of changes in one batch.
pub const BATCH_CHANGES_MAX: usize = 10_000;
/// The maximum number of rows of each kind that one commit adds: open directories and files, names of links, and failures.
pub const COMMIT_ROWS_MAX: usize = 100_000;
/// The maximum length of a mark of the ledger in bytes.
const MARK_BYTES_MAX: usize = 1024;

/// The result of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitResult {
    /// The work that was given away: units of their own.
    pub children: Vec<UnitWork>,
    /// The counters.
    pub counters: UnitCounters,
    /// Directories whose attributes are not set.
    pub open_directories: Vec<OpenDirectoryRow>,
    /// Large files whose ranges were given away, and those of which a range could not be copied.
    pub open_files: Vec<OpenFileRow>,
    /// Names that were left out because their files have several.
    pub link_names: Vec<LinkNameRow>,
    /// Entries that failed.
    pub failures: Vec<FailureRow>,
    /// Properties that were not kept.
    pub losses: RunLosses,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerChange {
    /// Starts a run.
    StartRun(Box<NewRun>),
    /// Adds units to a run, or begins its next phase.
    StepRun(Box<RunStep>),
    /// Ends a run.
    EndRun(Box<RunEnd>),
    /// Replaces the forecast of a run, as JSON.
    SetForecast(RunId, Option<String>),
    /// Pauses a run, or lets it go on.
    PauseRun(RunId, bool),
    /// Sets the limits of a run, as JSON, in place of those of its relationship.
    LimitRun(RunId, Option<String>),
    /// Notes that the end of a run was told to everybody who is to be told, or cannot be.
    TellRun(RunId),
    /// Sets the limits of a group, as JSON.
    LimitGroup(GroupName, Option<String>),
    /// Sets the limits of the endpoint at a location, as JSON.
    LimitEndpoint(Vec<u8>, Option<String>),
    /// Sets a mark of the whole ledger by its name.
    SetMark(&'static str, String),
    /// Leases, renews, refuses or expires. Committing is [`LedgerChange::Commit`].
    Unit(UnitKey, UnitTransition),
    /// Commits a unit with its result.
    Commit {
        /// The unit.
        key: UnitKey,
        /// The broker that asks.
        broker: BrokerName,
        /// The epoch of the lease.
        epoch: Epoch,
        /// The result.
        result: Box<UnitResult>,
    },
    /// Adds a relationship, or replaces one in the revision that is known.
    SaveRelationship {
        /// The one to replace.
        replaces: Option<(RelationshipId, Revision)>,
        /// The moment.
        now: Moment,
        /// The relationship.
        relationship: Box<Relationship>,
    },
    /// Removes a relationship in the revision that is known, unless a run of it is under way. Its runs stay.
    RemoveRelationship(RelationshipId, Revision),
    /// Notes that a broker is there.
    SeeBroker(BrokerSighting),
    /// Makes a broker get no further units, or again some.
    DrainBroker(BrokerName, bool),
    /// Forgets a broker.
    ForgetBroker(BrokerName),
    /// Adds a token.
    AddToken(NewToken),
    /// Uses a token, which ends one that is valid once.
    UseToken(TokenHash, Moment),
    /// Removes a token.
    RevokeToken(TokenId),
    /// Changes nothing: for the audit log, of what is not in the ledger.
    Nothing,
    /// A change that is written to the audit log with its outcome, in the same transaction.
    Audited(Box<AuditEntry>, Box<LedgerChange>),
}

/// The answer to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LedgerAnswer {
    /// It is done, and there is nothing more to tell.
    Done,
    /// The run has started.
    RunStarted(RunId),
    /// The unit is leased.
    Leased(Box<Lease>),
    /// The unit is committed.
    Committed,
    /// The unit is ready again, in this epoch.
    Ready(Epoch),
    /// The unit was tried too often, and its items are failures of the run.
    GivenUp,
    /// The relationship is saved.
    RelationshipSaved(RelationshipId, Revision),
    /// The token is added.
    TokenAdded(TokenId),
    /// The token is valid.
    TokenUsed(Box<TokenRecord>),
    /// The change is refused.
    Refused(LedgerRefusal),
}

/// The reason for which a change is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerRefusal {
    /// A transition of a unit is refused.
    Unit(UnitRefusal),
    /// No such run.
    UnknownRun,
    /// The run has ended.
    RunEnded,
    /// This run of the relationship has not ended.
    RunOpen(RunId),
    /// This run, which has not ended, copies to the same place, or to one within or around it.
    TargetInUse(RunId),
    /// The run has made another step.
    OtherStep,
    /// The phase would go back.
    PhaseGoesBack,
    /// Units are left.
    UnitsLeft,
    /// No such relationship.
    UnknownRelationship,
    /// The relationship was changed by somebody else.
    OtherRevision,
    /// Another relationship has the name.
    NameTaken,
    /// No such broker.
    UnknownBroker,
    /// No such token, or not valid any more.
    UnknownToken,
    /// The token is there already.
    TokenTaken,
}

impl LedgerRefusal {
    /// Returns the name in the audit log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unit(UnitRefusal::Unknown) => "unknown_unit",
            Self::Unit(UnitRefusal::Committed) => "committed",
            Self::Unit(UnitRefusal::StaleEpoch) => "stale_epoch",
            Self::Unit(UnitRefusal::OtherBroker) => "other_broker",
            Self::Unit(UnitRefusal::OtherGroup) => "other_group",
            Self::Unit(UnitRefusal::NotLeased) => "not_leased",
            Self::Unit(UnitRefusal::NotDue) => "not_due",
            Self::Unit(UnitRefusal::DeadlinePassed) => "deadline_passed",
            Self::Unit(UnitRefusal::EpochsExhausted) => "epochs_exhausted",
            Self::Unit(UnitRefusal::OutsideUnit) => "outside_unit",
            Self::UnknownRun => "unknown_run",
            Self::RunEnded => "run_ended",
            Self::RunOpen(_) => "run_open",
            Self::TargetInUse(_) => "target_in_use",
            Self::OtherStep => "other_step",
            Self::PhaseGoesBack => "phase_goes_back",
            Self::UnitsLeft => "units_left",
            Self::UnknownRelationship => "unknown_relationship",
            Self::OtherRevision => "other_revision",
            Self::NameTaken => "name_taken",
            Self::UnknownBroker => "unknown_broker",
            Self::UnknownToken => "unknown_token",
            Self::TokenTaken => "token_taken",
        }
    }
}

impl UnitResult {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the children of a unit", self.children.len(), STEP_UNITS_MAX)?;
        check_at_most("the open directories of a unit", self.open_directories.len(), COMMIT_ROWS_MAX)?;
        check_at_most("the open files of a unit", self.open_files.len(), COMMIT_ROWS_MAX)?;
        check_at_most("the names of links of a unit", self.link_names.len(), COMMIT_ROWS_MAX)?;
        check_at_most("the failures of a unit", self.failures.len(), COMMIT_ROWS_MAX)?;
        for child in &self.children {
            if !matches!(child, UnitWork::Items(_)) {
                return Err(malformed("the child of a unit", "its work is no list of items"));
            }
            child.check()?;
        }
        let open: HashSet<_> = self.open_files.iter().filter(|row| !row.is_torn).collect();
        let is_open = |item: &UnitItem| match &item.part {
            ItemPart::Range(range) => {
                let (position, detail) = (item.position(), range.detail.clone());
                open.contains(&OpenFileRow { position, is_torn: false, detail })
            }
            ItemPart::Whole | ItemPart::Names(_) => true,
        };
        if !self.given_items().all(is_open) {
            return Err(malformed("the child of a unit", "its file is not open"));
        }
        self.open_files.iter().try_for_each(OpenFileRow::check)?;
        self.losses.check()?;
        self.open_directories.iter().try_for_each(OpenDirectoryRow::check)?;
        self.link_names.iter().try_for_each(LinkNameRow::check)?;
        self.failures.iter().try_for_each(FailureRow::check)
    }

    /// Returns true if all entries that it names belong to the work of the unit. Failures are not looked at: their paths are
    /// for people.
    pub fn is_within(&self, work: &UnitWork) -> bool {
        let mut files = self.open_files.iter();
        let mut directories = self.open_directories.iter().map(|row| (row.root, &row.path));
        let mut links = self.link_names.iter().map(|row| (row.root, &row.path));
        let coverage = work.coverage();
        let has_ends = directories.all(|(root, path)| coverage.has_end(root, path));
        let has_links = links.all(|(root, path)| coverage.has(root, path));
        let has_files = files.all(|row| match row.is_torn {
            true => coverage.has_range(&row.position),
            false => coverage.has(row.position.root, &row.position.path),
        });
        has_ends && has_links && has_files && self.given_items().all(|item| coverage.has_item(item))
    }

    fn given_items(&self) -> impl Iterator<Item = &UnitItem> {
        self.children.iter().flat_map(|child| match child {
            UnitWork::Items(items) => &items[..],
            _ => &[],
        })
    }

    /// Returns true if it names entries that must belong to the work of the unit.
    pub fn names_entries(&self) -> bool {
        let names_no_rows =
            self.open_directories.is_empty() && self.open_files.is_empty() && self.link_names.is_empty();
        !(self.children.is_empty() && names_no_rows)
    }
}

impl LedgerChange {
    /// Checks everything that comes from outside: lengths, counts and forms.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        match self {
            Self::StartRun(run) => run.check(),
            Self::StepRun(step) => step.check(),
            Self::EndRun(end) => end.check(),
            Self::LimitRun(_, limits) => check_setting("the limits of a run", limits.as_deref()),
            Self::LimitGroup(_, limits) => check_setting("the limits of a group", limits.as_deref()),
            Self::LimitEndpoint(location, limits) => {
                check_at_most(
                    "the bytes of the location of an endpoint",
                    location.len(),
                    ENDPOINT_BYTES_MAX,
                )?;
                check_setting("the limits of an endpoint", limits.as_deref())
            }
            Self::SetMark(_, value) => check_at_most("the bytes of a mark", value.len(), MARK_BYTES_MAX),
            Self::SetForecast(_, forecast) => check_setting("a forecast", forecast.as_deref()),
            Self::Unit(_, UnitTransition::Commit { .. }) => Err(malformed("a commit", "it has no result")),
            Self::Commit { result, .. } => result.check(),
            Self::SaveRelationship { relationship, .. } => relationship.check(),
            Self::SeeBroker(sighting) => sighting.check(),
            Self::AddToken(token) => token.check(),
            Self::Audited(_, inner) if matches!(**inner, Self::Audited(..)) => {
                Err(malformed("a change", "it is in the audit log twice"))
            }
            Self::Audited(entry, inner) => entry.check().and_then(|()| inner.check()),
            Self::Unit(..)
            | Self::PauseRun(..)
            | Self::TellRun(_)
            | Self::RemoveRelationship(..)
            | Self::DrainBroker(..)
            | Self::ForgetBroker(_)
            | Self::UseToken(..)
            | Self::RevokeToken(_)
            | Self::Nothing => Ok(()),
        }
    }

    /// Creates the change by which a broker returns a unit, with the error if it could not do the work.
    pub fn refuse(
        key: UnitKey,
        broker: BrokerName,
        epoch: Epoch,
        (cause, error): (RefuseCause, Option<Error>),
    ) -> Self {
        Self::Unit(key, UnitTransition::Refuse { broker, epoch, cause, error: error.map(Box::new) })
    }
}
