//! Limits that several runs share.

use std::sync::{Arc, Mutex};

use hakobu_fleet::bus::IncomingCall;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::{Moment, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, GrantedUnit, LeaderAnswer, SentLimits, UnitOrder, UnitProgress,
    decode, encode,
};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::run::NewRun;
use hakobu_fleet::run_wait::RunWait;
use hakobu_fleet::unit::UnitWork;

use super::world::{World, group};

/// Returns the group of a broker: those called `o0`, … are elsewhere.
fn group_of(broker: &str) -> GroupName {
    if broker.starts_with('o') { GroupName::new("other").unwrap() } else { group() }
}

/// Sends requests of brokers that all arrive before one of them is answered.
fn ask_at_once(world: &mut World, brokers: &[&str], request: &BrokerRequest) -> Vec<LeaderAnswer> {
    let answers = Arc::new(Mutex::new(Vec::new()));
    for name in brokers {
        let put = answers.clone();
        let reply = Box::new(move |bytes: Vec<u8>| put.lock().unwrap().push(decode(&bytes).unwrap()));
        let process = u64::from(name.as_bytes()[1]);
        let call = BrokerCall { broker: BrokerName::new(*name).unwrap(), process, request: request.clone() };
        let bytes = encode(&call).unwrap();
        world.leader().take_call(IncomingCall { group: group_of(name), broker: None, bytes, reply });
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

/// Reports on units; returns their limits.
fn report(world: &mut World, broker: &str, slots: u16, units: &[&GrantedUnit]) -> Vec<SentLimits> {
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
    let answer = ask_at_once(world, &[broker], &BrokerRequest::Report(report)).remove(0);
    let LeaderAnswer::Orders(orders) = answer else { panic!("{answer:?}") };
    let limits = orders.units.into_iter().map(|order| match order {
        UnitOrder::Continue { limits, .. } => limits,
        UnitOrder::Stop => panic!("the unit is {broker}'s"),
    });
    limits.collect()
}

fn change(world: &mut World, change: LedgerChange) {
    world.leader().change(change, Box::new(|answer| drop(answer.unwrap())));
    world.leader().flush();
}

fn start(world: &mut World, group: GroupName, source: &str, target: &str) {
    let run = NewRun {
        relationship: None,
        group,
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
    ["/b", "/c", "/d"].iter().for_each(|target| start(&mut world, group(), "/a", target));
    ["b0", "b1", "b2"].iter().for_each(|broker| drop(report(&mut world, broker, 2, &[])));

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

#[test]
fn limits_of_an_endpoint_are_shared_by_runs_of_all_groups() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let limit = |location: &str, limits: Option<&str>| {
        LedgerChange::LimitEndpoint(location.as_bytes().to_vec(), limits.map(str::to_owned))
    };
    // A run that begins before and one that begins after the limits are set read from there, another one writes to it, and the
    // last one has nothing to do with it.
    start(&mut world, group(), "nas:/srv/a", "/a");
    change(
        &mut world,
        limit("nas:/srv", Some(r#"{"version":1,"bytes_per_second":90000,"source_p99_ms":5}"#)),
    );
    start(&mut world, GroupName::new("other").unwrap(), "nas:/srv/b", "/b");
    start(&mut world, group(), "/c", "backup@nas:/srv/c");
    start(&mut world, group(), "nas:/srv2", "/d");
    ["b0", "b1", "b2", "o0"].iter().for_each(|broker| drop(report(&mut world, broker, 1, &[])));
    let brokers = ["b0", "o0", "b1", "b2"];
    let mut granted: Vec<_> =
        brokers.iter().map(|broker| (*broker, leases(&mut world, &[broker]).remove(0))).collect();
    granted.sort_by_key(|(_, unit)| unit.lease.key.run);
    // After some reports each has its share.
    let mut limits = Vec::new();
    for _report in 0..3 {
        let sent = granted.iter().map(|(broker, unit)| report(&mut world, broker, 1, &[unit]).remove(0));
        limits = sent.collect();
    }
    let bytes: Vec<_> = limits.iter().map(|limits| limits.bytes_per_second).collect();
    assert_eq!(bytes, [Some(30_000), Some(30_000), Some(30_000), None]);
    // Only those that read from there slow down with it.
    let slows: Vec<_> = limits.iter().map(|limits| limits.source_p99_ms.is_some()).collect();
    assert_eq!(slows, [true, true, false, false]);
    let shown: Vec<_> = world.leader().all_endpoint_limits().map(|(place, _, runs)| (place, runs)).collect();
    assert_eq!(shown, [(&b"nas:/srv"[..], 3)]);

    // Other limits of the same runs hold as well, and a leader that takes over knows all of them.
    change(&mut world, LedgerChange::LimitGroup(group(), Some(r#"{"version":1,"bytes_per_second":30000}"#.into())));
    change(&mut world, limit("/b", Some(r#"{"version":1,"paused":true}"#)));
    world.kill_leader();
    ["b0", "b1", "b2", "o0"].iter().for_each(|broker| drop(report(&mut world, broker, 1, &[])));
    for _report in 0..3 {
        let sent = granted.iter().map(|(broker, unit)| report(&mut world, broker, 1, &[unit]).remove(0));
        limits = sent.collect();
    }
    let bytes: Vec<_> = limits.iter().map(|limits| limits.bytes_per_second).collect();
    assert_eq!(bytes[0], Some(10_000));
    assert!(limits[1].is_paused && !limits[0].is_paused);
    for location in ["nas:/srv", "/b"] {
        change(&mut world, limit(location, None));
    }
    let last = report(&mut world, "o0", 1, &[&granted[1].1]).remove(0);
    assert_eq!((last.bytes_per_second, last.is_paused), (None, false));
}
