//! The records that are read from rows, whatever database they are in.

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::Failure;
use hakobu_core::path::EntryPath;

use crate::audit::{AuditEntry, AuditRecord};
use crate::broker::BrokerRecord;
use crate::failure::{FailureRow, NumberedFailure, kind_of_number};
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RowNumber, RunId, TokenId, UnitId, UnitKey};
use crate::lease::{LeaseHolder, UnitState};
use crate::link_name::{LinkNameRow, LinkPosition};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::OpenFilePosition;
use crate::relationship::{Relationship, RelationshipRecord};
use crate::run::{RunOutcome, RunPhase, RunRow, UnitCounts};
use crate::token::{NewToken, TokenHash, TokenRecord, TokenRole};
use crate::unit::UnitRecord;

/// The columns of [`run_row`].
pub(super) const RUN_COLUMNS: &str = "id, relationship, broker_group, request, phase, step, cursor, units_added, units_committed, \
     units_given_up, counters, failures, forecast, started, ended, outcome, paused, limits, losses";
/// The columns of [`unit_record`], of the tables `unit` and `run`.
pub(super) const UNIT_COLUMNS: &str =
    "unit.run, unit.id, run.broker_group, unit.epoch, unit.attempts, unit.broker, unit.deadline";
/// The columns of [`failure_row`].
pub(super) const FAILURE_COLUMNS: &str = "number, kind, step, root, path, during, place, detail, hint";
/// The columns of [`relationship_record`].
pub(super) const RELATIONSHIP_COLUMNS: &str = "id, revision, changed, name, broker_group, sources, target, options, schedule, limits, \
     notification, owner, credentials";
/// The columns of [`broker_record`].
pub(super) const BROKER_COLUMNS: &str = "name, broker_group, version, first_seen, last_seen, is_draining";
/// The columns of [`token_record`].
pub(super) const TOKEN_COLUMNS: &str = "id, hash, label, role, created, expires, is_single_use, last_used";
/// The columns of [`audit_record`].
pub(super) const AUDIT_COLUMNS: &str = "number, moment, who, action, object, detail, refused";

/// A row that a database returned. Its columns are counted from 0.
pub(super) trait LedgerRow {
    fn integer(&self, index: usize) -> Result<Option<i64>>;
    fn text(&self, index: usize) -> Result<Option<String>>;
    fn bytes(&self, index: usize) -> Result<Option<Vec<u8>>>;
}

/// A type of columns.
pub(super) trait ColumnValue: Sized {
    /// Returns a column; `None` if it is null.
    fn read(row: &dyn LedgerRow, index: usize) -> Result<Option<Self>>;
}

impl ColumnValue for i64 {
    fn read(row: &dyn LedgerRow, index: usize) -> Result<Option<Self>> {
        row.integer(index)
    }
}

impl ColumnValue for bool {
    fn read(row: &dyn LedgerRow, index: usize) -> Result<Option<Self>> {
        Ok(row.integer(index)?.map(|number| number != 0))
    }
}

impl ColumnValue for String {
    fn read(row: &dyn LedgerRow, index: usize) -> Result<Option<Self>> {
        row.text(index)
    }
}

impl ColumnValue for Vec<u8> {
    fn read(row: &dyn LedgerRow, index: usize) -> Result<Option<Self>> {
        row.bytes(index)
    }
}

/// Returns the error for kept values that are not as this program writes them.
pub(super) fn corrupt(detail: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, "reading the ledger", detail.to_string())
        .hint("restore the ledger from a backup")
}

/// Returns a column.
pub(super) fn column<T: ColumnValue>(row: &dyn LedgerRow, index: usize) -> Result<T> {
    optional(row, index)?.ok_or_else(|| corrupt("a value is missing"))
}

/// Returns a column that may be null.
pub(super) fn optional<T: ColumnValue>(row: &dyn LedgerRow, index: usize) -> Result<Option<T>> {
    T::read(row, index)
}

/// Returns a number that must not be negative.
pub(super) fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| corrupt(format_args!("the number {number}")))
}

/// Returns a column with a number that is not negative.
pub(super) fn number(row: &dyn LedgerRow, index: usize) -> Result<u64> {
    unsigned(column(row, index)?)
}

/// Returns a column with a number of a row, an epoch or a moment.
pub(super) fn id<N: TryFrom<u64, Error = Error>>(row: &dyn LedgerRow, index: usize) -> Result<N> {
    N::try_from(number(row, index)?)
}

fn optional_id<N: TryFrom<u64, Error = Error>>(row: &dyn LedgerRow, index: usize) -> Result<Option<N>> {
    let value: Option<i64> = optional(row, index)?;
    value.map(|value| N::try_from(unsigned(value)?)).transpose()
}

fn small<N: TryFrom<u64>>(row: &dyn LedgerRow, index: usize) -> Result<N> {
    let number = number(row, index)?;
    N::try_from(number).map_err(|_| corrupt(format_args!("the number {number}")))
}

fn named<N>(row: &dyn LedgerRow, index: usize, from_name: impl Fn(&str) -> Option<N>) -> Result<N> {
    let name: String = column(row, index)?;
    from_name(&name).ok_or_else(|| corrupt(format_args!("the name {name:?}")))
}

fn path(row: &dyn LedgerRow, index: usize) -> Result<EntryPath> {
    EntryPath::new(column::<Vec<u8>>(row, index)?).map_err(|error| corrupt(&error))
}

fn json<T: serde::de::DeserializeOwned>(row: &dyn LedgerRow, index: usize) -> Result<T> {
    serde_json::from_str(&column::<String>(row, index)?).map_err(corrupt)
}

pub(super) fn run_row(row: &dyn LedgerRow) -> Result<RunRow> {
    let outcome: Option<String> = optional(row, 15)?;
    Ok(RunRow {
        id: id::<RunId>(row, 0)?,
        relationship: optional_id(row, 1)?,
        group: GroupName::new(column::<String>(row, 2)?)?,
        request: column(row, 3)?,
        phase: named(row, 4, RunPhase::from_name)?,
        step: number(row, 5)?,
        cursor: column(row, 6)?,
        units: UnitCounts { added: number(row, 7)?, committed: number(row, 8)?, given_up: number(row, 9)? },
        counters: json(row, 10)?,
        failures: number(row, 11)?,
        forecast: optional(row, 12)?,
        started: id::<Moment>(row, 13)?,
        ended: optional_id(row, 14)?,
        outcome: outcome.is_some().then(|| named(row, 15, RunOutcome::from_name)).transpose()?,
        is_paused: number(row, 16)? != 0,
        limits: optional(row, 17)?,
        losses: json(row, 18)?,
    })
}

pub(super) fn unit_record(row: &dyn LedgerRow) -> Result<UnitRecord> {
    let broker: Option<String> = optional(row, 5)?;
    let holder = match broker {
        Some(broker) => Some(LeaseHolder { broker: BrokerName::new(broker)?, deadline: id(row, 6)? }),
        None => None,
    };
    Ok(UnitRecord {
        key: UnitKey { run: id::<RunId>(row, 0)?, unit: id::<UnitId>(row, 1)? },
        group: GroupName::new(column::<String>(row, 2)?)?,
        state: UnitState { epoch: id::<Epoch>(row, 3)?, attempts: small(row, 4)?, holder },
    })
}

/// Returns a name of a link from the columns `file_system`, `inode`, `root`, `path`, `size` and `detail`.
pub(super) fn link_name(row: &dyn LedgerRow) -> Result<LinkNameRow> {
    let (file_system, inode) = (column(row, 0)?, column(row, 1)?);
    let position = LinkPosition { file_system, inode, root: small(row, 2)?, path: column(row, 3)? };
    position.row(number(row, 4)?, column(row, 5)?)
}

/// Returns an open directory from the columns `root`, `path` and `detail`.
pub(super) fn open_directory(row: &dyn LedgerRow) -> Result<OpenDirectoryRow> {
    Ok(OpenDirectoryRow { root: small(row, 0)?, path: path(row, 1)?, detail: column(row, 2)? })
}

/// Returns the place of an open file from the columns `root` and `path`.
pub(super) fn open_file_position(row: &dyn LedgerRow) -> Result<OpenFilePosition> {
    Ok(OpenFilePosition { root: small(row, 0)?, path: path(row, 1)? })
}

/// Returns a row of an open file from the columns `is_torn` and `detail`.
pub(super) fn open_file_part(row: &dyn LedgerRow) -> Result<(bool, Vec<u8>)> {
    Ok((column::<i64>(row, 0)? != 0, column(row, 1)?))
}

pub(super) fn failure_row(row: &dyn LedgerRow) -> Result<NumberedFailure> {
    let kind: u8 = small(row, 1)?;
    let kind = kind_of_number(kind).ok_or_else(|| corrupt(format_args!("the kind {kind} of an error")))?;
    let step: String = column(row, 2)?;
    let (during, hint): (String, Option<String>) = (column(row, 5)?, optional(row, 8)?);
    let error = Error {
        kind,
        step: hakobu_core::error::ErrorStep::from_name(&step),
        during: during.into(),
        at: column(row, 6)?,
        detail: column(row, 7)?,
        hint: hint.map(String::into_boxed_str),
    };
    let failure = Failure { path: column(row, 4)?, error };
    Ok(NumberedFailure {
        number: id::<RowNumber>(row, 0)?,
        row: FailureRow { root: small(row, 3)?, failure },
    })
}

/// Returns a number of failures from the columns with their kind and that number.
pub(super) fn failure_count(row: &dyn LedgerRow) -> Result<(ErrorKind, u64)> {
    let kind: u8 = small(row, 0)?;
    let kind = kind_of_number(kind).ok_or_else(|| corrupt(format_args!("the kind {kind} of an error")))?;
    Ok((kind, number(row, 1)?))
}

pub(super) fn relationship_record(row: &dyn LedgerRow) -> Result<RelationshipRecord> {
    let sources: Vec<u8> = column(row, 5)?;
    let relationship = Relationship {
        name: column(row, 3)?,
        group: GroupName::new(column::<String>(row, 4)?)?,
        sources: sources.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect(),
        target: column(row, 6)?,
        options: column(row, 7)?,
        schedule: optional(row, 8)?,
        limits: optional(row, 9)?,
        notification: optional(row, 10)?,
        owner: column(row, 11)?,
        credentials: json(row, 12)?,
    };
    Ok(RelationshipRecord {
        id: id::<RelationshipId>(row, 0)?,
        revision: id::<Revision>(row, 1)?,
        changed: id::<Moment>(row, 2)?,
        relationship,
    })
}

pub(super) fn broker_record(row: &dyn LedgerRow) -> Result<BrokerRecord> {
    Ok(BrokerRecord {
        name: BrokerName::new(column::<String>(row, 0)?)?,
        group: GroupName::new(column::<String>(row, 1)?)?,
        version: column(row, 2)?,
        first_seen: id(row, 3)?,
        last_seen: id(row, 4)?,
        is_draining: column(row, 5)?,
    })
}

pub(super) fn group_limits(row: &dyn LedgerRow) -> Result<(GroupName, String)> {
    Ok((GroupName::new(column::<String>(row, 0)?)?, column(row, 1)?))
}

pub(super) fn endpoint_limits(row: &dyn LedgerRow) -> Result<(Vec<u8>, String)> {
    Ok((column(row, 0)?, column(row, 1)?))
}

pub(super) fn token_record(row: &dyn LedgerRow) -> Result<TokenRecord> {
    let hash = <[u8; 32]>::try_from(column::<Vec<u8>>(row, 1)?);
    let token = NewToken {
        hash: TokenHash::from_bytes(hash.map_err(|_| corrupt("the length of a token's hash"))?),
        label: column(row, 2)?,
        role: named(row, 3, TokenRole::from_name)?,
        created: id(row, 4)?,
        expires: optional_id(row, 5)?,
        is_single_use: column(row, 6)?,
    };
    Ok(TokenRecord { id: id::<TokenId>(row, 0)?, token, last_used: optional_id(row, 7)? })
}

pub(super) fn audit_record(row: &dyn LedgerRow) -> Result<AuditRecord> {
    let entry = AuditEntry {
        when: id(row, 1)?,
        who: column(row, 2)?,
        action: column(row, 3)?,
        object: column(row, 4)?,
        detail: column(row, 5)?,
    };
    Ok(AuditRecord { number: id(row, 0)?, entry, refused: optional(row, 6)? })
}
