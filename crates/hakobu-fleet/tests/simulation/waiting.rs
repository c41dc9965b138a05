//! A run of which nothing moves tells what it waits for.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::ids::{Moment, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::NewRun;
use hakobu_fleet::run_wait::RunWait;
use hakobu_fleet::unit::UnitWork;

use super::world::{LEASE_MS, World, group};

fn call(world: &mut World, broker: &str, request: BrokerRequest) {
    let broker = BrokerName::new(broker).unwrap();
    let process = u64::from(broker.as_str().as_bytes()[0]);
    let call = BrokerCall { broker, process, request };
    // Messages are lost now and then.
    while world.call(&call).is_none() {}
}

fn report(world: &mut World, broker: &str) {
    let report = BrokerReport { version: "1".to_owned(), slots: 1, ..BrokerReport::default() };
    call(world, broker, BrokerRequest::Report(report));
}

/// Lets time pass while one broker reports.
fn pass(world: &mut World, milliseconds: u64, broker: &str) {
    for _ in 0..milliseconds / 500 {
        world.clock.elapsed_ms.fetch_add(500, Ordering::Relaxed);
        report(world, broker);
        world.leader().tick();
    }
}

fn change(world: &mut World, change: LedgerChange) {
    world.leader().change(change, Box::new(|answer| drop(answer.unwrap())));
    world.leader().flush();
}

fn waits_for(world: &mut World) -> Option<RunWait> {
    let leader = world.leader();
    let run = leader.active_runs().get(&RunId::new(1).unwrap()).unwrap();
    leader.waits_for(run)
}

#[test]
fn a_run_tells_which_brokers_it_waits_for() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let run = NewRun {
        relationship: None,
        group: group(),
        request: r#"{"sources":["/a"],"target":"/b"}"#.to_owned(),
        started: Moment::new(1).unwrap(),
        units: vec![UnitWork::All],
    };
    change(&mut world, LedgerChange::StartRun(Box::new(run)));
    assert_eq!(waits_for(&mut world), Some(RunWait::NoBroker));
    report(&mut world, "a");
    assert_eq!(waits_for(&mut world), None);
    let drain = |is_draining| LedgerChange::DrainBroker(BrokerName::new("a").unwrap(), is_draining);
    change(&mut world, drain(true));
    assert_eq!(waits_for(&mut world), Some(RunWait::Draining));
    change(&mut world, drain(false));
    change(&mut world, LedgerChange::PauseRun(RunId::new(1).unwrap(), true));
    change(&mut world, drain(true));
    assert_eq!(waits_for(&mut world), None, "it is paused");
    change(&mut world, LedgerChange::PauseRun(RunId::new(1).unwrap(), false));
    change(&mut world, drain(false));

    // The broker that has the only unit dies, and another one waits.
    call(&mut world, "a", BrokerRequest::Lease { offered: Vec::new() });
    report(&mut world, "b");
    assert_eq!(waits_for(&mut world), None);
    pass(&mut world, 4_000, "b");
    let silent = BTreeSet::from([BrokerName::new("a").unwrap()]);
    assert_eq!(waits_for(&mut world), Some(RunWait::SilentBrokers(silent, LEASE_MS - 4_000)));
    let silences = {
        let leader = world.leader();
        let run = leader.active_runs().get(&RunId::new(1).unwrap()).unwrap();
        run.leased.values().map(|leased| leader.silent_ms(leased)).collect::<Vec<_>>()
    };
    assert_eq!(silences, [Some(4_000)]);
    pass(&mut world, LEASE_MS - 4_000, "b");
    assert_eq!(waits_for(&mut world), None, "the other one gets it");
    pass(&mut world, 500, "b");
    call(&mut world, "b", BrokerRequest::Lease { offered: Vec::new() });
    assert_eq!(waits_for(&mut world), None);
}
