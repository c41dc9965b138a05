//! Brokers that come and go during a run.

use rustix::process::Signal;

use crate::processes::{SOON, wait_until};
use crate::small_fleet::{SmallFleet, entries_of};

#[test]
fn three_brokers_copy_a_tree() {
    let fleet = SmallFleet::start(30, 3);
    let run = fleet.start_slowly();
    for broker in ["b0", "b1", "b2"] {
        fleet.wait_for_work(run, broker);
    }
    let view = fleet.finish(run);
    assert_eq!(view["counters"]["entries_updated"], 0, "{view:#}");
}

#[test]
fn brokers_are_drained_by_an_operator_and_others_join() {
    let mut fleet = SmallFleet::start(30, 2);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b1");
    fleet.control.client.order("POST", "/api/v1/brokers/b1/drain", None::<&()>).unwrap();
    fleet.add_broker("b2");
    fleet.wait_for_work(run, "b2");
    fleet.control.wait_for_run(run, "the end of the work of a broker", |view| entries_of(view, "b1") == 0);
    assert_eq!(fleet.broker("b1").ended(), None);
    fleet.control.client.order("POST", "/api/v1/brokers/b1/undrain", None::<&()>).unwrap();
    fleet.wait_for_work(run, "b1");
    fleet.finish(run);
}

#[test]
fn a_broker_that_is_asked_to_end_ends_with_zero() {
    let mut fleet = SmallFleet::start(30, 2);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.broker("b0").signal(Signal::TERM);
    assert_eq!(fleet.broker("b0").wait().code(), Some(0));
    fleet.control.wait_for_run(run, "the end of the work of a broker", |view| entries_of(view, "b0") == 0);
    // Its lease was ended by it, and did not end by itself.
    let view = fleet.finish(run);
    assert_eq!(view["counters"]["entries_updated"], 0, "{view:#}");
}

#[test]
fn a_fleet_without_brokers_waits_for_one() {
    let mut fleet = SmallFleet::start(30, 0);
    let run = fleet.start_slowly();
    fleet.add_broker("late");
    wait_until("work", SOON, || entries_of(&fleet.control.run(run), "late") > 0);
    fleet.finish(run);
}
