//! A ledger whose transactions fail: some before anything was applied, some although everything was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_fleet::audit::AuditRecord;
use hakobu_fleet::broker::BrokerRecord;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange};
use hakobu_fleet::failure::NumberedFailure;
use hakobu_fleet::ids::{RelationshipId, RowNumber, RunId, UnitId, UnitKey};
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::link_name::{LinkPack, LinkPosition, LinkRange, PackLimits};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::open_directory::{DirectoryPack, DirectoryPosition, DirectoryRange};
use hakobu_fleet::open_file::{OpenFilePosition, OpenFileRecord};
use hakobu_fleet::relationship::RelationshipRecord;
use hakobu_fleet::run::RunRow;
use hakobu_fleet::token::TokenRecord;
use hakobu_fleet::unit::{UnitRecord, UnitWork};

use super::world::Dice;

/// The rate of faults: one in so many transactions fails; none if it is zero.
pub type FaultRate = Arc<AtomicU64>;

pub struct FaultyLedger {
    ledger: MemoryLedger,
    dice: Dice,
    one_in: FaultRate,
}

impl FaultyLedger {
    pub fn new(seed: u64, one_in: FaultRate) -> Self {
        Self { ledger: MemoryLedger::default(), dice: Dice(seed ^ 0x5eed), one_in }
    }

    fn fails(&mut self) -> bool {
        let one_in = self.one_in.load(Ordering::Relaxed);
        one_in > 0 && self.dice.once_in(one_in)
    }

    fn read(&mut self) -> Result<&mut MemoryLedger> {
        match self.fails() {
            true => Err(full()),
            false => Ok(&mut self.ledger),
        }
    }
}

fn full() -> Error {
    Error::new(ErrorKind::NoSpace, "writing the ledger", "the disk is full")
}

impl Ledger for FaultyLedger {
    fn apply(&mut self, changes: &[LedgerChange]) -> Result<Vec<LedgerAnswer>> {
        if self.fails() {
            if self.dice.once_in(2) {
                self.ledger.apply(changes)?;
            }
            return Err(full());
        }
        self.ledger.apply(changes)
    }

    fn run(&mut self, run: RunId) -> Result<Option<RunRow>> {
        self.read()?.run(run)
    }

    fn open_runs(&mut self) -> Result<Vec<RunRow>> {
        self.ledger.open_runs()
    }

    fn runs(
        &mut self,
        relationship: Option<RelationshipId>,
        before: Option<RunId>,
        limit: usize,
    ) -> Result<Vec<RunRow>> {
        self.ledger.runs(relationship, before, limit)
    }

    fn report(&mut self, run: RunId) -> Result<Option<Vec<u8>>> {
        self.ledger.report(run)
    }

    fn ready_units(&mut self, run: RunId, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        self.read()?.ready_units(run, after, limit)
    }

    fn leased_units(&mut self, after: Option<UnitId>, limit: usize) -> Result<Vec<UnitRecord>> {
        self.ledger.leased_units(after, limit)
    }

    fn unit(&mut self, key: UnitKey) -> Result<Option<UnitRecord>> {
        self.read()?.unit(key)
    }

    fn work(&mut self, key: UnitKey) -> Result<Option<UnitWork>> {
        self.read()?.work(key)
    }

    fn link_pack(
        &mut self,
        run: RunId,
        after: Option<&LinkPosition>,
        limits: PackLimits,
    ) -> Result<Option<LinkPack>> {
        self.read()?.link_pack(run, after, limits)
    }

    fn links_in(&mut self, run: RunId, range: &LinkRange) -> Result<Option<LinkPack>> {
        self.read()?.links_in(run, range)
    }

    fn directory_pack(
        &mut self,
        run: RunId,
        after: Option<&DirectoryPosition>,
        limits: PackLimits,
    ) -> Result<Option<DirectoryPack>> {
        self.read()?.directory_pack(run, after, limits)
    }

    fn directories_in(&mut self, run: RunId, range: &DirectoryRange) -> Result<Option<DirectoryPack>> {
        self.read()?.directories_in(run, range)
    }

    fn open_files(
        &mut self,
        run: RunId,
        after: Option<&OpenFilePosition>,
        limit: usize,
    ) -> Result<Vec<OpenFilePosition>> {
        self.read()?.open_files(run, after, limit)
    }

    fn open_file(&mut self, run: RunId, position: &OpenFilePosition) -> Result<Option<OpenFileRecord>> {
        self.read()?.open_file(run, position)
    }

    fn failures(
        &mut self,
        run: RunId,
        kind: Option<ErrorKind>,
        after: Option<RowNumber>,
        limit: usize,
    ) -> Result<Vec<NumberedFailure>> {
        self.read()?.failures(run, kind, after, limit)
    }

    fn failure_counts(&mut self, run: RunId) -> Result<Vec<(ErrorKind, u64)>> {
        self.read()?.failure_counts(run)
    }

    fn relationships(
        &mut self,
        after: Option<RelationshipId>,
        limit: usize,
    ) -> Result<Vec<RelationshipRecord>> {
        self.ledger.relationships(after, limit)
    }

    fn relationship(&mut self, id: RelationshipId) -> Result<Option<RelationshipRecord>> {
        self.ledger.relationship(id)
    }

    fn brokers(
        &mut self,
        group: Option<&GroupName>,
        after: Option<&BrokerName>,
        limit: usize,
    ) -> Result<Vec<BrokerRecord>> {
        self.ledger.brokers(group, after, limit)
    }

    fn broker(&mut self, name: &BrokerName) -> Result<Option<BrokerRecord>> {
        self.read()?.broker(name)
    }

    fn group_limits(&mut self) -> Result<Vec<(GroupName, String)>> {
        self.read()?.group_limits()
    }

    fn endpoint_limits(&mut self) -> Result<Vec<(Vec<u8>, String)>> {
        self.read()?.endpoint_limits()
    }

    fn untold_runs(&mut self) -> Result<Vec<RunId>> {
        self.read()?.untold_runs()
    }

    fn mark(&mut self, name: &str) -> Result<Option<String>> {
        self.read()?.mark(name)
    }

    fn tokens(&mut self) -> Result<Vec<TokenRecord>> {
        self.ledger.tokens()
    }

    fn audit(&mut self, before: Option<RowNumber>, limit: usize) -> Result<Vec<AuditRecord>> {
        self.ledger.audit(before, limit)
    }

    fn sweep(&mut self, rows_max: usize) -> Result<bool> {
        self.read()?.sweep(rows_max)
    }
}
