//! The lists and records that a ledger in PostgreSQL returns.

use hakobu_core::error::{ErrorKind, Result};
use tokio_postgres::Row;

use super::PostgresLedger;
use super::packs::{directories_in, directory_pack, link_pack, links_in, open_file, open_files};
use super::session::{SqlReply, SqlRequest, SqlValue, values};
use crate::audit::AuditRecord;
use crate::broker::BrokerRecord;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::failure::{NumberedFailure, number_of_kind};
use crate::ids::{RelationshipId, RowNumber, RunId, UnitId, UnitKey};
use crate::ledger::rows::{
    AUDIT_COLUMNS, BROKER_COLUMNS, FAILURE_COLUMNS, RELATIONSHIP_COLUMNS, RUN_COLUMNS, TOKEN_COLUMNS,
    UNIT_COLUMNS, audit_record, broker_record, column, endpoint_limits, failure_count, failure_row,
    group_limits, id, relationship_record, run_row, token_record, unit_record,
};
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

impl PostgresLedger {
    fn list<T>(
        &mut self,
        sql: &str,
        values: Vec<SqlValue>,
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Vec<T>> {
        let rows =
            self.read(&SqlRequest::new(sql, values)).and_then(|reply| reply.rows.iter().map(read).collect());
        self.at(rows)
    }

    fn first<T>(
        &mut self,
        sql: &str,
        values: Vec<SqlValue>,
        read: impl Fn(&Row) -> Result<T>,
    ) -> Result<Option<T>> {
        let row = self
            .read(&SqlRequest::new(sql, values))
            .and_then(|reply| reply.rows.first().map(read).transpose());
        self.at(row)
    }

    fn ask(&mut self, request: &SqlRequest) -> Result<SqlReply> {
        self.read(request)
    }
}

impl Ledger for PostgresLedger {
    fn apply(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        self.apply_checked(changes)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE id = $1");
        self.first(&sql, values![run.signed()], |row| run_row(row))
    }

    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE ended IS NULL ORDER BY id");
        self.list(&sql, values![], |row| run_row(row))
    }

    fn runs(
        &mut self,
        relationship: Option<RelationshipId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>> {
        let before = before.map_or(i64::MAX, RunId::signed);
        let Some(of) = relationship else {
            let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE id < $1 ORDER BY id DESC LIMIT $2");
            return self.list(&sql, values![before, page(limit)], |row| run_row(row));
        };
        let sql = format!(
            "SELECT {RUN_COLUMNS} FROM run WHERE relationship = $1 AND id < $2 ORDER BY id DESC LIMIT $3"
        );
        self.list(&sql, values![of.signed(), before, page(limit)], |row| run_row(row))
    }

    fn report(&mut self, run: RunId) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT report FROM report WHERE run = $1";
        self.first(sql, values![run.signed()], |row| column(row, 0))
    }

    fn ready_units(&mut self, run: RunId, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.run = $1 AND unit.broker IS NULL \
             AND unit.id > $2 AND run.ended IS NULL ORDER BY unit.id LIMIT $3"
        );
        let after = after.map_or(0, UnitId::signed);
        self.list(&sql, values![run.signed(), after, page(limit)], |row| unit_record(row))
    }

    fn leased_units(&mut self, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.broker IS NOT NULL \
             AND unit.id > $1 AND run.ended IS NULL ORDER BY unit.id LIMIT $2"
        );
        let after = after.map_or(0, UnitId::signed);
        self.list(&sql, values![after, page(limit)], |row| unit_record(row))
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.id = $1 AND unit.run = $2"
        );
        self.first(&sql, values![key.unit.signed(), key.run.signed()], |row| unit_record(row))
    }

    fn work(&mut self, key: UnitKey) -> Result<Option<UnitWork>> {
        let sql = "SELECT unit_work.work FROM unit JOIN unit_work ON unit_work.unit = unit.id \
                   WHERE unit.id = $1 AND unit.run = $2";
        let read = |row: &Row| UnitWork::decode(&column::<Vec<u8>>(row, 0)?);
        self.first(sql, values![key.unit.signed(), key.run.signed()], read)
    }

    fn link_pack(
        &mut self,
        run: RunId,
        after: Option<&LinkPosition>,
        limits: PackLimits,
    ) -> Result<Option<LinkPack>> {
        let pack = link_pack(&mut |request| self.ask(request), run, (after, None), limits);
        self.at(pack)
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        let pack = links_in(&mut |request| self.ask(request), run, range);
        self.at(pack)
    }

    fn directory_pack(
        &mut self,
        run: RunId,
        after: Option<&DirectoryPosition>,
        limits: PackLimits,
    ) -> Result<Option<DirectoryPack>> {
        let pack = directory_pack(&mut |request| self.ask(request), run, (after, None), limits);
        self.at(pack)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        let pack = directories_in(&mut |request| self.ask(request), run, range);
        self.at(pack)
    }

    fn open_files(
        &mut self,
        run: RunId,
        after: Option<&OpenFilePosition>,
        limit: usize,
    ) -> Result<Vec<OpenFilePosition>> {
        let files = open_files(&mut |request| self.ask(request), run, after, page(limit));
        self.at(files)
    }

    fn open_file(&mut self, run: RunId, position: &OpenFilePosition) -> Result<Option<OpenFileRecord>> {
        let file = open_file(&mut |request| self.ask(request), run, position);
        self.at(file)
    }

    fn failures(
        &mut self,
        run: RunId,
        kind: Option<ErrorKind>,
        after: Option<RowNumber>,
        limit: usize,
    ) -> Result<Vec<NumberedFailure>> {
        let (run, after) = (run.signed(), after.unwrap_or_default().signed());
        let Some(kind) = kind else {
            let sql = format!(
                "SELECT {FAILURE_COLUMNS} FROM failure WHERE run = $1 AND number > $2 ORDER BY number LIMIT $3"
            );
            return self.list(&sql, values![run, after, page(limit)], |row| failure_row(row));
        };
        let sql = format!(
            "SELECT {FAILURE_COLUMNS} FROM failure WHERE run = $1 AND kind = $2 AND number > $3 ORDER BY number LIMIT $4"
        );
        let kind = i64::from(number_of_kind(kind));
        self.list(&sql, values![run, kind, after, page(limit)], |row| failure_row(row))
    }

    fn failure_counts(&mut self, run: RunId) -> Result<Vec<(ErrorKind, u64)>> {
        let sql = "SELECT kind, count(*) FROM failure WHERE run = $1 GROUP BY kind";
        self.list(sql, values![run.signed()], |row| failure_count(row))
    }

    fn relationships(
        &mut self,
        after: Option<RelationshipId>,
        limit: usize,
    ) -> Result<Vec<RelationshipRecord>> {
        let sql =
            format!("SELECT {RELATIONSHIP_COLUMNS} FROM relationship WHERE id > $1 ORDER BY id LIMIT $2");
        let after = after.map_or(0, RelationshipId::signed);
        self.list(&sql, values![after, page(limit)], |row| relationship_record(row))
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        let sql = format!("SELECT {RELATIONSHIP_COLUMNS} FROM relationship WHERE id = $1");
        self.first(&sql, values![id.signed()], |row| relationship_record(row))
    }

    fn brokers(
        &mut self,
        group: Option<&GroupName>,
        after: Option<&BrokerName>,
        limit: usize,
    ) -> Result<Vec<BrokerRecord>> {
        let sql = format!(
            "SELECT {BROKER_COLUMNS} FROM broker WHERE name > $1 AND ($2::text IS NULL OR broker_group = $2) \
             ORDER BY name LIMIT $3"
        );
        let after = after.map_or("", BrokerName::as_str).to_owned();
        let group = group.map(|group| group.as_str().to_owned());
        self.list(&sql, values![after, group, page(limit)], |row| broker_record(row))
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        let sql = format!("SELECT {BROKER_COLUMNS} FROM broker WHERE name = $1");
        self.first(&sql, values![name.as_str().to_owned()], |row| broker_record(row))
    }

    fn group_limits(&mut self) -> Result<Vec<(GroupName, String)>> {
        let sql = "SELECT broker_group, limits FROM group_limits ORDER BY broker_group";
        self.list(sql, values![], |row| group_limits(row))
    }

    fn endpoint_limits(&mut self) -> Result<Vec<(Vec<u8>, String)>> {
        let sql = "SELECT location, limits FROM endpoint_limits ORDER BY location";
        self.list(sql, values![], |row| endpoint_limits(row))
    }

    fn untold_runs(&mut self) -> Result<Vec<RunId>> {
        self.list("SELECT run FROM untold_run ORDER BY run", values![], |row| id(row, 0))
    }

    fn mark(&mut self, name: &str) -> Result<Option<String>> {
        self.first("SELECT value FROM mark WHERE name = $1", values![name.to_owned()], |row| column(row, 0))
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM token ORDER BY id");
        self.list(&sql, values![], |row| token_record(row))
    }

    fn audit(&mut self, before: Option<RowNumber>, limit: usize) -> Result<Vec<AuditRecord>> {
        let sql =
            format!("SELECT {AUDIT_COLUMNS} FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2");
        let before = before.map_or(i64::MAX, RowNumber::signed);
        self.list(&sql, values![before, page(limit)], |row| audit_record(row))
    }

    fn sweep(&mut self, rows_max: usize) -> Result<bool> {
        let swept = super::sweep::sweep(self, rows_max);
        self.at(swept)
    }
}
