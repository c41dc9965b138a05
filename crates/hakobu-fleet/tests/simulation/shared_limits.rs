//! Limits that several runs share.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use hakobu_core::path::EntryPath;
use hakobu_fleet::bus::IncomingCall;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::{Moment, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, CommittedWork, GrantedUnit, LeaderAnswer, SentLimits, UnitOrder,
    UnitProgress,
};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::run::NewRun;
use hakobu_fleet::run_wait::RunWait;
use hakobu_fleet::unit::{UnitItem, UnitWork};

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

fn progress(unit: &GrantedUnit, running_ms: u64, (bytes, operations): (u64, u64)) -> UnitProgress {
    UnitProgress {
        lease: unit.lease.clone(),
        running_ms,
        entries: 0,
        bytes,
        operations,
        bytes_settled: 0,
        entries_done: 0,
        failures: 0,
        lanes: 1,
        limited_by: String::new(),
    }
}

/// Reports on units; returns their limits.
fn report(world: &mut World, broker: &str, slots: u16, units: &[&GrantedUnit]) -> Vec<SentLimits> {
    send_report(world, broker, slots, units.iter().map(|unit| progress(unit, 500, (0, 0))).collect())
}

/// Reports twice on a unit that used so many bytes and operations in a second between; returns its limits.
fn report_use(world: &mut World, broker: &str, unit: &GrantedUnit, used: (u64, u64)) -> SentLimits {
    let reports = [progress(unit, 1_000, (0, 0)), progress(unit, 2_000, used)];
    reports.map(|progress| send_report(world, broker, 1, vec![progress]).remove(0))[1].clone()
}

fn send_report(world: &mut World, broker: &str, slots: u16, units: Vec<UnitProgress>) -> Vec<SentLimits> {
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
    start_with(world, group, (source, target), vec![UnitWork::All]);
}

fn start_with(world: &mut World, group: GroupName, (source, target): (&str, &str), units: Vec<UnitWork>) {
    let run = NewRun {
        relationship: None,
        group,
        request: format!(r#"{{"sources":["{source}"],"target":"{target}"}}"#),
        started: Moment::new(1).unwrap(),
        units,
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
    let slows: Vec<_> = limits.iter().map(|limits| limits.source_p99_us.is_some()).collect();
    assert_eq!(slows, [true, true, false, false]);
    let shown: Vec<_> = world.leader().all_endpoint_limits().map(|(place, _, runs)| (place, runs)).collect();
    assert_eq!(shown, [(&b"nas:/srv"[..], 3)]);

    // Other limits of the same runs hold as well, and a leader that takes over knows all of them.
    change(
        &mut world,
        LedgerChange::LimitGroup(group(), Some(r#"{"version":1,"bytes_per_second":30000}"#.into())),
    );
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

/// Units come, go and report in any order, with any use of their shares: what their brokers were told is within the limit at any
/// moment, and there are no more of them than it has shares for.
#[test]
fn shares_that_brokers_were_told_are_within_the_limit_at_any_moment() {
    const BROKERS: u64 = 10;
    let mut world = World::new(7, Box::new(MemoryLedger::default()));
    let limit = |bytes: u64, operations: u32| {
        let limits =
            format!(r#"{{"version":1,"bytes_per_second":{bytes},"operations_per_second":{operations}}}"#);
        LedgerChange::LimitGroup(group(), Some(limits))
    };
    let (mut bytes_max, mut operations_max) = (55_000, 7);
    change(&mut world, limit(bytes_max, operations_max));
    for target in ["/b", "/c"] {
        let item = |number: u64| UnitItem::whole(0, EntryPath::new(format!("d{number}")).unwrap());
        let units = (0..2_000).map(|number| UnitWork::Items(vec![item(number)])).collect();
        start_with(&mut world, group(), ("/a", target), units);
    }
    let brokers: Vec<String> = (0..BROKERS).map(|number| format!("b{number}")).collect();
    brokers.iter().for_each(|broker| drop(report(&mut world, broker, 1, &[])));
    let mut told: BTreeMap<&str, (GrantedUnit, SentLimits)> = BTreeMap::new();
    let (mut most, mut rounds) = (0, 0);
    for step in 0..3_000 {
        if step % 500 == 499 {
            // Whoever has not heard of other limits has the old ones.
            (bytes_max, operations_max) =
                [(55_000, 7), (30_000, 100), (500_000, 4), (1_000_000, 1_000)][step / 500 % 4];
            change(&mut world, limit(bytes_max, operations_max));
            for (broker, (unit, limits)) in &mut told {
                *limits = report(&mut world, broker, 1, &[unit]).remove(0);
            }
        }
        world.clock.elapsed_ms.fetch_add(100, Ordering::Relaxed);
        let broker = brokers[world.dice.roll(BROKERS) as usize].as_str();
        match told.remove(broker) {
            None => {
                if let Some(unit) = leases(&mut world, &[broker]).pop() {
                    let limits = unit.limits.clone();
                    told.insert(broker, (unit, limits));
                }
            }
            Some((unit, _)) if world.dice.once_in(6) => {
                let result = CommittedWork { counters: "{}".to_owned(), ..CommittedWork::default() };
                let request = BrokerRequest::Commit { lease: unit.lease, result: Box::new(result) };
                assert_eq!(ask_at_once(&mut world, &[broker], &request), [LeaderAnswer::Done]);
            }
            Some((unit, limits)) => {
                let part = world.dice.roll(3);
                let used = |share: Option<u64>| share.unwrap_or(0) * part / 2;
                let used = (used(limits.bytes_per_second), used(limits.operations_per_second.map(u64::from)));
                let limits = report_use(&mut world, broker, &unit, used);
                told.insert(broker, (unit, limits));
            }
        }
        let moving = || told.values().map(|(_, limits)| limits).filter(|limits| !limits.is_paused);
        let bytes: u64 = moving().map(|limits| limits.bytes_per_second.unwrap()).sum();
        let operations: u32 = moving().map(|limits| limits.operations_per_second.unwrap()).sum();
        assert!(bytes <= bytes_max && operations <= operations_max, "{step}: {bytes}, {operations}");
        assert!(moving().all(|limits| limits.bytes_per_second.unwrap() >= 10_000), "{step}: {told:?}");
        let count = (bytes_max / 10_000).min(operations_max.into());
        assert!(moving().count() as u64 <= count, "{step}: {told:?}");
        most = most.max(told.len());
        rounds += usize::from(bytes * 10 >= bytes_max * 8 || operations * 10 >= operations_max * 8);
    }
    assert_eq!(most, BROKERS as usize, "large limits have shares for all");
    assert!(rounds > 1_500, "most of a limit is given out most of the time: {rounds}");
}
