//! Processes of a fleet that are killed, stopped or cut off in the middle of a run.

use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::postgres::PostgresServer;
use rustix::process::Signal;
use serde_json::Value;

use crate::processes::{HAKOBU, SOON, wait_until};
use crate::relay::relay;
use crate::small_fleet::{OPERATIONS, SmallFleet, entries_of};
use crate::streams::delete_streams;

/// The words of a broker about a unit that others have.
const LOST: &str = "a unit is no longer this broker's";

fn count(view: &Value, name: &str) -> u64 {
    view["counters"][name].as_u64().unwrap()
}

#[test]
fn killed_brokers_cost_the_work_of_their_units() {
    let mut fleet = SmallFleet::start(5, 2);
    let run = fleet.start_slowly();
    let mut begun = 0;
    for round in 0..5_u64 {
        let name = format!("b{round}");
        fleet.wait_for_work(run, &name);
        sleep(Duration::from_millis(round * 137 % 400));
        fleet.broker(&name).kill();
        // Those that it told of last, and those since: at most as many as operations are allowed in a second.
        begun += entries_of(&fleet.control.run(run), &name) + u64::from(OPERATIONS);
        fleet.add_broker(&format!("b{}", round + 2));
    }
    let view = fleet.finish(run);
    let again = count(&view, "entries_updated") + count(&view, "entries_unchanged");
    println!("{again} entries again of at most {begun}");
    assert!(again <= begun, "{again} entries again, of at most {begun}: {view:#}");
}

#[test]
fn a_run_tells_that_it_waits_for_the_lease_of_a_killed_broker() {
    let mut fleet = SmallFleet::start(12, 1);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.broker("b0").kill();
    let waits_for = |kind: &'static str| move |view: &Value| view["waiting_for"]["kind"] == kind;
    fleet.control.wait_for_run(run, "that there is no broker", waits_for("no_broker"));
    fleet.add_broker("b1");
    fleet.control.wait_for_run(run, "the lease that is told of", waits_for("silent_brokers"));
    let view = fleet.control.run(run);
    assert_eq!(view["waiting_for"]["brokers"], serde_json::json!(["b0"]), "{view:#}");
    assert!(view["brokers"][0]["units"][0]["silent_ms"].as_u64().unwrap() >= 3000, "{view:#}");
    let (code, shown) = fleet.control.fleet(&format!("run show {run}"));
    assert!(code == 0 && shown.contains("waiting for   the end of the lease of b0; no report"), "{shown}");
    assert!(shown.contains("silent for"), "{shown}");
    fleet.wait_for_work(run, "b1");
    assert!(fleet.control.run(run)["waiting_for"].is_null());
    fleet.finish(run);
}

#[test]
fn a_stopped_broker_does_no_harm_when_it_wakes() {
    let mut fleet = SmallFleet::start(2, 2);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.broker("b0").signal(Signal::STOP);
    sleep(Duration::from_secs(4));
    fleet.control.wait_for_run(run, "the end of a lease", |view| entries_of(view, "b0") == 0);
    fleet.broker("b0").signal(Signal::CONT);
    wait_until("a refusal", SOON, || fleet.broker("b0").log().contains(LOST));
    fleet.wait_for_work(run, "b0");
    fleet.finish(run);
}

#[test]
fn a_broker_that_is_cut_off_does_no_harm_when_it_is_back() {
    let link = Link::up(LinkSettings::default()).unwrap();
    let mut fleet = SmallFleet::start(2, 1);
    let relay = relay(&link, fleet.nats_address());
    fleet.add_broker_by("far", link.near().command(HAKOBU), &format!("nats://{relay}"));
    fleet.control.wait_for_brokers(2);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "far");
    link.cut();
    sleep(Duration::from_secs(4));
    fleet.control.wait_for_run(run, "the end of a lease", |view| entries_of(view, "far") == 0);
    link.mend();
    wait_until("a refusal", SOON, || fleet.broker("far").log().contains(LOST));
    fleet.wait_for_work(run, "far");
    fleet.finish(run);
}

#[test]
fn nats_is_killed_and_its_streams_are_deleted() {
    let mut fleet = SmallFleet::start(5, 3);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.nats.kill();
    sleep(Duration::from_secs(2));
    fleet.nats.restart().unwrap();
    fleet.wait_for_work(run, "b1");
    assert!(delete_streams(fleet.nats_address()) > 0);
    fleet.wait_for_work(run, "b2");
    fleet.finish(run);
}

#[test]
fn brokers_go_on_while_the_control_plane_is_away() {
    let mut fleet = SmallFleet::start(30, 3);
    let run = fleet.start_slowly();
    for broker in ["b0", "b1", "b2"] {
        fleet.wait_for_work(run, broker);
    }
    fleet.control.limit("groups/site-b", Some(7));
    for away in [Duration::ZERO, Duration::from_secs(1)] {
        fleet.control.kill();
        sleep(away);
        fleet.control.restart();
        fleet.control.wait_for_brokers(3);
        for broker in ["b0", "b1", "b2"] {
            fleet.wait_for_work(run, broker);
        }
    }
    assert_eq!(fleet.control.limit_of_group("site-b"), 7);
    let view = fleet.finish(run);
    assert_eq!(count(&view, "entries_updated"), 0, "{view:#}");
    for broker in ["b0", "b1", "b2"] {
        assert!(!fleet.broker(broker).log().contains(LOST), "{}", fleet.broker(broker).log());
    }
}

#[test]
fn a_standby_with_another_key_file_does_not_wait() {
    let database = PostgresServer::start().unwrap();
    let fleet = SmallFleet::start_with(30, 0, &["--ledger", &database.url()]);
    // It makes a key in its own folder.
    let mut standby = fleet.control.start_standby(&fleet.path("standby"), &["--name", "standby"]);
    assert_eq!(standby.wait().code(), Some(6), "{}", standby.log());
    assert!(standby.log().contains("it was last led with the key"), "{}", standby.log());
}

#[test]
fn a_standby_leads_soon_after_the_leader_was_killed() {
    let database = PostgresServer::start().unwrap();
    let url = database.url();
    let mut fleet = SmallFleet::start_with(30, 2, &["--ledger", &url]);
    let key = fleet.path("control/key");
    let more = ["--name", "standby", "--key-file", key.to_str().unwrap()];
    let standby = fleet.control.start_standby(&fleet.path("standby"), &more);
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    fleet.wait_for_work(run, "b1");
    wait_until("the standby", SOON, || standby.log().contains("\" leads, and this one waits"));
    assert!(!standby.log().contains("no control plane is known to lead"), "{}", standby.log());
    fleet.control.kill();
    let killed = Instant::now();
    fleet.control.fail_over(standby);
    println!("it leads after {:?}", killed.elapsed());
    assert!(killed.elapsed() < Duration::from_secs(20), "{:?}", killed.elapsed());
    fleet.control.wait_for_brokers(2);
    let view = fleet.finish(run);
    assert_eq!(count(&view, "entries_updated"), 0, "{view:#}");
    for broker in ["b0", "b1"] {
        assert!(!fleet.broker(broker).log().contains(LOST), "{}", fleet.broker(broker).log());
    }
}
