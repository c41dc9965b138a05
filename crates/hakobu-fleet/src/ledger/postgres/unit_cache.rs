//! The units that one transaction reads and changes. They are written together at its end.

use std::collections::BTreeMap;

use super::session::{SqlRequest, values};
use crate::ids::{Epoch, UnitId, UnitKey};
use crate::lease::UnitState;
use crate::unit::UnitRecord;

/// Units by their numbers.
#[derive(Default)]
pub(super) struct UnitCache {
    units: BTreeMap<UnitId, CachedUnit>,
    committed: BTreeMap<UnitKey, Option<Epoch>>,
}

#[derive(Default)]
struct CachedUnit {
    /// The unit as it is now.
    record: Option<UnitRecord>,
    /// Its work, if it is known.
    work: Option<Vec<u8>>,
    /// True if the table has it.
    is_stored: bool,
    is_changed: bool,
}

impl UnitCache {
    pub(super) fn has(&self, unit: UnitId) -> bool {
        self.units.contains_key(&unit)
    }

    /// Notes a unit as the table has it.
    pub(super) fn set_stored(&mut self, unit: UnitId, record: Option<UnitRecord>) {
        let is_stored = record.is_some();
        self.units.insert(unit, CachedUnit { record, work: None, is_stored, is_changed: false });
    }

    /// Notes the work of a unit that the table has.
    pub(super) fn set_work(&mut self, unit: UnitId, work: Vec<u8>) {
        if let Some(cached) = self.units.get_mut(&unit) {
            cached.work = Some(work);
        }
    }

    pub(super) fn set_committed(&mut self, key: UnitKey, epoch: Option<Epoch>) {
        self.committed.insert(key, epoch);
    }

    /// Returns the last epoch of a unit, if it is known that it is committed, or that it is not.
    pub(super) fn committed(&self, key: UnitKey) -> Option<Option<Epoch>> {
        self.committed.get(&key).copied()
    }

    pub(super) fn insert(&mut self, record: UnitRecord, work: &[u8]) {
        let cached =
            CachedUnit { work: Some(work.to_vec()), is_stored: false, is_changed: true, record: None };
        self.units.insert(record.key.unit, CachedUnit { record: Some(record), ..cached });
    }

    /// Returns a unit, which is known by its run as well.
    pub(super) fn record(&self, key: UnitKey) -> Option<&UnitRecord> {
        self.units.get(&key.unit)?.record.as_ref().filter(|record| record.key == key)
    }

    pub(super) fn work(&self, unit: UnitId) -> Option<&[u8]> {
        self.units.get(&unit)?.work.as_deref()
    }

    pub(super) fn update(&mut self, key: UnitKey, state: &UnitState) {
        if let Some(cached) = self.units.get_mut(&key.unit)
            && let Some(record) = &mut cached.record
        {
            record.state = state.clone();
            cached.is_changed = true;
        }
    }

    pub(super) fn delete(&mut self, key: UnitKey) {
        if let Some(cached) = self.units.get_mut(&key.unit) {
            (cached.record, cached.is_changed) = (None, true);
        }
    }

    /// Adds the statements that make the tables have these units.
    pub(super) fn flush(&mut self, requests: &mut Vec<SqlRequest>) {
        let (mut new, mut changed, mut gone) = (UnitColumns::default(), UnitColumns::default(), Vec::new());
        let mut works = Vec::new();
        for (unit, cached) in std::mem::take(&mut self.units) {
            match (cached.is_changed, cached.is_stored, cached.record) {
                (true, false, Some(record)) => {
                    new.add(record);
                    works.push(cached.work.unwrap_or_default());
                }
                (true, true, Some(record)) => changed.add(record),
                (true, true, None) => gone.push(unit.signed()),
                _ => {}
            }
        }
        if !gone.is_empty() {
            requests.push(SqlRequest::new("DELETE FROM unit WHERE id = ANY($1)", values![gone.clone()]));
            requests.push(SqlRequest::new("DELETE FROM unit_work WHERE unit = ANY($1)", values![gone]));
        }
        if !changed.ids.is_empty() {
            let sql = "UPDATE unit SET epoch = new.epoch, attempts = new.attempts, broker = new.broker, deadline = new.deadline \
                       FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) \
                       AS new (id, epoch, attempts, broker, deadline) WHERE unit.id = new.id";
            let UnitColumns { ids, epochs, attempts, brokers, deadlines, .. } = changed;
            requests.push(SqlRequest::new(sql, values![ids, epochs, attempts, brokers, deadlines]));
        }
        if !new.ids.is_empty() {
            let sql = "INSERT INTO unit (id, run, epoch, attempts, broker, deadline) SELECT * FROM \
                       unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bigint[])";
            let UnitColumns { ids, runs, epochs, attempts, brokers, deadlines } = new;
            requests
                .push(SqlRequest::new(sql, values![ids.clone(), runs, epochs, attempts, brokers, deadlines]));
            let sql = "INSERT INTO unit_work (unit, work) SELECT * FROM unnest($1::bigint[], $2::bytea[])";
            requests.push(SqlRequest::new(sql, values![ids, works]));
        }
    }
}

/// Units, column by column.
#[derive(Default)]
struct UnitColumns {
    ids: Vec<i64>,
    runs: Vec<i64>,
    epochs: Vec<i64>,
    attempts: Vec<i64>,
    brokers: Vec<Option<String>>,
    deadlines: Vec<Option<i64>>,
}

impl UnitColumns {
    fn add(&mut self, record: UnitRecord) {
        self.ids.push(record.key.unit.signed());
        self.runs.push(record.key.run.signed());
        self.epochs.push(record.state.epoch.signed());
        self.attempts.push(i64::from(record.state.attempts));
        self.deadlines.push(record.state.holder.as_ref().map(|holder| holder.deadline.signed()));
        self.brokers.push(record.state.holder.map(|holder| holder.broker.as_str().to_owned()));
    }
}
