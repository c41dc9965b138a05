//! Random sequences of changes, to which a ledger in memory and those in a file and in a database must answer equally.

use std::collections::BTreeMap;

use hakobu_core::error::ErrorKind;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, UnitResult};
use hakobu_fleet::ids::{RunId, UnitKey};
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::ledger::sqlite::SqliteLedger;
use hakobu_fleet::link_name::PackLimits;
use hakobu_fleet::run::{RunOutcome, RunPhase, RunStep};
use hakobu_fleet::transition::{RefuseCause, UnitTransition};
use hakobu_fleet::unit_counters::UnitCounters;
use proptest::prelude::*;

use crate::open_files::open_file;
use crate::samples::*;

/// A change whose numbers are small, so that sequences meet the same runs and units again.
#[derive(Clone, Debug)]
enum Draw {
    Start(u8),
    Step(u64, u64, u8, u8),
    End(u64, u8),
    Lease(u64, u64, u8, u64),
    Commit(u64, u64, u8, u8),
    Refuse(u64, u64, u8, bool),
    Expire(u64, u64),
    /// Sets or removes the limits of an endpoint.
    Limit(u8, bool),
    /// The moment moves on.
    Wait(u64),
    Sweep(usize),
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    let (run, unit, by) = (1..4u64, 1..12u64, 0..2u8);
    // Mostly the epoch that the unit has, counted from behind.
    let lag = prop_oneof![5 => Just(0u64), 1 => Just(1u64), 1 => Just(2u64)];
    let unit = (unit, lag);
    let draw = prop_oneof![
        2 => (0..4u8).prop_map(Draw::Start),
        1 => (run.clone(), 0..3u64, 0..6u8, 0..3u8).prop_map(|(a, b, c, d)| Draw::Step(a, b, c, d)),
        1 => (run, 0..4u8).prop_map(|(a, b)| Draw::End(a, b)),
        8 => (unit.clone(), by.clone(), 1..40u64).prop_map(|((a, b), c, d)| Draw::Lease(a, b, c, d)),
        6 => (unit.clone(), by.clone(), 0..16u8).prop_map(|((a, b), c, d)| Draw::Commit(a, b, c, d)),
        3 => (unit.clone(), by, any::<bool>()).prop_map(|((a, b), c, d)| Draw::Refuse(a, b, c, d)),
        3 => unit.prop_map(|(a, b)| Draw::Expire(a, b)),
        1 => (0..3u8, any::<bool>()).prop_map(|(a, b)| Draw::Limit(a, b)),
        3 => (1..30u64).prop_map(Draw::Wait),
        1 => (1..9usize).prop_map(Draw::Sweep),
    ];
    proptest::collection::vec(draw, 1..60)
}

/// Two ledgers, and what every sequence keeps.
struct Pair {
    memory: MemoryLedger,
    other: Box<dyn Ledger>,
    now: u64,
    /// The run of each unit, as far as known from the memory.
    keys: BTreeMap<u64, UnitKey>,
    committed: BTreeMap<UnitKey, u64>,
}

const NAMES: [&str; 2] = ["one", "two"];

fn result(bits: u8) -> UnitResult {
    let is_set = |bit: u8| bits & (1 << bit) != 0;
    UnitResult {
        children: if is_set(0) { vec![work(&["a/x"]), work(&["a/y", "a/z"])] } else { vec![] },
        counters: UnitCounters { entries_created: u64::from(bits), ..Default::default() },
        open_directories: if is_set(1) { vec![open_directory("a"), open_directory("a/x")] } else { vec![] },
        open_files: if is_set(2) { vec![open_file("a/x/h")] } else { vec![] },
        link_names: if is_set(2) { vec![link_name(u64::MAX, "a/x/l"), link_name(3, "a/m")] } else { vec![] },
        failures: if is_set(3) { vec![failure(ErrorKind::Io, b"a/x\xff")] } else { vec![] },
        losses: if is_set(3) { losses() } else { Default::default() },
    }
}

impl Pair {
    fn key(&self, unit: u64) -> UnitKey {
        self.keys.get(&unit).copied().unwrap_or_else(|| key(RunId::new(1).unwrap(), unit))
    }

    /// Returns the key of a unit and an epoch so far behind its own.
    fn aim(&mut self, unit: u64, lag: u64) -> (UnitKey, u64) {
        let key = self.key(unit);
        let current = self.memory.unit(key).unwrap().map(|unit| unit.state.epoch.get());
        let current = current.or_else(|| self.committed.get(&key).copied()).unwrap_or_default();
        (key, current.saturating_sub(lag))
    }

    fn change(&mut self, draw: &Draw) -> Option<LedgerChange> {
        let run = |number: u64| RunId::new(number).unwrap();
        let by = |index: u8| broker(NAMES[usize::from(index)]);
        Some(match *draw {
            Draw::Start(units) => new_run((0..units).map(|_| work(&["a"])).collect()),
            Draw::Step(of, step, phase, units) => LedgerChange::StepRun(Box::new(RunStep {
                run: run(of),
                step,
                phase: RunPhase::ALL[usize::from(phase)],
                cursor: vec![phase],
                units: (0..units).map(|_| work(&["a", "b"])).collect(),
            })),
            Draw::End(of, outcome) => end(run(of), RunOutcome::ALL[usize::from(outcome)]),
            Draw::Lease(unit, lag, by, length) => {
                let (key, epoch) = self.aim(unit, lag);
                lease_change(key, NAMES[usize::from(by)], epoch, self.now, self.now + length)
            }
            Draw::Commit(unit, lag, by, bits) => {
                let (key, from) = self.aim(unit, lag);
                commit_change(key, NAMES[usize::from(by)], epoch(from), result(bits))
            }
            Draw::Refuse(unit, lag, index, failed) => {
                let (key, from) = self.aim(unit, lag);
                let cause = if failed { RefuseCause::Failed } else { RefuseCause::Draining };
                LedgerChange::refuse(key, by(index), epoch(from), (cause, None))
            }
            Draw::Expire(unit, lag) => {
                let (key, from) = self.aim(unit, lag);
                let expire = UnitTransition::Expire { epoch: epoch(from), now: moment(self.now) };
                LedgerChange::Unit(key, expire)
            }
            Draw::Limit(endpoint, is_set) => {
                let limits = is_set.then(|| format!("[{}]", self.now));
                LedgerChange::LimitEndpoint(vec![b'/', 0xfd + endpoint], limits)
            }
            Draw::Wait(_) | Draw::Sweep(_) => return None,
        })
    }

    fn play(&mut self, draws: &[Draw]) {
        for draw in draws {
            match draw {
                Draw::Wait(more) => self.now += more,
                Draw::Sweep(rows) => {
                    self.memory.sweep(*rows).unwrap();
                    self.other.sweep(*rows).unwrap();
                }
                _ => {}
            }
            let Some(change) = self.change(draw) else { continue };
            let open = match &change {
                LedgerChange::Commit { key, .. } => self.memory.unit(*key).unwrap().map(|unit| (*key, unit)),
                _ => None,
            };
            let batch = [change];
            let answers = self.memory.apply(&batch).unwrap();
            assert_eq!(self.other.apply(&batch).unwrap(), answers, "{batch:?}");
            if let (Some((key, unit)), [LedgerAnswer::Committed]) = (open, &answers[..]) {
                assert_eq!(self.committed.insert(key, unit.state.epoch.get()), None, "committed twice");
            }
            self.learn();
        }
        self.compare();
    }

    fn learn(&mut self) {
        for run in self.memory.runs(None, None, 99).unwrap() {
            for unit in self.memory.ready_units(run.id, None, 99).unwrap() {
                self.keys.insert(unit.key.unit.get(), unit.key);
            }
        }
    }

    fn compare(&mut self) {
        let (memory, other): (&mut dyn Ledger, &mut dyn Ledger) = (&mut self.memory, &mut *self.other);
        let runs = memory.runs(None, None, 99).unwrap();
        assert_eq!(other.runs(None, None, 99).unwrap(), runs);
        assert_eq!(other.endpoint_limits().unwrap(), memory.endpoint_limits().unwrap());
        assert_eq!(other.open_runs().unwrap(), memory.open_runs().unwrap());
        assert_eq!(other.leased_units(None, 99).unwrap(), memory.leased_units(None, 99).unwrap());
        // Rows of runs that have ended may be swept in another order, until all are.
        while memory.sweep(99).unwrap() {}
        while other.sweep(99).unwrap() {}
        for run in runs.iter().map(|run| run.id) {
            assert_eq!(other.ready_units(run, None, 99).unwrap(), memory.ready_units(run, None, 99).unwrap());
            assert_eq!(other.report(run).unwrap(), memory.report(run).unwrap());
            assert_eq!(
                other.failures(run, None, None, 99).unwrap(),
                memory.failures(run, None, None, 99).unwrap()
            );
            let limits = PackLimits { names: 1, path_bytes: 99, mixes_depths: false };
            assert_eq!(
                other.link_pack(run, None, limits).unwrap(),
                memory.link_pack(run, None, limits).unwrap()
            );
            assert_eq!(
                other.directory_pack(run, None, limits).unwrap(),
                memory.directory_pack(run, None, limits).unwrap()
            );
        }
        for key in self.keys.values() {
            assert_eq!(other.work(*key).unwrap(), memory.work(*key).unwrap());
        }
    }
}

fn play(draws: &[Draw], other: Box<dyn Ledger>) {
    let (keys, committed) = (BTreeMap::new(), BTreeMap::new());
    Pair { memory: MemoryLedger::new(), other, now: 1000, keys, committed }.play(draws);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn a_file_answers_as_the_memory(draws in draws()) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("ledger.db");
        play(&draws, Box::new(SqliteLedger::open(&file).unwrap()));
        SqliteLedger::open(&file).unwrap().check_integrity().unwrap();
    }

    #[test]
    fn a_database_answers_as_the_memory(draws in draws()) {
        let (ledger, _leadership) = crate::database::leading(&crate::database::place());
        play(&draws, Box::new(ledger));
    }
}
