//! The lists and records that a ledger in a file returns.

use hakobu_core::error::{ErrorKind, Result};
use rusqlite::params;

use super::OpenTransaction;
use super::packs::{directories_in, directory_pack, link_pack, links_in};
use super::statements::Statements;
use super::{SqliteLedger, place_of};
use crate::audit::AuditRecord;
use crate::broker::BrokerRecord;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::failure::{NumberedFailure, number_of_kind};
use crate::ids::{RelationshipId, RowNumber, RunId, UnitId, UnitKey};
use crate::ledger::rows::{
    AUDIT_COLUMNS, BROKER_COLUMNS, FAILURE_COLUMNS, RELATIONSHIP_COLUMNS, RUN_COLUMNS, TOKEN_COLUMNS,
    UNIT_COLUMNS, audit_record, broker_record, column, endpoint_limits, failure_count, failure_row,
    group_limits, id, open_file_part, open_file_position, relationship_record, run_row, token_record,
    unit_record,
};
use crate::ledger::tables::Tables;
use crate::ledger::{Ledger, PAGE_ROWS_MAX};
use crate::link_name::{LinkPack, LinkPosition, LinkRange, PackLimits};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange};
use crate::open_file::{OpenFilePosition, OpenFileRecord};
use crate::relationship::RelationshipRecord;
use crate::run::RunRow;
use crate::token::TokenRecord;
use crate::unit::{UnitRecord, UnitWork};

fn page(limit: usize) -> i64 {
    i64::try_from(limit.min(PAGE_ROWS_MAX)).unwrap_or(i64::MAX)
}

impl SqliteLedger {
    fn statements(&self) -> Statements<'_> {
        Statements::new(&self.connection)
    }

    /// Adds the file to an error.
    fn at<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| error.at(place_of(self.path())))
    }
}

impl Ledger for SqliteLedger {
    fn apply(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        self.apply_batch(changes)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        let found = OpenTransaction::new(&self.connection).run(run);
        self.at(found)
    }

    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE ended IS NULL ORDER BY id");
        self.at(self.statements().list(&sql, [], run_row))
    }

    fn runs(
        &mut self,
        relationship: Option<RelationshipId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>> {
        let before = before.map_or(i64::MAX, RunId::signed);
        let rows = match relationship {
            None => {
                let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE id < ? ORDER BY id DESC LIMIT ?");
                self.statements().list(&sql, params![before, page(limit)], run_row)
            }
            Some(of) => {
                let sql = format!(
                    "SELECT {RUN_COLUMNS} FROM run WHERE relationship = ? AND id < ? ORDER BY id DESC LIMIT ?"
                );
                self.statements().list(&sql, params![of.signed(), before, page(limit)], run_row)
            }
        };
        self.at(rows)
    }

    fn report(&mut self, run: RunId) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT report FROM report WHERE run = ?";
        self.at(self.statements().first(sql, [run.signed()], |row| column(row, 0)))
    }

    fn ready_units(&mut self, run: RunId, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.run = ? AND unit.broker IS NULL \
             AND unit.id > ? AND run.ended IS NULL ORDER BY unit.id LIMIT ?"
        );
        let values = params![run.signed(), after.map_or(0, UnitId::signed), page(limit)];
        self.at(self.statements().list(&sql, values, unit_record))
    }

    fn leased_units(&mut self, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.broker IS NOT NULL \
             AND unit.id > ? AND run.ended IS NULL ORDER BY unit.id LIMIT ?"
        );
        let values = params![after.map_or(0, UnitId::signed), page(limit)];
        self.at(self.statements().list(&sql, values, unit_record))
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        let found = OpenTransaction::new(&self.connection).unit(key);
        self.at(found)
    }

    fn work(&mut self, key: UnitKey) -> Result<Option<UnitWork>> {
        let found = OpenTransaction::new(&self.connection).encoded_work(key);
        self.at(found.and_then(|bytes| bytes.map(|bytes| UnitWork::decode(&bytes)).transpose()))
    }

    fn link_pack(
        &mut self,
        run: RunId,
        after: Option<&LinkPosition>,
        limits: PackLimits,
    ) -> Result<Option<LinkPack>> {
        self.at(link_pack(&mut self.statements(), run, (after, None), limits))
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        self.at(links_in(&mut self.statements(), run, range))
    }

    fn directory_pack(
        &mut self,
        run: RunId,
        after: Option<&DirectoryPosition>,
        limits: PackLimits,
    ) -> Result<Option<DirectoryPack>> {
        self.at(directory_pack(&mut self.statements(), run, (after, None), limits))
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        self.at(directories_in(&mut self.statements(), run, range))
    }

    fn open_files(
        &mut self,
        run: RunId,
        after: Option<&OpenFilePosition>,
        limit: usize,
    ) -> Result<Vec<OpenFilePosition>> {
        let sql = "SELECT root, path FROM open_file WHERE run = ? AND is_torn = 0 AND (root, path) > (?, ?) \
                   ORDER BY root, path LIMIT ?";
        let (root, path) = after.map_or((-1, &b""[..]), |at| (i64::from(at.root), at.path.as_bytes()));
        let values = params![run.signed(), root, path, page(limit)];
        self.at(self.statements().list(sql, values, open_file_position))
    }

    fn open_file(&mut self, run: RunId, position: &OpenFilePosition) -> Result<Option<OpenFileRecord>> {
        let sql = "SELECT is_torn, detail FROM open_file WHERE run = ? AND root = ? AND path = ?";
        let values = params![run.signed(), position.root, position.path.as_bytes()];
        let rows = self.at(self.statements().list(sql, values, open_file_part))?;
        Ok(OpenFileRecord::of(rows.into_iter()))
    }

    fn failures(
        &mut self,
        run: RunId,
        kind: Option<ErrorKind>,
        after: Option<RowNumber>,
        limit: usize,
    ) -> Result<Vec<NumberedFailure>> {
        let (run, after) = (run.signed(), after.unwrap_or_default().signed());
        let rows = match kind {
            None => {
                let sql = format!(
                    "SELECT {FAILURE_COLUMNS} FROM failure WHERE run = ? AND number > ? ORDER BY number LIMIT ?"
                );
                self.statements().list(&sql, params![run, after, page(limit)], failure_row)
            }
            Some(kind) => {
                let sql = format!(
                    "SELECT {FAILURE_COLUMNS} FROM failure WHERE run = ? AND kind = ? AND number > ? ORDER BY number LIMIT ?"
                );
                let values = params![run, number_of_kind(kind), after, page(limit)];
                self.statements().list(&sql, values, failure_row)
            }
        };
        self.at(rows)
    }

    fn failure_counts(&mut self, run: RunId) -> Result<Vec<(ErrorKind, u64)>> {
        let sql = "SELECT kind, count(*) FROM failure WHERE run = ? GROUP BY kind";
        self.at(self.statements().list(sql, [run.signed()], failure_count))
    }

    fn relationships(
        &mut self,
        after: Option<RelationshipId>,
        limit: usize,
    ) -> Result<Vec<RelationshipRecord>> {
        let sql = format!("SELECT {RELATIONSHIP_COLUMNS} FROM relationship WHERE id > ? ORDER BY id LIMIT ?");
        let values = params![after.map_or(0, RelationshipId::signed), page(limit)];
        self.at(self.statements().list(&sql, values, relationship_record))
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        let found = OpenTransaction::new(&self.connection).relationship(id);
        self.at(found)
    }

    fn brokers(
        &mut self,
        group: Option<&GroupName>,
        after: Option<&BrokerName>,
        limit: usize,
    ) -> Result<Vec<BrokerRecord>> {
        let sql = format!(
            "SELECT {BROKER_COLUMNS} FROM broker WHERE name > ?1 AND (?2 IS NULL OR broker_group = ?2) ORDER BY name LIMIT ?3"
        );
        let (after, group) = (after.map_or("", BrokerName::as_str), group.map(GroupName::as_str));
        self.at(self.statements().list(&sql, params![after, group, page(limit)], broker_record))
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        let sql = format!("SELECT {BROKER_COLUMNS} FROM broker WHERE name = ?");
        self.at(self.statements().first(&sql, [name.as_str()], broker_record))
    }

    fn group_limits(&mut self) -> Result<Vec<(GroupName, String)>> {
        let sql = "SELECT broker_group, limits FROM group_limits ORDER BY broker_group";
        self.at(self.statements().list(sql, params![], group_limits))
    }

    fn endpoint_limits(&mut self) -> Result<Vec<(Vec<u8>, String)>> {
        let sql = "SELECT location, limits FROM endpoint_limits ORDER BY location";
        self.at(self.statements().list(sql, params![], endpoint_limits))
    }

    fn untold_runs(&mut self) -> Result<Vec<RunId>> {
        self.at(self.statements().list("SELECT run FROM untold_run ORDER BY run", [], |row| id(row, 0)))
    }

    fn mark(&mut self, name: &str) -> Result<Option<String>> {
        self.at(self
            .statements()
            .first("SELECT value FROM mark WHERE name = ?", [name], |row| column(row, 0)))
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM token ORDER BY id");
        self.at(self.statements().list(&sql, [], token_record))
    }

    fn audit(&mut self, before: Option<RowNumber>, limit: usize) -> Result<Vec<AuditRecord>> {
        let sql = format!("SELECT {AUDIT_COLUMNS} FROM audit WHERE number < ? ORDER BY number DESC LIMIT ?");
        let values = params![before.map_or(i64::MAX, RowNumber::signed), page(limit)];
        self.at(self.statements().list(&sql, values, audit_record))
    }

    fn sweep(&mut self, rows_max: usize) -> Result<bool> {
        let swept = super::sweep::sweep(&mut self.connection, rows_max);
        self.at(swept)
    }
}
