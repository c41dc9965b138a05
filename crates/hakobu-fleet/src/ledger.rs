//! The ledger: the durable record of everything that the fleet has to do and has done.
//!
//! [`Ledger`] is what a control plane uses. Implementations keep tables ([`tables`]); the one place that decides what a change
//! does to them is [`apply`].

mod apply;
pub mod leadership;
pub mod memory;
pub mod place;
pub mod postgres;
mod rows;
pub mod sqlite;
mod tables;

use hakobu_core::error::{ErrorKind, Result};

use crate::audit::AuditRecord;
use crate::broker::BrokerRecord;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::failure::NumberedFailure;
use crate::ids::{RelationshipId, RowNumber, RunId, UnitId, UnitKey};
use crate::link_name::{LinkPack, LinkPosition, LinkRange, PackLimits};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange};
use crate::open_file::{OpenFilePosition, OpenFileRecord};
use crate::relationship::RelationshipRecord;
use crate::run::RunRow;
use crate::token::TokenRecord;
use crate::unit::{UnitRecord, UnitWork};

/// The maximum number of rows that one call returns; a larger limit is taken for this one.
pub const PAGE_ROWS_MAX: usize = 10_000;

/// A durable record of runs, units, leases and what belongs to them. One thread uses it.
///
/// Lists go on behind the last row that was returned, and have at most as many rows as asked for.
pub trait Ledger: Send {
    /// Applies changes in their order, in one durable transaction: when this returns, they outlast a crash.
    ///
    /// # Errors
    /// `Usage` for a change that is not well formed, `Locked` if another control plane leads (see [`leadership`]), or those of
    /// the disk. No change was applied, unless the connection to a database was lost for long.
    fn apply(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>>;

    /// Returns a run.
    fn run(&mut self, run: RunId) -> Result<Option<RunRow>>;
    /// Returns the runs that have not ended, the earliest first.
    fn open_runs(&mut self) -> Result<Vec<RunRow>>;
    /// Returns runs, the latest first: all, or those of a relationship.
    fn runs(
        &mut self,
        relationship: Option<RelationshipId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>>;
    /// Returns the report of a run that has ended.
    fn report(&mut self, run: RunId) -> Result<Option<Vec<u8>>>;

    /// Returns the runs whose end was not told to everybody yet who is to be told, the earliest first.
    fn untold_runs(&mut self) -> Result<Vec<RunId>>;

    /// Returns the ready units of a run, in the order in which they were added.
    fn ready_units(&mut self, run: RunId, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>>;
    /// Returns the leased units of all runs.
    fn leased_units(&mut self, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>>;
    /// Returns a unit that is not committed.
    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>>;
    /// Returns the work of a unit that is not committed.
    fn work(&mut self, key: UnitKey) -> Result<Option<UnitWork>>;

    /// Returns the names of links behind a place, as a pack of whole groups; `None` at the end.
    fn link_pack(
        &mut self,
        run: RunId,
        after: Option<&LinkPosition>,
        limits: PackLimits,
    ) -> Result<Option<LinkPack>>;
    /// Returns the pack of a unit.
    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>>;
    /// Returns the open directories behind a place, as a pack of one depth; `None` at the end.
    fn directory_pack(
        &mut self,
        run: RunId,
        after: Option<&DirectoryPosition>,
        limits: PackLimits,
    ) -> Result<Option<DirectoryPack>>;
    /// Returns the pack of a unit.
    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>>;

    /// Returns the open files of a run, by root and path.
    fn open_files(
        &mut self,
        run: RunId,
        after: Option<&OpenFilePosition>,
        limit: usize,
    ) -> Result<Vec<OpenFilePosition>>;
    /// Returns an open file.
    fn open_file(&mut self, run: RunId, position: &OpenFilePosition) -> Result<Option<OpenFileRecord>>;

    /// Returns failures of a run: all, or those of one kind.
    fn failures(
        &mut self,
        run: RunId,
        kind: Option<ErrorKind>,
        after: Option<RowNumber>,
        limit: usize,
    ) -> Result<Vec<NumberedFailure>>;
    /// Returns the numbers of failures of a run by kind, in no particular order.
    fn failure_counts(&mut self, run: RunId) -> Result<Vec<(ErrorKind, u64)>>;

    /// Returns relationships in the order of their numbers.
    fn relationships(
        &mut self,
        after: Option<RelationshipId>,
        limit: usize,
    ) -> Result<Vec<RelationshipRecord>>;
    /// Returns a relationship.
    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>>;
    /// Returns brokers by their names: all, or those of a group.
    fn brokers(
        &mut self,
        group: Option<&GroupName>,
        after: Option<&BrokerName>,
        limit: usize,
    ) -> Result<Vec<BrokerRecord>>;
    /// Returns a broker.
    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>>;

    /// Returns the limits of groups, as JSON.
    fn group_limits(&mut self) -> Result<Vec<(GroupName, String)>>;
    /// Returns the limits of endpoints by their locations, as JSON.
    fn endpoint_limits(&mut self) -> Result<Vec<(Vec<u8>, String)>>;
    /// Returns a mark of the whole ledger.
    fn mark(&mut self, name: &str) -> Result<Option<String>>;
    /// Returns all tokens.
    fn tokens(&mut self) -> Result<Vec<TokenRecord>>;
    /// Returns records of the audit log, the latest first.
    fn audit(&mut self, before: Option<RowNumber>, limit: usize) -> Result<Vec<AuditRecord>>;

    /// Removes up to so many rows that only runs which have ended needed, and gives their space back. Returns true if more are
    /// left.
    fn sweep(&mut self, rows_max: usize) -> Result<bool>;
}
