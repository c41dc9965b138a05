//! Servers of NATS that are killed, and that lose what they keep, in the middle of a run.

use std::thread::sleep;
use std::time::Duration;

use hakobu_testkit::nats::NatsServer;

use crate::faults::LOST;
use crate::processes::{SOON, wait_until};
use crate::small_fleet::SmallFleet;
use crate::streams::{delete_consumers, delete_streams};

/// The time for what was on its way to arrive. It is shorter than a lease.
const ARRIVED: Duration = Duration::from_secs(1);

#[test]
fn nats_is_killed_and_its_streams_and_consumers_are_deleted() {
    let mut fleet = SmallFleet::start(5, 3);
    let watch = fleet.watch_leases();
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.nats.kill();
    sleep(ARRIVED);
    let mut in_flight = watch.leases();
    assert!(!in_flight.is_empty());
    sleep(Duration::from_secs(1));
    fleet.nats.restart().unwrap();
    fleet.wait_for_work(run, "b1");
    in_flight.extend(watch.leases());
    assert!(delete_consumers(fleet.nats_address()) > 0);
    fleet.wait_for_work(run, "b2");
    in_flight.extend(watch.leases());
    assert!(delete_streams(fleet.nats_address()) > 0);
    sleep(Duration::from_secs(1));
    fleet.wait_for_work(run, "b0");
    fleet.finish_after(run, &watch, &in_flight);
}

#[test]
fn nats_is_away_for_longer_than_a_lease() {
    let mut fleet = SmallFleet::start(3, 3);
    let watch = fleet.watch_leases();
    let run = fleet.start_slowly();
    for broker in ["b0", "b1", "b2"] {
        fleet.wait_for_work(run, broker);
    }
    fleet.nats.kill();
    sleep(ARRIVED);
    let in_flight = watch.leases();
    assert!(!in_flight.is_empty());
    // The control plane takes the units back, though it hears of nobody.
    wait_until("the ends of all leases", SOON, || watch.leases().is_empty());
    fleet.nats.restart().unwrap();
    for broker in in_flight.iter().filter_map(|lease| lease.broker.as_deref()) {
        wait_until("a refusal", SOON, || fleet.broker(broker).log().contains(LOST));
        fleet.wait_for_work(run, broker);
    }
    fleet.finish_after(run, &watch, &in_flight);
    assert_eq!(watch.returned().len(), in_flight.len(), "each lease was lost");
}

#[test]
fn one_of_three_servers_of_nats_is_killed_and_all_three() {
    let mut fleet = SmallFleet::start_in_cluster(5, 3);
    let watch = fleet.watch_leases();
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.nats.kill();
    sleep(ARRIVED);
    let mut in_flight = watch.leases();
    fleet.nats.restart().unwrap();
    for broker in ["b0", "b1", "b2"] {
        fleet.wait_for_work(run, broker);
    }
    fleet.more_nats.iter_mut().chain([&mut fleet.nats]).for_each(NatsServer::kill);
    sleep(ARRIVED);
    in_flight.extend(watch.leases());
    for server in fleet.more_nats.iter_mut().chain([&mut fleet.nats]) {
        server.restart().unwrap();
    }
    fleet.wait_for_work(run, "b1");
    fleet.finish_after(run, &watch, &in_flight);
}
