//! The tables within one transaction of PostgreSQL.
//!
//! A statement costs a round trip, so rows of units are read together before the changes are applied, and nearly everything is
//! written together at the end.

use std::collections::BTreeMap;

use hakobu_core::error::Result;
use tokio_postgres::Row;

use super::packs::{directories_in, links_in};
use super::row_buffers::RowBuffers;
use super::session::{SessionThread, SqlReply, SqlRequest, SqlValue, values};
use super::texts::{READING, UnitNumbers, WRITING, storable};
use super::unit_cache::UnitCache;
use crate::audit::AuditEntry;
use crate::broker::BrokerRecord;
use crate::failure::NumberedFailure;
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RunId, TokenId, UnitId, UnitKey};
use crate::lease::UnitState;
use crate::ledger::rows::{
    BROKER_COLUMNS, RELATIONSHIP_COLUMNS, RUN_COLUMNS, TOKEN_COLUMNS, UNIT_COLUMNS, broker_record, column,
    corrupt, id, relationship_record, run_row, token_record, unit_record,
};
use crate::ledger::tables::Tables;
use crate::link_name::{LinkNameRow, LinkPack, LinkRange};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::{DirectoryPack, DirectoryRange, OpenDirectoryRow};
use crate::open_file::OpenFileRow;
use crate::relationship::{Relationship, RelationshipRecord};
use crate::run::{NewRun, RunRow};
use crate::token::{NewToken, TokenHash, TokenRecord};
use crate::unit::UnitRecord;

/// A transaction that has begun, and that somebody else ends.
pub(super) struct PostgresTransaction<'t> {
    thread: &'t mut SessionThread,
    numbers: &'t mut UnitNumbers,
    first_epoch: Epoch,
    runs: BTreeMap<RunId, Option<RunRow>>,
    units: UnitCache,
    rows: RowBuffers,
    /// Statements that are sent with the next one.
    pending: Vec<SqlRequest>,
}

/// Returns JSON of values that always have one.
fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(corrupt)
}

/// Returns a number that its limit keeps small enough.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn first<T>(reply: &SqlReply, read: impl Fn(&Row) -> Result<T>) -> Result<Option<T>> {
    reply.rows.first().map(read).transpose()
}

impl<'t> PostgresTransaction<'t> {
    pub(super) fn new(
        thread: &'t mut SessionThread,
        numbers: &'t mut UnitNumbers,
        first_epoch: Epoch,
        units: UnitCache,
        runs: BTreeMap<RunId, Option<RunRow>>,
    ) -> Self {
        Self { thread, numbers, first_epoch, runs, units, rows: RowBuffers::default(), pending: Vec::new() }
    }

    /// Returns the statements that are left, without the commit.
    pub(super) fn finish(mut self) -> Vec<SqlRequest> {
        self.rows.flush(&mut self.pending);
        self.units.flush(&mut self.pending);
        self.pending
    }

    /// Sends a statement and returns its answer.
    pub(super) fn query(&mut self, sql: impl Into<String>, values: Vec<SqlValue>) -> Result<SqlReply> {
        self.send(SqlRequest::new(sql, values))
    }

    fn send(&mut self, request: SqlRequest) -> Result<SqlReply> {
        let mut requests = std::mem::take(&mut self.pending);
        requests.push(request);
        let replies = self.thread.send(READING, requests)?;
        replies.into_iter().next_back().ok_or_else(|| corrupt("an answer is missing"))
    }

    /// Sends a statement with the next one that needs its answer.
    fn execute(&mut self, sql: impl Into<String>, values: Vec<SqlValue>) {
        self.pending.push(SqlRequest::new(sql, values));
    }

    /// Sends the rows that wait if there are many.
    fn bound_rows(&mut self) -> Result<()> {
        if self.rows.is_full() {
            self.rows.flush(&mut self.pending);
            self.thread.send(WRITING, std::mem::take(&mut self.pending))?;
        }
        Ok(())
    }

    /// Reads a unit that was not read before.
    fn load_unit(&mut self, key: UnitKey) -> Result<()> {
        if self.units.has(key.unit) {
            return Ok(());
        }
        let sql = format!("SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.id = $1");
        let reply = self.query(sql, values![key.unit.signed()])?;
        self.units.set_stored(key.unit, first(&reply, |row| unit_record(row))?);
        Ok(())
    }

    fn insert(&mut self, sql: &str, values: Vec<SqlValue>) -> Result<u64> {
        let reply = self.query(format!("{sql} RETURNING id"), values)?;
        let number: i64 =
            first(&reply, |row| column(row, 0))?.ok_or_else(|| corrupt("a row has no number"))?;
        u64::try_from(number).map_err(|_| corrupt("a row has no number"))
    }

    fn next_unit(&mut self) -> Result<UnitId> {
        if let Some(unit) = self.numbers.next() {
            return UnitId::new(unit);
        }
        let reply = self.query("SELECT nextval('unit_block')", values![])?;
        let begin: i64 = first(&reply, |row| column(row, 0))?.unwrap_or_default();
        self.numbers.begin(begin.cast_unsigned());
        UnitId::new(self.numbers.next().unwrap_or_default())
    }
}

impl Tables for PostgresTransaction<'_> {
    fn first_epoch(&mut self) -> Result<Epoch> {
        Ok(self.first_epoch)
    }

    fn insert_run(&mut self, run: &NewRun) -> Result<RunRow> {
        let new = run.record(RunId::default());
        let sql = "INSERT INTO run (relationship, broker_group, request, phase, step, cursor, units_added, units_committed, \
                   units_given_up, counters, failures, started, swept) \
                   VALUES ($1, $2, $3, $4, 0, ''::bytea, 0, 0, 0, $5, 0, $6, 0)";
        let values = values![
            new.relationship.map(RelationshipId::signed),
            new.group.as_str().to_owned(),
            storable(&new.request),
            new.phase.name(),
            json(&new.counters)?,
            new.started.signed(),
        ];
        let id = RunId::new(self.insert(sql, values)?)?;
        let run = RunRow { id, ..new };
        self.runs.insert(id, Some(run.clone()));
        Ok(run)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        if let Some(known) = self.runs.get(&run) {
            return Ok(known.clone());
        }
        let reply =
            self.query(format!("SELECT {RUN_COLUMNS} FROM run WHERE id = $1"), values![run.signed()])?;
        let record = first(&reply, |row| run_row(row))?;
        self.runs.insert(run, record.clone());
        Ok(record)
    }

    fn open_run_of(&mut self, relationship: RelationshipId) -> Result<Option<RunId>> {
        let sql = "SELECT id FROM run WHERE relationship = $1 AND ended IS NULL";
        let reply = self.query(sql, values![relationship.signed()])?;
        first(&reply, |row| id(row, 0))
    }

    fn update_run(&mut self, run: &RunRow) -> Result<()> {
        let sql = "UPDATE run SET phase = $1, step = $2, cursor = $3, units_added = $4, units_committed = $5, \
                   units_given_up = $6, counters = $7, failures = $8, forecast = $9, ended = $10, outcome = $11, paused = $12, \
                   limits = $13, losses = $14 WHERE id = $15";
        let values = values![
            run.phase.name(),
            signed(run.step),
            run.cursor.clone(),
            signed(run.units.added),
            signed(run.units.committed),
            signed(run.units.given_up),
            json(&run.counters)?,
            signed(run.failures),
            run.forecast.as_deref().map(storable),
            run.ended.map(Moment::signed),
            run.outcome.map(|outcome| outcome.name()),
            i64::from(run.is_paused),
            run.limits.as_deref().map(storable),
            json(&run.losses)?,
            run.id.signed(),
        ];
        self.execute(sql, values);
        self.runs.insert(run.id, Some(run.clone()));
        Ok(())
    }

    fn insert_report(&mut self, run: RunId, report: &[u8]) -> Result<()> {
        let sql = "INSERT INTO report (run, report) VALUES ($1, $2) ON CONFLICT (run) DO UPDATE SET report = excluded.report";
        self.execute(sql, values![run.signed(), report.to_vec()]);
        Ok(())
    }

    fn insert_unit(&mut self, run: RunId, state: &UnitState, work: &[u8]) -> Result<UnitId> {
        let group = self.run(run)?.ok_or_else(|| corrupt("the run of a unit is missing"))?.group;
        let unit = self.next_unit()?;
        let key = UnitKey { run, unit };
        self.units.insert(UnitRecord { key, group, state: state.clone() }, work);
        Ok(unit)
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        self.load_unit(key)?;
        Ok(self.units.record(key).cloned())
    }

    fn encoded_work(&mut self, key: UnitKey) -> Result<Option<Vec<u8>>> {
        self.load_unit(key)?;
        if self.units.record(key).is_none() {
            return Ok(None);
        }
        if let Some(work) = self.units.work(key.unit) {
            return Ok(Some(work.to_vec()));
        }
        let reply = self.query("SELECT work FROM unit_work WHERE unit = $1", values![key.unit.signed()])?;
        first(&reply, |row| column(row, 0))
    }

    fn update_unit(&mut self, key: UnitKey, state: &UnitState) -> Result<()> {
        self.load_unit(key)?;
        self.units.update(key, state);
        Ok(())
    }

    fn delete_unit(&mut self, key: UnitKey) -> Result<()> {
        self.load_unit(key)?;
        self.units.delete(key);
        Ok(())
    }

    fn insert_committed(&mut self, key: UnitKey, epoch: Epoch) -> Result<()> {
        self.units.set_committed(key, Some(epoch));
        self.rows.committed(key, epoch);
        Ok(())
    }

    fn committed(&mut self, key: UnitKey) -> Result<Option<Epoch>> {
        if let Some(known) = self.units.committed(key) {
            return Ok(known);
        }
        let sql = "SELECT epoch FROM committed WHERE run = $1 AND unit = $2";
        let reply = self.query(sql, values![key.run.signed(), key.unit.signed()])?;
        let epoch = first(&reply, |row| id(row, 0))?;
        self.units.set_committed(key, epoch);
        Ok(epoch)
    }

    fn insert_open_directory(&mut self, run: RunId, row: &OpenDirectoryRow) -> Result<()> {
        self.rows.open_directory(run, row);
        self.bound_rows()
    }

    fn insert_open_file(&mut self, run: RunId, row: &OpenFileRow) -> Result<()> {
        self.rows.open_file(run, row);
        self.bound_rows()
    }

    fn insert_link_name(&mut self, run: RunId, row: &LinkNameRow) -> Result<()> {
        self.rows.link_name(run, row);
        self.bound_rows()
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        self.rows.flush(&mut self.pending);
        links_in(&mut |request| self.ask(request), run, range)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        self.rows.flush(&mut self.pending);
        directories_in(&mut |request| self.ask(request), run, range)
    }

    fn insert_failure(&mut self, run: RunId, failure: &NumberedFailure) -> Result<()> {
        self.rows.failure(run, failure);
        self.bound_rows()
    }

    fn insert_relationship(
        &mut self,
        relationship: &Relationship,
        now: Moment,
    ) -> Result<RelationshipRecord> {
        let sql = "INSERT INTO relationship (revision, changed, name, broker_group, sources, target, options, schedule, limits, \
                   notification, owner, credentials) VALUES (0, $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
        let mut values = values![now.signed()];
        values.extend(relationship_values(relationship)?);
        let id = RelationshipId::new(self.insert(sql, values)?)?;
        let (revision, relationship) = (Revision::default(), relationship.clone());
        Ok(RelationshipRecord { id, revision, changed: now, relationship })
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        let sql = format!("SELECT {RELATIONSHIP_COLUMNS} FROM relationship WHERE id = $1");
        let reply = self.query(sql, values![id.signed()])?;
        first(&reply, |row| relationship_record(row))
    }

    fn relationship_by_name(&mut self, name: &str) -> Result<Option<RelationshipId>> {
        let reply = self.query("SELECT id FROM relationship WHERE name = $1", values![storable(name)])?;
        first(&reply, |row| id(row, 0))
    }

    fn update_relationship(&mut self, record: &RelationshipRecord) -> Result<()> {
        let sql = "UPDATE relationship SET changed = $1, name = $2, broker_group = $3, sources = $4, target = $5, options = $6, \
                   schedule = $7, limits = $8, notification = $9, owner = $10, credentials = $11, revision = $12 WHERE id = $13";
        let mut values = values![record.changed.signed()];
        values.extend(relationship_values(&record.relationship)?);
        values.extend(values![record.revision.signed(), record.id.signed()]);
        self.execute(sql, values);
        Ok(())
    }

    fn delete_relationship(&mut self, id: RelationshipId) -> Result<()> {
        self.execute("DELETE FROM relationship WHERE id = $1", values![id.signed()]);
        Ok(())
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        let sql = format!("SELECT {BROKER_COLUMNS} FROM broker WHERE name = $1");
        let reply = self.query(sql, values![name.as_str().to_owned()])?;
        first(&reply, |row| broker_record(row))
    }

    fn put_broker(&mut self, record: &BrokerRecord) -> Result<()> {
        let sql = format!(
            "INSERT INTO broker ({BROKER_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET \
             broker_group = excluded.broker_group, version = excluded.version, first_seen = excluded.first_seen, \
             last_seen = excluded.last_seen, is_draining = excluded.is_draining"
        );
        let values = values![
            record.name.as_str().to_owned(),
            record.group.as_str().to_owned(),
            storable(&record.version),
            record.first_seen.signed(),
            record.last_seen.signed(),
            i64::from(record.is_draining),
        ];
        self.execute(sql, values);
        Ok(())
    }

    fn delete_broker(&mut self, name: &BrokerName) -> Result<()> {
        self.execute("DELETE FROM broker WHERE name = $1", values![name.as_str().to_owned()]);
        Ok(())
    }

    fn set_group_limits(&mut self, group: &GroupName, limits: Option<&str>) -> Result<()> {
        let group = group.as_str().to_owned();
        match limits {
            Some(limits) => {
                let sql = "INSERT INTO group_limits VALUES ($1, $2) ON CONFLICT (broker_group) DO UPDATE SET \
                           limits = excluded.limits";
                self.execute(sql, values![group, storable(limits)]);
            }
            None => self.execute("DELETE FROM group_limits WHERE broker_group = $1", values![group]),
        }
        Ok(())
    }

    fn set_endpoint_limits(&mut self, location: &[u8], limits: Option<&str>) -> Result<()> {
        let location = location.to_vec();
        match limits {
            Some(limits) => {
                let sql = "INSERT INTO endpoint_limits VALUES ($1, $2) ON CONFLICT (location) DO UPDATE SET \
                           limits = excluded.limits";
                self.execute(sql, values![location, storable(limits)]);
            }
            None => self.execute("DELETE FROM endpoint_limits WHERE location = $1", values![location]),
        }
        Ok(())
    }

    fn insert_untold(&mut self, run: RunId) -> Result<()> {
        self.execute("INSERT INTO untold_run VALUES ($1) ON CONFLICT DO NOTHING", values![run.signed()]);
        Ok(())
    }

    fn delete_untold(&mut self, run: RunId) -> Result<()> {
        self.execute("DELETE FROM untold_run WHERE run = $1", values![run.signed()]);
        Ok(())
    }

    fn set_mark(&mut self, name: &str, value: &str) -> Result<()> {
        let sql = "INSERT INTO mark VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value";
        self.execute(sql, values![name.to_owned(), storable(value)]);
        Ok(())
    }

    fn insert_token(&mut self, token: &NewToken) -> Result<TokenId> {
        let sql = "INSERT INTO token (hash, label, role, created, expires, is_single_use) VALUES ($1, $2, $3, $4, $5, $6)";
        let values = values![
            token.hash.as_bytes().to_vec(),
            storable(&token.label),
            token.role.name(),
            token.created.signed(),
            token.expires.map(Moment::signed),
            i64::from(token.is_single_use),
        ];
        TokenId::new(self.insert(sql, values)?)
    }

    fn token(&mut self, hash: &TokenHash) -> Result<Option<TokenRecord>> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM token WHERE hash = $1");
        let reply = self.query(sql, values![hash.as_bytes().to_vec()])?;
        first(&reply, |row| token_record(row))
    }

    fn set_token_used(&mut self, id: TokenId, now: Moment) -> Result<()> {
        self.execute("UPDATE token SET last_used = $1 WHERE id = $2", values![now.signed(), id.signed()]);
        Ok(())
    }

    fn delete_token(&mut self, id: TokenId) -> Result<bool> {
        Ok(self.query("DELETE FROM token WHERE id = $1", values![id.signed()])?.count > 0)
    }

    fn insert_audit(&mut self, entry: &AuditEntry, refused: Option<&str>) -> Result<()> {
        let sql = "INSERT INTO audit (moment, who, action, object, detail, refused) VALUES ($1, $2, $3, $4, $5, $6)";
        let values = values![
            entry.when.signed(),
            storable(&entry.who),
            storable(&entry.action),
            entry.object.clone(),
            storable(&entry.detail),
            refused.map(ToOwned::to_owned),
        ];
        self.execute(sql, values);
        Ok(())
    }
}

impl PostgresTransaction<'_> {
    fn ask(&mut self, request: &SqlRequest) -> Result<SqlReply> {
        self.send(request.clone())
    }
}

/// Returns the values of a relationship from its name on.
fn relationship_values(relationship: &Relationship) -> Result<Vec<SqlValue>> {
    Ok(values![
        storable(&relationship.name),
        relationship.group.as_str().to_owned(),
        relationship.sources.join(&0),
        relationship.target.clone(),
        storable(&relationship.options),
        relationship.schedule.as_deref().map(storable),
        relationship.limits.as_deref().map(storable),
        relationship.notification.as_deref().map(storable),
        storable(&relationship.owner),
        json(&relationship.credentials)?,
    ])
}
