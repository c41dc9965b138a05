//! Work that is given away again and again: how many units it becomes.

use std::sync::{Arc, Mutex};

use hakobu_core::path::EntryPath;
use hakobu_fleet::bus::IncomingCall;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, CommittedWork, GrantedWork, LeaderAnswer,
};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::names::BrokerName;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::unit::{UnitItem, UnitWork};

use super::tests::start;
use super::world::{World, group};

/// The directories of the tree, and those that a unit copies before it gives the rest away.
const DIRECTORIES: usize = 4_000;
const DIRECTORIES_A_UNIT: usize = 20;

/// Sends a request that arrives.
fn ask(world: &mut World, broker: &BrokerName, request: BrokerRequest) -> LeaderAnswer {
    let place = Arc::new(Mutex::new(None));
    let put = place.clone();
    let reply = Box::new(move |bytes: Vec<u8>| *put.lock().unwrap() = Some(bytes));
    let bytes = encode(&BrokerCall { broker: broker.clone(), process: 1, request }).unwrap();
    world.leader().take_call(IncomingCall { group: group(), broker: None, bytes, reply });
    world.leader().flush();
    let bytes = place.lock().unwrap().take().expect("each request is answered");
    decode(&bytes).unwrap()
}

fn items(work: &GrantedWork) -> Vec<UnitItem> {
    let directory = |at: usize| UnitItem::whole(0, EntryPath::new(format!("d{at}")).unwrap());
    match work {
        GrantedWork::Copy(bytes) => match UnitWork::decode(bytes).unwrap() {
            UnitWork::All => (0..DIRECTORIES).map(directory).collect(),
            UnitWork::Items(items) => items,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// Returns the number of units of a run by so many brokers, of which each copies a few directories at a time.
fn units_of_a_run(brokers: u64) -> usize {
    let mut world = World::new(1, Box::new(MemoryLedger::new()));
    let run = start(&mut world);
    let brokers: Vec<_> = (0..brokers).map(|number| BrokerName::new(format!("b{number}")).unwrap()).collect();
    for broker in &brokers {
        let report = BrokerReport { version: "1".to_owned(), slots: 1, ..BrokerReport::default() };
        ask(&mut world, broker, BrokerRequest::Report(report));
    }
    let (mut units, mut copied) = (0, 0);
    while !world.leader().active_runs().is_empty() {
        // All of them lease before one commits.
        let mut leased = Vec::new();
        for broker in &brokers {
            let answer = ask(&mut world, broker, BrokerRequest::Lease { offered: Vec::new() });
            let LeaderAnswer::Leases(granted) = answer else { panic!("{answer:?}") };
            leased.extend(granted.into_iter().map(|unit| (broker, unit)));
        }
        for (broker, unit) in leased {
            let mut mine = items(&unit.work);
            let rest = mine.split_off(mine.len().min(DIRECTORIES_A_UNIT));
            (units, copied) = (units + 1, copied + mine.len());
            let given = match rest.is_empty() {
                true => Vec::new(),
                false => vec![UnitWork::Items(rest).encode().unwrap()],
            };
            let result = CommittedWork { given, counters: "{}".to_owned(), ..CommittedWork::default() };
            let request = BrokerRequest::Commit { lease: unit.lease, result: Box::new(result) };
            assert_eq!(ask(&mut world, broker, request), LeaderAnswer::Done);
        }
    }
    assert_eq!(copied, DIRECTORIES);
    let row = world.leader().ledger().run(run).unwrap().unwrap();
    assert_eq!(row.outcome, Some(RunOutcome::Complete));
    units
}

#[test]
fn work_that_is_given_away_again_does_not_become_ever_smaller_units() {
    for brokers in [1, 2, 8] {
        let (units, least) = (units_of_a_run(brokers), DIRECTORIES / DIRECTORIES_A_UNIT);
        let most = least + 16 * brokers as usize;
        assert!((least..=most).contains(&units), "{brokers} brokers: {units} units, at least {least}");
    }
}
