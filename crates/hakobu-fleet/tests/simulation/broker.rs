//! A simulated broker. Its tree is a rule: a directory of depth below the deepest has so many directories in it, and each
//! directory has one file. The target is a set of what was written, with the time of each write.

use std::collections::{BTreeMap, BTreeSet};

use hakobu_core::entry::{Attributes, FileTime};
use hakobu_core::exchange::{DirectoryEnd, DirectoryOutcome, DirectoryShare, SharePlace};
use hakobu_core::path::EntryPath;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, CommittedWork, GrantedUnit, GrantedWork, LeaderAnswer,
    SentDirectory, UnitOrder, UnitProgress,
};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::open_directory::OpenDirectoryRow;
use hakobu_fleet::unit::{UnitItem, UnitWork};
use hakobu_fleet::unit_counters::UnitCounters;

use super::world::{LEASE_MS, World};

/// The depth of the deepest directories.
pub const DEPTH: usize = 4;
/// The number of directories in each that is not one of the deepest.
pub const WIDTH: usize = 4;

/// Everything that was done at the target, by path: how often, and when the last time.
#[derive(Default)]
pub struct Target {
    pub files: BTreeMap<Vec<u8>, u64>,
    /// The time of the last write in a directory.
    pub written_ms: BTreeMap<Vec<u8>, u64>,
    /// The time at which the attributes of an open directory were set.
    pub closed_ms: BTreeMap<Vec<u8>, u64>,
    /// Directories that a committed unit left open.
    pub open: BTreeSet<Vec<u8>>,
}

struct Working {
    granted: GrantedUnit,
    /// The end of the lease as the broker counts it.
    ends_ms: u64,
    since_ms: u64,
    /// Directories that were not begun.
    waiting: Vec<EntryPath>,
    ends: Vec<EntryPath>,
    result: Option<CommittedWork>,
    files: u64,
    given: Vec<EntryPath>,
    open: Vec<EntryPath>,
    splits: bool,
}

pub struct SimulatedBroker {
    name: BrokerName,
    process: u64,
    unit: Option<Working>,
    /// The moment until which it is stopped.
    stopped_until_ms: u64,
    report_at_ms: u64,
    pub lost: u64,
}

fn path(bytes: &[u8]) -> EntryPath {
    EntryPath::new(bytes).unwrap()
}

pub fn depth(path: &EntryPath) -> usize {
    path.names().count()
}

fn place(path: &EntryPath) -> SharePlace {
    SharePlace { root: 0, source: path.clone(), target: path.clone(), top_names: 0 }
}

fn end(path: &EntryPath) -> DirectoryEnd {
    DirectoryEnd {
        place: place(path),
        attributes: Attributes { mode: 0o755, uid: 0, gid: 0, mtime: FileTime::default() },
        outcome: Some(DirectoryOutcome::Created),
        is_touched: true,
        extended: false,
        is_unproven: false,
        is_examined: true,
        listed_ctime: None,
        has_slices: false,
    }
}

impl SimulatedBroker {
    pub fn new(number: u64) -> Self {
        Self {
            name: BrokerName::new(format!("b{number}")).unwrap(),
            process: number,
            unit: None,
            stopped_until_ms: 0,
            report_at_ms: 0,
            lost: 0,
        }
    }

    fn call(&self, world: &mut World, request: BrokerRequest) -> Option<LeaderAnswer> {
        world.call(&BrokerCall { broker: self.name.clone(), process: self.process, request })
    }

    /// Does one step.
    pub fn step(&mut self, world: &mut World, target: &mut Target) {
        let now_ms = world.now_ms();
        if self.stopped_until_ms > now_ms {
            return;
        }
        if world.dice.once_in(400) {
            // It dies, and another process takes its place later.
            self.unit = None;
            self.process += 1000;
            self.stopped_until_ms = now_ms + world.dice.roll(3 * LEASE_MS);
            return;
        }
        if world.dice.once_in(300) {
            self.stopped_until_ms = now_ms + world.dice.roll(3 * LEASE_MS);
            return;
        }
        if now_ms >= self.report_at_ms {
            self.report_at_ms = now_ms + 500;
            self.report(world);
        }
        match &mut self.unit {
            None => self.lease(world),
            Some(unit) if unit.result.is_some() => self.commit(world, target),
            Some(unit) => {
                // Nothing gets a final name after the lease.
                if now_ms >= unit.ends_ms {
                    self.lost += 1;
                    self.unit = None;
                    return;
                }
                let key = unit.granted.lease.key;
                let run = world.leader().active_runs().get(&key.run);
                let leased = run.and_then(|run| run.leased.get(&key.unit));
                let is_others = leased.is_some_and(|leased| leased.epoch != unit.granted.lease.epoch);
                assert!(!is_others, "two brokers write at the same places");
                unit.advance(target, now_ms);
            }
        }
    }

    fn report(&mut self, world: &mut World) {
        let now_ms = world.now_ms();
        let units = self.unit.iter().map(|unit| UnitProgress {
            lease: unit.granted.lease.clone(),
            running_ms: now_ms - unit.since_ms,
            entries: unit.files,
            bytes: 0,
            operations: unit.files,
            bytes_settled: 0,
            entries_done: unit.files,
            failures: 0,
            lanes: 1,
            limited_by: String::new(),
        });
        let report = BrokerReport {
            version: "1".to_owned(),
            slots: 1,
            is_ending: false,
            units: units.collect(),
            key: None,
            reaches: Vec::new(),
        };
        let answer = self.call(world, BrokerRequest::Report(report));
        let (Some(unit), Some(LeaderAnswer::Orders(orders))) = (&mut self.unit, answer) else { return };
        match orders.units.first() {
            Some(UnitOrder::Continue { lease_ms, splits, .. }) => {
                unit.ends_ms = now_ms + lease_ms * 3 / 4;
                unit.splits |= splits;
            }
            _ => {
                self.lost += 1;
                self.unit = None;
            }
        }
    }

    fn lease(&mut self, world: &mut World) {
        let now_ms = world.now_ms();
        let answer = self.call(world, BrokerRequest::Lease { offered: Vec::new() });
        let Some(LeaderAnswer::Leases(units)) = answer else { return };
        let Some(granted) = units.into_iter().next() else { return };
        let (waiting, ends) = match &granted.work {
            GrantedWork::Copy(bytes) => match UnitWork::decode(bytes).unwrap() {
                UnitWork::All => (vec![EntryPath::root()], Vec::new()),
                UnitWork::Items(items) => (items.into_iter().map(|item| item.path).collect(), Vec::new()),
                other => panic!("{other:?}"),
            },
            GrantedWork::Ends { ends, .. } => {
                let rows = ends.iter().map(|sent| OpenDirectoryRow::try_from(sent.clone()).unwrap().path);
                (Vec::new(), rows.rev().collect())
            }
            other => panic!("{other:?}"),
        };
        self.unit = Some(Working {
            ends_ms: now_ms + granted.lease_ms * 3 / 4,
            since_ms: now_ms,
            granted,
            waiting,
            ends,
            result: None,
            files: 0,
            given: Vec::new(),
            open: Vec::new(),
            splits: false,
        });
    }

    fn commit(&mut self, world: &mut World, target: &mut Target) {
        let Some(unit) = &self.unit else { return };
        let (lease, result) = (unit.granted.lease.clone(), Box::new(unit.result.clone().unwrap()));
        match self.call(world, BrokerRequest::Commit { lease, result }) {
            None => {}
            Some(LeaderAnswer::Done) => {
                target.open.extend(unit.open.iter().map(|path| path.as_bytes().to_vec()));
                self.unit = None;
            }
            Some(LeaderAnswer::Lost) => {
                self.lost += 1;
                self.unit = None;
            }
            Some(LeaderAnswer::Refused(words)) => {
                assert!(words.contains("is called") || words.contains("the disk is full"), "{words}");
            }
            Some(other) => panic!("{other:?}"),
        }
    }
}

impl Working {
    fn advance(&mut self, target: &mut Target, now_ms: u64) {
        if let Some(directory) = self.ends.pop() {
            target.closed_ms.insert(directory.as_bytes().to_vec(), now_ms);
            self.files += 1;
        } else if (self.splits || self.files >= 20) && self.files > 0 && !self.waiting.is_empty() {
            for given in std::mem::take(&mut self.waiting) {
                // All directories above it stay open.
                let mut above = given.split_last().map(|(above, _)| above);
                while let Some(directory) = above {
                    above = directory.split_last().map(|(above, _)| above);
                    self.open.push(directory);
                }
                self.given.push(given);
            }
        } else if let Some(directory) = self.waiting.pop() {
            *target.files.entry(directory.as_bytes().to_vec()).or_default() += 1;
            target.written_ms.insert(directory.as_bytes().to_vec(), now_ms);
            self.files += 1;
            if depth(&directory) < DEPTH {
                self.waiting
                    .extend((0..WIDTH).map(|at| directory.join(format!("d{at}").as_bytes()).unwrap()));
            }
        }
        if self.waiting.is_empty() && self.ends.is_empty() {
            self.finish();
        }
    }

    fn finish(&mut self) {
        let items = self.begun();
        let within = |path: &EntryPath| items.iter().any(|item| path.is_within(item) || item.is_root());
        self.open.retain(|path| within(path));
        self.open.sort();
        self.open.dedup();
        let given = self
            .given
            .iter()
            .map(|path| UnitItem::of(&DirectoryShare { place: place(path), is_above_settled: false }));
        let is_copy = matches!(self.granted.work, GrantedWork::Copy(_));
        let counters =
            UnitCounters { entries_created: if is_copy { self.files } else { 0 }, ..UnitCounters::default() };
        self.result = Some(CommittedWork {
            given: match self.given.is_empty() {
                true => Vec::new(),
                false => vec![UnitWork::Items(given.collect()).encode().unwrap()],
            },
            counters: serde_json::to_string(&counters).unwrap(),
            ends: self
                .open
                .iter()
                .map(|path| SentDirectory::from(&OpenDirectoryRow::of(&end(path)).unwrap()))
                .collect(),
            ..CommittedWork::default()
        });
    }

    fn begun(&self) -> Vec<EntryPath> {
        match &self.granted.work {
            GrantedWork::Copy(bytes) => match UnitWork::decode(bytes).unwrap() {
                UnitWork::Items(items) => items.into_iter().map(|item| item.path).collect(),
                _ => vec![path(b"")],
            },
            _ => Vec::new(),
        }
    }
}
