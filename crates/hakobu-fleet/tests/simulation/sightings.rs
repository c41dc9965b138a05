//! The ledger knows when a broker was last seen, so that the next leader does as well.

use std::sync::atomic::Ordering;

use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest};
use hakobu_fleet::names::BrokerName;

use super::world::World;

fn broker() -> BrokerName {
    BrokerName::new("b").unwrap()
}

/// Lets time pass. Returns the time of the last report.
fn pass(world: &mut World, milliseconds: u64, reports: bool) -> u64 {
    let (end_ms, mut reported_ms) = (world.now_ms() + milliseconds, 0);
    while world.now_ms() < end_ms {
        world.clock.elapsed_ms.fetch_add(100, Ordering::Relaxed);
        if reports && world.now_ms().is_multiple_of(500) {
            let report = BrokerReport { version: "1".to_owned(), slots: 1, ..BrokerReport::default() };
            let call = BrokerCall { broker: broker(), process: 1, request: BrokerRequest::Report(report) };
            // The answer may be lost, and the report as well.
            if world.call(&call).is_some() {
                reported_ms = world.now_ms();
            }
        }
        world.leader().tick();
    }
    reported_ms
}

/// Returns the time at which a new leader believes that the broker was last seen.
fn seen_ms(world: &mut World) -> u64 {
    world.kill_leader();
    let record = world.leader().ledger().broker(&broker()).unwrap().unwrap();
    record.last_seen.get() - 1_800_000_000_000
}

#[test]
fn the_next_leader_knows_when_a_silent_broker_was_last_seen() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    let reported_ms = pass(&mut world, 25_000, true);
    pass(&mut world, 5_000, false);
    let seen = seen_ms(&mut world);
    assert!((reported_ms..=25_000).contains(&seen), "{reported_ms} {seen}");
}

#[test]
fn the_next_leader_knows_of_a_broker_that_is_there_to_some_seconds() {
    let mut world = World::new(1, Box::new(MemoryLedger::default()));
    pass(&mut world, 25_000, true);
    assert!(seen_ms(&mut world) >= 14_000);
}
