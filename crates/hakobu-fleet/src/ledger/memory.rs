//! A ledger in memory, for tests and as the measure of the others.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::path::EntryPath;

use super::apply::{apply_batch, check_batch};
use super::tables::Tables;
use super::{Ledger, PAGE_ROWS_MAX};
use crate::audit::{AuditEntry, AuditRecord};
use crate::broker::BrokerRecord;
use crate::change::{LedgerAnswer, LedgerChange};
use crate::failure::NumberedFailure;
use crate::ids::{Epoch, Moment, RelationshipId, Revision, RowNumber, RunId, TokenId, UnitId, UnitKey};
use crate::lease::UnitState;
use crate::link_name::{LinkNameRow, LinkPack, LinkPosition, LinkRange, PackLimits};
use crate::names::{BrokerName, GroupName};
use crate::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange, OpenDirectoryRow};
use crate::open_file::{OpenFilePosition, OpenFileRecord, OpenFileRow};
use crate::relationship::{Relationship, RelationshipRecord};
use crate::run::{NewRun, RunPhase, RunRow};
use crate::token::{NewToken, TokenHash, TokenRecord};
use crate::unit::{UnitRecord, UnitWork};

/// A ledger in memory.
#[derive(Debug, Default)]
pub struct MemoryLedger {
    last_run: RunId,
    last_unit: UnitId,
    last_relationship: RelationshipId,
    last_token: TokenId,
    last_audit: RowNumber,
    runs: BTreeMap<RunId, RunRow>,
    reports: BTreeMap<RunId, Vec<u8>>,
    untold: BTreeSet<RunId>,
    units: BTreeMap<UnitId, MemoryUnit>,
    committed: BTreeMap<UnitKey, Epoch>,
    open_directories: BTreeMap<(RunId, DirectoryKey), Vec<u8>>,
    open_files: BTreeMap<(RunId, OpenFilePosition, bool), Vec<u8>>,
    link_names: BTreeMap<(RunId, LinkPosition), (u64, Vec<u8>)>,
    failures: BTreeMap<(RunId, RowNumber), NumberedFailure>,
    relationships: BTreeMap<RelationshipId, RelationshipRecord>,
    brokers: BTreeMap<BrokerName, BrokerRecord>,
    group_limits: BTreeMap<GroupName, String>,
    endpoint_limits: BTreeMap<Vec<u8>, String>,
    marks: BTreeMap<String, String>,
    tokens: BTreeMap<TokenId, TokenRecord>,
    audit: BTreeMap<RowNumber, AuditRecord>,
}

/// The deepest directories come first.
type DirectoryKey = (Reverse<u16>, u16, Vec<u8>);

#[derive(Debug)]
struct MemoryUnit {
    run: RunId,
    state: UnitState,
    work: Vec<u8>,
}

impl MemoryLedger {
    /// Creates an empty ledger.
    pub fn new() -> Self {
        Self::default()
    }

    fn is_open(&self, run: RunId) -> bool {
        self.runs.get(&run).is_some_and(|run| run.phase != RunPhase::Ended)
    }

    fn record(&self, id: UnitId, unit: &MemoryUnit) -> Option<UnitRecord> {
        let group = self.runs.get(&unit.run)?.group.clone();
        Some(UnitRecord { key: UnitKey { run: unit.run, unit: id }, group, state: unit.state.clone() })
    }

    /// Returns units of open runs behind one, in order.
    fn units_behind(&self, after: Option<UnitId>) -> impl Iterator<Item = (UnitId, &MemoryUnit)> {
        let behind = (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
        let units = self.units.range(behind).map(|(id, unit)| (*id, unit));
        units.filter(|(_, unit)| self.is_open(unit.run))
    }

    fn names_behind(
        &self,
        run: RunId,
        after: Option<&LinkPosition>,
    ) -> impl Iterator<Item = Result<LinkNameRow>> {
        let from = after.map_or(Bound::Included((run, LinkPosition::FIRST)), |after| {
            Bound::Excluded((run, after.clone()))
        });
        let names = self.link_names.range((from, Bound::Unbounded));
        let names = names.take_while(move |((of, _), _)| *of == run);
        names.map(|((_, position), (size, detail))| position.row(*size, detail.clone()))
    }

    /// Notes the first name of a group that begins before the pack.
    fn with_earlier(
        &self,
        run: RunId,
        after: Option<&LinkPosition>,
        pack: Option<LinkPack>,
    ) -> Result<Option<LinkPack>> {
        let Some(mut pack) = pack else { return Ok(None) };
        if let Some(inode) = pack.continues(after) {
            let first = self.names_behind(run, Some(&LinkPosition::before(inode))).next().transpose()?;
            pack.set_earlier(first);
        }
        Ok(Some(pack))
    }

    fn directories_behind(
        &self,
        run: RunId,
        after: Option<&DirectoryPosition>,
    ) -> impl Iterator<Item = Result<OpenDirectoryRow>> {
        let from = after.map_or(Bound::Included((run, (Reverse(u16::MAX), 0, Vec::new()))), |after| {
            Bound::Excluded((run, directory_key(after)))
        });
        let rows = self.open_directories.range((from, Bound::Unbounded));
        rows.take_while(move |((of, _), _)| *of == run).map(|((_, (_, root, path)), detail)| {
            Ok(OpenDirectoryRow { root: *root, path: EntryPath::new(path.clone())?, detail: detail.clone() })
        })
    }
}

fn directory_key(position: &DirectoryPosition) -> DirectoryKey {
    (Reverse(position.depth), position.root, position.path.clone())
}

fn page(limit: usize) -> usize {
    limit.min(PAGE_ROWS_MAX)
}

/// Returns the next number of a row.
fn next<N>(last: N, next: impl Fn(N) -> Option<N>) -> Result<N> {
    next(last)
        .ok_or_else(|| Error::new(ErrorKind::NoSpace, "adding to the ledger", "there is no further number"))
}

impl Ledger for MemoryLedger {
    fn apply(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        check_batch(changes)?;
        apply_batch(self, changes)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        Ok(self.runs.get(&run).cloned())
    }

    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        Ok(self.runs.values().filter(|run| run.phase != RunPhase::Ended).cloned().collect())
    }

    fn runs(
        &mut self,
        relationship: Option<RelationshipId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>> {
        let runs = self.runs.values().rev();
        let runs = runs.filter(|run| relationship.is_none() || run.relationship == relationship);
        let runs = runs.filter(|run| before.is_none_or(|before| run.id < before));
        Ok(runs.take(page(limit)).cloned().collect())
    }

    fn report(&mut self, run: RunId) -> Result<Option<Vec<u8>>> {
        Ok(self.reports.get(&run).cloned())
    }

    fn ready_units(&mut self, run: RunId, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let units = self.units_behind(after);
        let ready = units.filter(|(_, unit)| unit.run == run && unit.state.holder.is_none());
        Ok(ready.filter_map(|(id, unit)| self.record(id, unit)).take(page(limit)).collect())
    }

    fn leased_units(&mut self, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        let leased = self.units_behind(after).filter(|(_, unit)| unit.state.holder.is_some());
        Ok(leased.filter_map(|(id, unit)| self.record(id, unit)).take(page(limit)).collect())
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        Tables::unit(self, key)
    }

    fn work(&mut self, key: UnitKey) -> Result<Option<UnitWork>> {
        self.encoded_work(key)?.map(|bytes| UnitWork::decode(&bytes)).transpose()
    }

    fn link_pack(
        &mut self,
        run: RunId,
        after: Option<&LinkPosition>,
        limits: PackLimits,
    ) -> Result<Option<LinkPack>> {
        let pack = LinkPack::collect(self.names_behind(run, after), limits)?;
        self.with_earlier(run, after, pack)
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        Tables::links_in(self, run, range)
    }

    fn directory_pack(
        &mut self,
        run: RunId,
        after: Option<&DirectoryPosition>,
        limits: PackLimits,
    ) -> Result<Option<DirectoryPack>> {
        DirectoryPack::collect(self.directories_behind(run, after), limits)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        Tables::directories_in(self, run, range)
    }

    fn open_files(
        &mut self,
        run: RunId,
        after: Option<&OpenFilePosition>,
        limit: usize,
    ) -> Result<Vec<OpenFilePosition>> {
        let rows = self.open_files.keys().filter(|(of, position, is_torn)| {
            *of == run && !is_torn && after.is_none_or(|after| position > after)
        });
        Ok(rows.map(|(_, position, _)| position.clone()).take(page(limit)).collect())
    }

    fn open_file(&mut self, run: RunId, position: &OpenFilePosition) -> Result<Option<OpenFileRecord>> {
        let row = |is_torn| {
            let detail = self.open_files.get(&(run, position.clone(), is_torn))?;
            Some((is_torn, detail.clone()))
        };
        Ok(OpenFileRecord::of([false, true].into_iter().filter_map(row)))
    }

    fn failures(
        &mut self,
        run: RunId,
        kind: Option<ErrorKind>,
        after: Option<RowNumber>,
        limit: usize,
    ) -> Result<Vec<NumberedFailure>> {
        let from = (run, after.unwrap_or_default());
        let rows = self.failures.range((Bound::Excluded(from), Bound::Unbounded));
        let rows = rows.take_while(|((of, _), _)| *of == run).map(|(_, row)| row);
        let rows = rows.filter(|row| kind.is_none_or(|kind| row.row.failure.error.kind == kind));
        Ok(rows.take(page(limit)).cloned().collect())
    }

    fn failure_counts(&mut self, run: RunId) -> Result<Vec<(ErrorKind, u64)>> {
        let mut counts: Vec<(ErrorKind, u64)> = Vec::new();
        for (_, row) in
            self.failures.range((run, RowNumber::default())..).take_while(|((of, _), _)| *of == run)
        {
            let kind = row.row.failure.error.kind;
            match counts.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((kind, 1)),
            }
        }
        Ok(counts)
    }

    fn relationships(
        &mut self,
        after: Option<RelationshipId>,
        limit: usize,
    ) -> Result<Vec<RelationshipRecord>> {
        let from = Bound::Excluded(after.unwrap_or_default());
        let rows = self.relationships.range((from, Bound::Unbounded));
        Ok(rows.map(|(_, record)| record.clone()).take(page(limit)).collect())
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        Tables::relationship(self, id)
    }

    fn brokers(
        &mut self,
        group: Option<&GroupName>,
        after: Option<&BrokerName>,
        limit: usize,
    ) -> Result<Vec<BrokerRecord>> {
        let brokers = self.brokers.values().filter(|broker| after.is_none_or(|after| broker.name > *after));
        let brokers = brokers.filter(|broker| group.is_none_or(|group| broker.group == *group));
        Ok(brokers.take(page(limit)).cloned().collect())
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        Ok(self.brokers.get(name).cloned())
    }

    fn group_limits(&mut self) -> Result<Vec<(GroupName, String)>> {
        Ok(self.group_limits.clone().into_iter().collect())
    }

    fn endpoint_limits(&mut self) -> Result<Vec<(Vec<u8>, String)>> {
        Ok(self.endpoint_limits.clone().into_iter().collect())
    }

    fn untold_runs(&mut self) -> Result<Vec<RunId>> {
        Ok(self.untold.iter().copied().collect())
    }

    fn mark(&mut self, name: &str) -> Result<Option<String>> {
        Ok(self.marks.get(name).cloned())
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        Ok(self.tokens.values().cloned().collect())
    }

    fn audit(&mut self, before: Option<RowNumber>, limit: usize) -> Result<Vec<AuditRecord>> {
        let rows = self.audit.values().rev();
        let rows = rows.filter(|row| before.is_none_or(|before| row.number < before));
        Ok(rows.take(page(limit)).cloned().collect())
    }

    fn sweep(&mut self, rows_max: usize) -> Result<bool> {
        let ended: BTreeSet<RunId> =
            self.runs.values().filter(|run| run.phase == RunPhase::Ended).map(|run| run.id).collect();
        let mut left = rows_max;
        let mut removed = |run: &RunId| {
            let is_removed = ended.contains(run) && left > 0;
            left -= usize::from(is_removed);
            is_removed
        };
        self.units.retain(|_, unit| !removed(&unit.run));
        self.committed.retain(|key, _| !removed(&key.run));
        self.link_names.retain(|(run, _), _| !removed(run));
        self.open_directories.retain(|(run, _), _| !removed(run));
        self.open_files.retain(|(run, ..), _| !removed(run));
        Ok(left == 0)
    }
}

impl Tables for MemoryLedger {
    fn first_epoch(&mut self) -> Result<Epoch> {
        Ok(Epoch::default())
    }

    fn insert_run(&mut self, run: &NewRun) -> Result<RunRow> {
        self.last_run = next(self.last_run, RunId::next)?;
        let record = run.record(self.last_run);
        self.runs.insert(record.id, record.clone());
        Ok(record)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        Ok(self.runs.get(&run).cloned())
    }

    fn open_run_of(&mut self, relationship: RelationshipId) -> Result<Option<RunId>> {
        let of = |run: &&RunRow| run.relationship == Some(relationship) && run.phase != RunPhase::Ended;
        Ok(self.runs.values().find(of).map(|run| run.id))
    }

    fn update_run(&mut self, run: &RunRow) -> Result<()> {
        self.runs.insert(run.id, run.clone());
        Ok(())
    }

    fn insert_report(&mut self, run: RunId, report: &[u8]) -> Result<()> {
        self.reports.insert(run, report.to_vec());
        Ok(())
    }

    fn insert_unit(&mut self, run: RunId, state: &UnitState, work: &[u8]) -> Result<UnitId> {
        self.last_unit = next(self.last_unit, UnitId::next)?;
        self.units.insert(self.last_unit, MemoryUnit { run, state: state.clone(), work: work.to_vec() });
        Ok(self.last_unit)
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        let unit = self.units.get(&key.unit).filter(|unit| unit.run == key.run);
        Ok(unit.and_then(|unit| self.record(key.unit, unit)))
    }

    fn encoded_work(&mut self, key: UnitKey) -> Result<Option<Vec<u8>>> {
        Ok(self.units.get(&key.unit).filter(|unit| unit.run == key.run).map(|unit| unit.work.clone()))
    }

    fn update_unit(&mut self, key: UnitKey, state: &UnitState) -> Result<()> {
        if let Some(unit) = self.units.get_mut(&key.unit) {
            unit.state = state.clone();
        }
        Ok(())
    }

    fn delete_unit(&mut self, key: UnitKey) -> Result<()> {
        self.units.remove(&key.unit);
        Ok(())
    }

    fn insert_committed(&mut self, key: UnitKey, epoch: Epoch) -> Result<()> {
        self.committed.insert(key, epoch);
        Ok(())
    }

    fn committed(&mut self, key: UnitKey) -> Result<Option<Epoch>> {
        Ok(self.committed.get(&key).copied())
    }

    fn insert_open_directory(&mut self, run: RunId, row: &OpenDirectoryRow) -> Result<()> {
        self.open_directories.insert((run, directory_key(&row.position())), row.detail.clone());
        Ok(())
    }

    fn insert_open_file(&mut self, run: RunId, row: &OpenFileRow) -> Result<()> {
        self.open_files.insert((run, row.position.clone(), row.is_torn), row.detail.clone());
        Ok(())
    }

    fn insert_link_name(&mut self, run: RunId, row: &LinkNameRow) -> Result<()> {
        self.link_names.insert((run, row.position()), (row.size, row.detail.clone()));
        Ok(())
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        let names = self.names_behind(run, range.after.as_ref());
        let names = names.take_while(|row| row.as_ref().map_or(true, |row| row.position() <= range.until));
        let pack = LinkPack::collect(names, PackLimits::NONE)?;
        self.with_earlier(run, range.after.as_ref(), pack)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        let rows = self.directories_behind(run, range.after.as_ref());
        let rows = rows.take_while(|row| row.as_ref().map_or(true, |row| range.until.has(row)));
        DirectoryPack::collect(rows, PackLimits::NONE)
    }

    fn insert_failure(&mut self, run: RunId, failure: &NumberedFailure) -> Result<()> {
        self.failures.insert((run, failure.number), failure.clone());
        Ok(())
    }

    fn insert_relationship(
        &mut self,
        relationship: &Relationship,
        now: Moment,
    ) -> Result<RelationshipRecord> {
        self.last_relationship = next(self.last_relationship, RelationshipId::next)?;
        let record = RelationshipRecord {
            id: self.last_relationship,
            revision: Revision::default(),
            changed: now,
            relationship: relationship.clone(),
        };
        self.relationships.insert(record.id, record.clone());
        Ok(record)
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        Ok(self.relationships.get(&id).cloned())
    }

    fn relationship_by_name(&mut self, name: &str) -> Result<Option<RelationshipId>> {
        let named = self.relationships.values().find(|record| record.relationship.name == name);
        Ok(named.map(|record| record.id))
    }

    fn update_relationship(&mut self, record: &RelationshipRecord) -> Result<()> {
        self.relationships.insert(record.id, record.clone());
        Ok(())
    }

    fn delete_relationship(&mut self, id: RelationshipId) -> Result<()> {
        self.relationships.remove(&id);
        Ok(())
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        Ok(self.brokers.get(name).cloned())
    }

    fn put_broker(&mut self, record: &BrokerRecord) -> Result<()> {
        self.brokers.insert(record.name.clone(), record.clone());
        Ok(())
    }

    fn delete_broker(&mut self, name: &BrokerName) -> Result<()> {
        self.brokers.remove(name);
        Ok(())
    }

    fn set_group_limits(&mut self, group: &GroupName, limits: Option<&str>) -> Result<()> {
        match limits {
            Some(limits) => self.group_limits.insert(group.clone(), limits.to_owned()),
            None => self.group_limits.remove(group),
        };
        Ok(())
    }

    fn set_endpoint_limits(&mut self, location: &[u8], limits: Option<&str>) -> Result<()> {
        match limits {
            Some(limits) => self.endpoint_limits.insert(location.to_vec(), limits.to_owned()),
            None => self.endpoint_limits.remove(location),
        };
        Ok(())
    }

    fn insert_untold(&mut self, run: RunId) -> Result<()> {
        self.untold.insert(run);
        Ok(())
    }

    fn delete_untold(&mut self, run: RunId) -> Result<()> {
        self.untold.remove(&run);
        Ok(())
    }

    fn set_mark(&mut self, name: &str, value: &str) -> Result<()> {
        self.marks.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn insert_token(&mut self, token: &NewToken) -> Result<TokenId> {
        self.last_token = next(self.last_token, TokenId::next)?;
        let record = TokenRecord { id: self.last_token, token: token.clone(), last_used: None };
        self.tokens.insert(record.id, record);
        Ok(self.last_token)
    }

    fn token(&mut self, hash: &TokenHash) -> Result<Option<TokenRecord>> {
        Ok(self.tokens.values().find(|record| record.token.hash == *hash).cloned())
    }

    fn set_token_used(&mut self, id: TokenId, now: Moment) -> Result<()> {
        if let Some(record) = self.tokens.get_mut(&id) {
            record.last_used = Some(now);
        }
        Ok(())
    }

    fn delete_token(&mut self, id: TokenId) -> Result<bool> {
        Ok(self.tokens.remove(&id).is_some())
    }

    fn insert_audit(&mut self, entry: &AuditEntry, refused: Option<&str>) -> Result<()> {
        self.last_audit = next(self.last_audit, RowNumber::next)?;
        let (number, entry, refused) = (self.last_audit, entry.clone(), refused.map(str::to_owned));
        self.audit.insert(number, AuditRecord { number, entry, refused });
        Ok(())
    }
}
