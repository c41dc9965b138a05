//! Brokers that come and go during a run.

use rustix::process::Signal;

use crate::control_plane::TestControlPlane;
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
    // It would come back with its next report, and take units again.
    let refused = fleet.control.fleet("brokers forget b1");
    assert!(refused.0 == 6 && refused.1.contains("only one that is away can be forgotten"), "{refused:?}");
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

#[test]
fn a_control_plane_with_a_paused_run_ends_in_time() {
    let place = tempfile::TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    std::fs::create_dir(&source).unwrap();
    (0..300).for_each(|number| std::fs::write(source.join(format!("f{number}")), "content").unwrap());
    let folder = place.path().join("control");
    let mut control = TestControlPlane::start(&folder, &["--drain-seconds", "1"]);
    control.limit("groups/local", Some(60));
    let run = control.copy("local", &source, &target);
    control.wait_for_run(run, "files", |view| view["figures"]["entries_done"].as_u64().unwrap() > 10);
    assert_eq!(control.fleet(&format!("run pause {run}")).0, 0);
    wait_until("the pause", SOON, || control.run(run)["state"] == "paused");
    let began = std::time::Instant::now();
    control.end();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    assert!(!target.join("f299").exists() || !target.join("f0").exists(), "it was paused");
}
