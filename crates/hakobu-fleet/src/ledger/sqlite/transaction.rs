//! The tables within one transaction of SQLite.

use hakobu_core::error::Result;
use rusqlite::{Connection, params};

use super::errors::corrupt;
use super::packs::{directories_in, links_in};
use super::statements::Statements;
use crate::audit::AuditEntry;
use crate::broker::BrokerRecord;
use crate::failure::{NumberedFailure, number_of_kind};
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RunId, TokenId, UnitId, UnitKey};
use crate::lease::UnitState;
use crate::ledger::rows::{
    BROKER_COLUMNS, RELATIONSHIP_COLUMNS, RUN_COLUMNS, TOKEN_COLUMNS, UNIT_COLUMNS, broker_record, column,
    id, relationship_record, run_row, token_record, unit_record,
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

/// The tables, in a transaction that somebody else ends.
pub(super) struct OpenTransaction<'c>(Statements<'c>);

impl<'c> OpenTransaction<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self(Statements::new(connection))
    }

    fn execute(&mut self, sql: &str, values: impl rusqlite::Params) -> Result<()> {
        self.0.execute(sql, values).map(drop)
    }
}

/// Returns JSON of values that always have one.
fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(corrupt)
}

/// Returns a number that its limit keeps small enough.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl Tables for OpenTransaction<'_> {
    fn first_epoch(&mut self) -> Result<Epoch> {
        let sql = "SELECT value FROM setting WHERE name = 'first_epoch'";
        self.0.first(sql, [], |row| id(row, 0))?.ok_or_else(|| corrupt("the first epoch is missing"))
    }

    fn insert_run(&mut self, run: &NewRun) -> Result<RunRow> {
        let new = run.record(RunId::default());
        let sql = "INSERT INTO run (relationship, broker_group, request, phase, step, cursor, units_added, units_committed, \
                   units_given_up, counters, failures, started, paused, swept) VALUES (?, ?, ?, ?, 0, x'', 0, 0, 0, ?, 0, ?, 0, 0)";
        let values = params![
            new.relationship.map(RelationshipId::signed),
            new.group.as_str(),
            new.request,
            new.phase.name(),
            json(&new.counters)?,
            new.started.signed(),
        ];
        let id = RunId::new(self.0.insert(sql, values)?)?;
        Ok(RunRow { id, ..new })
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        let sql = format!("SELECT {RUN_COLUMNS} FROM run WHERE id = ?");
        self.0.first(&sql, [run.signed()], run_row)
    }

    fn open_run_of(&mut self, relationship: RelationshipId) -> Result<Option<RunId>> {
        let sql = "SELECT id FROM run WHERE relationship = ? AND ended IS NULL";
        self.0.first(sql, [relationship.signed()], |row| id(row, 0))
    }

    fn update_run(&mut self, run: &RunRow) -> Result<()> {
        let sql = "UPDATE run SET phase = ?, step = ?, cursor = ?, units_added = ?, units_committed = ?, units_given_up = ?, \
                   counters = ?, failures = ?, forecast = ?, ended = ?, outcome = ?, paused = ?, limits = ?, \
                   losses = ? WHERE id = ?";
        let values = params![
            run.phase.name(),
            signed(run.step),
            run.cursor,
            signed(run.units.added),
            signed(run.units.committed),
            signed(run.units.given_up),
            json(&run.counters)?,
            signed(run.failures),
            run.forecast,
            run.ended.map(Moment::signed),
            run.outcome.map(|outcome| outcome.name()),
            i64::from(run.is_paused),
            run.limits,
            json(&run.losses)?,
            run.id.signed(),
        ];
        self.execute(sql, values)
    }

    fn insert_report(&mut self, run: RunId, report: &[u8]) -> Result<()> {
        self.execute(
            "INSERT OR REPLACE INTO report (run, report) VALUES (?, ?)",
            params![run.signed(), report],
        )
    }

    fn insert_unit(&mut self, run: RunId, state: &UnitState, work: &[u8]) -> Result<UnitId> {
        let sql = "INSERT INTO unit (run, epoch, attempts) VALUES (?, ?, ?)";
        let values = params![run.signed(), state.epoch.signed(), state.attempts];
        let unit = UnitId::new(self.0.insert(sql, values)?)?;
        self.execute("INSERT INTO unit_work (unit, work) VALUES (?, ?)", params![unit.signed(), work])?;
        Ok(unit)
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        let sql = format!(
            "SELECT {UNIT_COLUMNS} FROM unit JOIN run ON run.id = unit.run WHERE unit.id = ? AND unit.run = ?"
        );
        self.0.first(&sql, [key.unit.signed(), key.run.signed()], unit_record)
    }

    fn encoded_work(&mut self, key: UnitKey) -> Result<Option<Vec<u8>>> {
        let sql = "SELECT unit_work.work FROM unit JOIN unit_work ON unit_work.unit = unit.id WHERE unit.id = ? AND unit.run = ?";
        self.0.first(sql, [key.unit.signed(), key.run.signed()], |row| column(row, 0))
    }

    fn update_unit(&mut self, key: UnitKey, state: &UnitState) -> Result<()> {
        let holder = state.holder.as_ref();
        let sql = "UPDATE unit SET epoch = ?, attempts = ?, broker = ?, deadline = ? WHERE id = ?";
        let values = params![
            state.epoch.signed(),
            state.attempts,
            holder.map(|holder| holder.broker.as_str()),
            holder.map(|holder| holder.deadline.signed()),
            key.unit.signed(),
        ];
        self.execute(sql, values)
    }

    fn delete_unit(&mut self, key: UnitKey) -> Result<()> {
        self.execute("DELETE FROM unit WHERE id = ?", [key.unit.signed()])?;
        self.execute("DELETE FROM unit_work WHERE unit = ?", [key.unit.signed()])
    }

    fn insert_committed(&mut self, key: UnitKey, epoch: Epoch) -> Result<()> {
        let sql = "INSERT INTO committed (run, unit, epoch) VALUES (?, ?, ?)";
        self.execute(sql, [key.run.signed(), key.unit.signed(), epoch.signed()])
    }

    fn committed(&mut self, key: UnitKey) -> Result<Option<Epoch>> {
        let sql = "SELECT epoch FROM committed WHERE run = ? AND unit = ?";
        self.0.first(sql, [key.run.signed(), key.unit.signed()], |row| id(row, 0))
    }

    fn insert_open_directory(&mut self, run: RunId, row: &OpenDirectoryRow) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO open_directory (run, height, root, path, detail) VALUES (?, ?, ?, ?, ?)";
        let values =
            params![run.signed(), -i64::from(row.depth()), row.root, row.path.as_bytes(), row.detail];
        self.execute(sql, values)
    }

    fn insert_open_file(&mut self, run: RunId, row: &OpenFileRow) -> Result<()> {
        let sql =
            "INSERT OR REPLACE INTO open_file (run, root, path, is_torn, detail) VALUES (?, ?, ?, ?, ?)";
        let OpenFileRow { position, is_torn, detail } = row;
        let values = params![run.signed(), position.root, position.path.as_bytes(), is_torn, detail];
        self.execute(sql, values)
    }

    fn insert_link_name(&mut self, run: RunId, row: &LinkNameRow) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO link_name (run, file_system, inode, root, path, size, detail) VALUES (?, ?, ?, ?, ?, ?, ?)";
        let values = params![
            run.signed(),
            row.inode.file_system.cast_signed(),
            row.inode.number.cast_signed(),
            row.root,
            row.path.as_bytes(),
            signed(row.size),
            row.detail,
        ];
        self.execute(sql, values)
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        links_in(&mut self.0, run, range)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        directories_in(&mut self.0, run, range)
    }

    fn insert_failure(&mut self, run: RunId, failure: &NumberedFailure) -> Result<()> {
        let sql = "INSERT INTO failure (run, number, kind, step, root, path, during, place, detail, hint) \
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let error = &failure.row.failure.error;
        let values = params![
            run.signed(),
            failure.number.signed(),
            number_of_kind(error.kind),
            error.step.name(),
            failure.row.root,
            failure.row.failure.path,
            error.during,
            error.at,
            error.detail,
            error.hint.as_deref(),
        ];
        self.execute(sql, values)
    }

    fn insert_relationship(
        &mut self,
        relationship: &Relationship,
        now: Moment,
    ) -> Result<RelationshipRecord> {
        let sql = "INSERT INTO relationship (revision, changed, name, broker_group, sources, target, options, schedule, limits, \
                   notification, owner, credentials) VALUES (0, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
        let values = params![
            now.signed(),
            relationship.name,
            relationship.group.as_str(),
            relationship.sources.join(&0),
            relationship.target,
            relationship.options,
            relationship.schedule,
            relationship.limits,
            relationship.notification,
            relationship.owner,
            json(&relationship.credentials)?,
        ];
        let id = RelationshipId::new(self.0.insert(sql, values)?)?;
        let (revision, relationship) = (Revision::default(), relationship.clone());
        Ok(RelationshipRecord { id, revision, changed: now, relationship })
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        let sql = format!("SELECT {RELATIONSHIP_COLUMNS} FROM relationship WHERE id = ?");
        self.0.first(&sql, [id.signed()], relationship_record)
    }

    fn relationship_by_name(&mut self, name: &str) -> Result<Option<RelationshipId>> {
        self.0.first("SELECT id FROM relationship WHERE name = ?", [name], |row| id(row, 0))
    }

    fn update_relationship(&mut self, record: &RelationshipRecord) -> Result<()> {
        let sql = "UPDATE relationship SET revision = ?, changed = ?, name = ?, broker_group = ?, sources = ?, target = ?, \
                   options = ?, schedule = ?, limits = ?, notification = ?, owner = ?, credentials = ? WHERE id = ?";
        let relationship = &record.relationship;
        let values = params![
            record.revision.signed(),
            record.changed.signed(),
            relationship.name,
            relationship.group.as_str(),
            relationship.sources.join(&0),
            relationship.target,
            relationship.options,
            relationship.schedule,
            relationship.limits,
            relationship.notification,
            relationship.owner,
            json(&relationship.credentials)?,
            record.id.signed(),
        ];
        self.execute(sql, values)
    }

    fn delete_relationship(&mut self, id: RelationshipId) -> Result<()> {
        self.execute("DELETE FROM relationship WHERE id = ?", [id.signed()])
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        let sql = format!("SELECT {BROKER_COLUMNS} FROM broker WHERE name = ?");
        self.0.first(&sql, [name.as_str()], broker_record)
    }

    fn put_broker(&mut self, record: &BrokerRecord) -> Result<()> {
        let sql = format!("INSERT OR REPLACE INTO broker ({BROKER_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)");
        let values = params![
            record.name.as_str(),
            record.group.as_str(),
            record.version,
            record.first_seen.signed(),
            record.last_seen.signed(),
            record.is_draining,
        ];
        self.execute(&sql, values)
    }

    fn delete_broker(&mut self, name: &BrokerName) -> Result<()> {
        self.execute("DELETE FROM broker WHERE name = ?", [name.as_str()])
    }

    fn set_group_limits(&mut self, group: &GroupName, limits: Option<&str>) -> Result<()> {
        match limits {
            Some(limits) => {
                self.execute("INSERT OR REPLACE INTO group_limits VALUES (?, ?)", [group.as_str(), limits])
            }
            None => self.execute("DELETE FROM group_limits WHERE broker_group = ?", [group.as_str()]),
        }
    }

    fn set_endpoint_limits(&mut self, location: &[u8], limits: Option<&str>) -> Result<()> {
        match limits {
            Some(limits) => self
                .execute("INSERT OR REPLACE INTO endpoint_limits VALUES (?, ?)", params![location, limits]),
            None => self.execute("DELETE FROM endpoint_limits WHERE location = ?", params![location]),
        }
    }

    fn insert_untold(&mut self, run: RunId) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO untold_run VALUES (?)", [run.signed()])
    }

    fn delete_untold(&mut self, run: RunId) -> Result<()> {
        self.execute("DELETE FROM untold_run WHERE run = ?", [run.signed()])
    }

    fn set_mark(&mut self, name: &str, value: &str) -> Result<()> {
        self.execute("INSERT OR REPLACE INTO mark VALUES (?, ?)", [name, value])
    }

    fn insert_token(&mut self, token: &NewToken) -> Result<TokenId> {
        let sql = "INSERT INTO token (hash, label, role, created, expires, is_single_use) VALUES (?, ?, ?, ?, ?, ?)";
        let values = params![
            token.hash.as_bytes(),
            token.label,
            token.role.name(),
            token.created.signed(),
            token.expires.map(Moment::signed),
            token.is_single_use,
        ];
        TokenId::new(self.0.insert(sql, values)?)
    }

    fn token(&mut self, hash: &TokenHash) -> Result<Option<TokenRecord>> {
        let sql = format!("SELECT {TOKEN_COLUMNS} FROM token WHERE hash = ?");
        self.0.first(&sql, [hash.as_bytes()], token_record)
    }

    fn set_token_used(&mut self, id: TokenId, now: Moment) -> Result<()> {
        self.execute("UPDATE token SET last_used = ? WHERE id = ?", [now.signed(), id.signed()])
    }

    fn delete_token(&mut self, id: TokenId) -> Result<bool> {
        Ok(self.0.execute("DELETE FROM token WHERE id = ?", [id.signed()])? > 0)
    }

    fn insert_audit(&mut self, entry: &AuditEntry, refused: Option<&str>) -> Result<()> {
        let sql =
            "INSERT INTO audit (moment, who, action, object, detail, refused) VALUES (?, ?, ?, ?, ?, ?)";
        let values =
            params![entry.when.signed(), entry.who, entry.action, entry.object, entry.detail, refused];
        self.execute(sql, values)
    }
}
