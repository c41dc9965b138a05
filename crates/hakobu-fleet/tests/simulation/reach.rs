//! Brokers that name what they reach get units of runs within it only.

use std::sync::atomic::Ordering;

use hakobu_core::error::ErrorKind;
use hakobu_fleet::api::byte_text::ByteText;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::errand::Errand;
use hakobu_fleet::ids::{Moment, RunId};
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerOrders, BrokerReport, BrokerRequest, GrantedUnit, LeaderAnswer, UnitOrder, UnitProgress,
};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::NewRun;
use hakobu_fleet::run_request::LocationText;
use hakobu_fleet::run_wait::RunWait;
use hakobu_fleet::unit::UnitWork;

use super::world::{World, group};

fn call(world: &mut World, (broker, process): (&str, u64), request: BrokerRequest) -> LeaderAnswer {
    let call = BrokerCall { broker: BrokerName::new(broker).unwrap(), process, request };
    loop {
        // Messages are lost now and then.
        if let Some(answer) = world.call(&call) {
            return answer;
        }
    }
}

fn report_of(reaches: &[&str]) -> BrokerReport {
    let reaches = reaches.iter().map(|location| location.as_bytes().to_vec()).collect();
    BrokerReport { version: "1".to_owned(), slots: 1, reaches, ..BrokerReport::default() }
}

fn report(world: &mut World, broker: (&str, u64), reaches: &[&str]) -> BrokerOrders {
    match call(world, broker, BrokerRequest::Report(report_of(reaches))) {
        LeaderAnswer::Orders(orders) => orders,
        other => panic!("{other:?}"),
    }
}

fn lease(world: &mut World, broker: (&str, u64)) -> Option<GrantedUnit> {
    match call(world, broker, BrokerRequest::Lease { offered: Vec::new() }) {
        LeaderAnswer::Leases(units) => units.into_iter().next(),
        other => panic!("{other:?}"),
    }
}

fn start(world: &mut World, source: &str, target: &str) {
    let run = NewRun {
        relationship: None,
        group: group(),
        request: format!(r#"{{"sources":["{source}"],"target":"{target}"}}"#),
        started: Moment::new(1).unwrap(),
        units: vec![UnitWork::All],
    };
    let change = LedgerChange::StartRun(Box::new(run));
    world.leader().change(change, Box::new(|answer| drop(answer.unwrap())));
    world.leader().flush();
}

fn waits_for(world: &mut World, run: u64) -> Option<RunWait> {
    let leader = world.leader();
    leader.waits_for(leader.active_runs().get(&RunId::new(run).unwrap()).unwrap())
}

fn unreachable(locations: &[&str]) -> Option<RunWait> {
    let texts = locations.iter().map(|location| LocationText(location.as_bytes().to_vec()));
    Some(RunWait::Unreachable(texts.collect()))
}

#[test]
fn a_run_waits_for_a_broker_that_reaches_its_locations() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    start(&mut world, "/mnt/nas/a", "s3://bucket/x");
    report(&mut world, ("tape", 1), &["/mnt/tape", "s3://bucket"]);
    assert_eq!(lease(&mut world, ("tape", 1)), None);
    assert_eq!(waits_for(&mut world, 1), unreachable(&["/mnt/nas/a"]));
    report(&mut world, ("nas", 2), &["/mnt/nas"]);
    assert_eq!(lease(&mut world, ("nas", 2)), None);
    assert_eq!(waits_for(&mut world, 1), unreachable(&["/mnt/nas/a", "s3://bucket/x"]), "each has one");
    // Another process of a name is asked anew for what it reaches, also if it names the same.
    world.clock.elapsed_ms.fetch_add(15_000, Ordering::Relaxed);
    report(&mut world, ("tape", 7), &["/mnt/tape", "s3://bucket"]);
    assert_eq!(lease(&mut world, ("tape", 7)), None);
    // A leader that takes over knows it before it gives anything out.
    world.kill_leader();
    assert_eq!(lease(&mut world, ("tape", 7)), None);
    report(&mut world, ("tape", 7), &["/mnt/tape", "s3://bucket"]);
    assert_eq!(lease(&mut world, ("tape", 7)), None);
    // A broker has the runs that it reaches.
    start(&mut world, "/mnt/tape/b", "s3://bucket/y");
    assert_eq!(lease(&mut world, ("tape", 7)).unwrap().lease.key.run.get(), 2);
    assert_eq!(waits_for(&mut world, 1), unreachable(&["/mnt/nas/a"]));
    report(&mut world, ("both", 3), &["/mnt/nas/", "s3://bucket/x"]);
    assert_eq!(waits_for(&mut world, 1), None);
    assert_eq!(lease(&mut world, ("both", 3)).unwrap().lease.key.run.get(), 1);
    start(&mut world, "/mnt/other", "/mnt/more");
    report(&mut world, ("all", 4), &[]);
    assert_eq!(lease(&mut world, ("all", 4)).unwrap().lease.key.run.get(), 3);
}

#[test]
fn hostile_lists_are_refused() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let many: Vec<_> = (0..65).map(|number| format!("/{number}")).collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for wrong in [&many[..], &["relative"], &[""], &["-"], &["/ok", "odd://x"], &[&"/x".repeat(1000)]] {
        let answer = call(&mut world, ("b", 1), BrokerRequest::Report(report_of(wrong)));
        assert!(matches!(answer, LeaderAnswer::Refused(_)), "{wrong:?}: {answer:?}");
        assert!(world.leader().live_brokers().is_empty(), "{wrong:?}");
    }
    report(&mut world, ("b", 1), &many[1..]);
    assert_eq!(world.leader().live_brokers().len(), 1);
}

#[test]
fn idle_brokers_elsewhere_split_nothing() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    start(&mut world, "/mnt/nas/a", "/mnt/nas/b");
    report(&mut world, ("nas", 1), &["/mnt/nas"]);
    let lease = lease(&mut world, ("nas", 1)).unwrap().lease;
    let splits = |world: &mut World, idle: (&str, u64), reaches: &[&str]| {
        world.clock.elapsed_ms.fetch_add(1_000, Ordering::Relaxed);
        report(world, idle, reaches);
        let progress = UnitProgress {
            lease: lease.clone(),
            running_ms: 1_000,
            entries: 10,
            bytes: 10,
            operations: 10,
            bytes_settled: 10,
            entries_done: 10,
            failures: 0,
            lanes: 1,
            limited_by: String::new(),
        };
        let report = || BrokerReport { units: vec![progress.clone()], ..report_of(&["/mnt/nas"]) };
        call(world, ("nas", 1), BrokerRequest::Report(report()));
        world.leader().tick();
        match call(world, ("nas", 1), BrokerRequest::Report(report())) {
            LeaderAnswer::Orders(orders) => {
                matches!(orders.units[..], [UnitOrder::Continue { splits: true, .. }])
            }
            other => panic!("{other:?}"),
        }
    };
    assert!(!splits(&mut world, ("tape", 2), &["/mnt/tape"]));
    assert!(splits(&mut world, ("all", 3), &[]));
}

#[test]
fn errands_go_to_brokers_that_reach_their_locations() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let browse = |location: &str| Errand::Browse {
        location: ByteText(location.as_bytes().to_vec()),
        arguments: Vec::new(),
        is_target: false,
    };
    // Nobody is there: somebody may come.
    assert!(world.leader().add_errand(group(), browse("/mnt/tape"), Vec::new()).is_ok());
    report(&mut world, ("nas", 1), &["/mnt/nas"]);
    let error = world.leader().add_errand(group(), browse("/mnt"), Vec::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(error.detail.contains("no broker of the group site that is connected reaches /mnt"), "{error}");
    let id = world.leader().add_errand(group(), browse("/mnt/nas/a"), Vec::new()).unwrap();
    assert!(report(&mut world, ("tape", 2), &["/mnt/tape/b"]).errands.is_empty());
    world.leader().errand(id).unwrap();
    report(&mut world, ("nas", 1), &["/mnt/nas"]);
    assert_eq!(world.leader().errand(id).unwrap().broker.as_deref(), Some("nas"));
}
