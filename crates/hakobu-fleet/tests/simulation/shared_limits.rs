//! Limits that several runs share.

use std::sync::{Arc, Mutex};

use hakobu_fleet::bus::IncomingCall;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::{Moment, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, GrantedUnit, LeaderAnswer, UnitProgress, decode, encode,
};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::NewRun;
use hakobu_fleet::run_wait::RunWait;
use hakobu_fleet::unit::UnitWork;

use super::world::{World, group};

/// Sends requests of brokers that all arrive before one of them is answered.
fn ask_at_once(world: &mut World, brokers: &[&str], request: &BrokerRequest) -> Vec<LeaderAnswer> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    for name in brokers {
        let put = answers.clone();
        let reply = Box::new(move |bytes: Vec<u8>| put.lock().unwrap().push(decode(&bytes).unwrap()));
        let process = u64::from(name.as_bytes()[1]);
        let call = BrokerCall { broker: BrokerName::new(*name).unwrap(), process, request: request.clone() };
        let bytes = encode(&call).unwrap();
        world.leader().take_call(IncomingCall { group: group(), broker: None, bytes, reply });
    }
    world.leader().flush();
    std::mem::take(&mut *answers.lock().unwrap())
}

fn leases(world: &mut World, brokers: &[&str]) -> Vec<GrantedUnit> {
    let answers = ask_at_once(world, brokers, &BrokerRequest::Lease { offered: Vec::new() });
    let granted = answers.into_iter().map(|answer| match answer {
        LeaderAnswer::Leases(granted) => granted,
        other => panic!("{other:?}"),
    });
    granted.flatten().collect()
}

fn report(world: &mut World, broker: &str, slots: u16, units: &[&GrantedUnit]) {
    let progress = |unit: &&GrantedUnit| UnitProgress {
        lease: unit.lease.clone(),
        running_ms: 500,
        entries: 0,
        bytes: 0,
        operations: 0,
        bytes_settled: 0,
        entries_done: 0,
        failures: 0,
        lanes: 1,
        limited_by: String::new(),
    };
    let units = units.iter().map(progress).collect();
    let report = BrokerReport { version: "1".to_owned(), slots, units, ..BrokerReport::default() };
    ask_at_once(world, &[broker], &BrokerRequest::Report(report));
}

fn change(world: &mut World, change: LedgerChange) {
    world.leader().change(change, Box::new(|answer| drop(answer.unwrap())));
    world.leader().flush();
}

fn start(world: &mut World, source: &str, target: &str) {
    let run = NewRun {
        relationship: None,
        group: group(),
        request: format!(r#"{{"sources":["{source}"],"target":"{target}"}}"#),
        started: Moment::new(1).unwrap(),
        units: vec![UnitWork::All],
    };
    change(world, LedgerChange::StartRun(Box::new(run)));
}

fn waits_for(world: &mut World, run: u64) -> Option<RunWait> {
    let leader = world.leader();
    let run = leader.active_runs().get(&RunId::new(run).unwrap()).unwrap();
    leader.waits_for(run)
}

#[test]
fn a_group_has_so_many_brokers_over_all_its_runs() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let limit = |limits: &str| LedgerChange::LimitGroup(group(), Some(limits.to_owned()));
    change(&mut world, limit(r#"{"version":1,"brokers":1}"#));
    ["/b", "/c", "/d"].iter().for_each(|target| start(&mut world, "/a", target));
    ["b0", "b1", "b2"].iter().for_each(|broker| report(&mut world, broker, 2, &[]));

    // Leases that the ledger does not know yet count.
    let granted = leases(&mut world, &["b0", "b1", "b2"]);
    assert_eq!(granted.len(), 1, "one broker works");
    assert_eq!(leases(&mut world, &["b1", "b2"]).len(), 0, "in other runs neither");
    let other = leases(&mut world, &["b0"]);
    assert_eq!(other.len(), 1, "it may work on several units");
    assert_ne!(other[0].lease.key.run, granted[0].lease.key.run);
    report(&mut world, "b0", 2, &[&granted[0], &other[0]]);
    world.leader().tick();
    let waits = [1, 2, 3].map(|run| waits_for(&mut world, run));
    assert_eq!(waits, [None, None, Some(RunWait::Limit)]);

    // The units of a run that is paused keep nobody from working on others.
    let pause = |run, is_paused| LedgerChange::PauseRun(RunId::new(run).unwrap(), is_paused);
    (1..=2).for_each(|run| change(&mut world, pause(run, true)));
    let third = leases(&mut world, &["b1", "b2"]);
    assert_eq!((third.len(), third[0].lease.key.run), (1, RunId::new(3).unwrap()));
    (1..=2).for_each(|run| change(&mut world, pause(run, false)));

    change(&mut world, limit(r#"{"version":1,"paused":true}"#));
    assert_eq!(waits_for(&mut world, 1), Some(RunWait::Limit));
}
