//! Control planes that are killed, and databases that are restarted, in the middle of a run.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_testkit::postgres::PostgresServer;

use crate::faults::LOST;
use crate::lease_watch::LeaseWatch;
use crate::processes::{SOON, wait_until};
use crate::small_fleet::{SmallFleet, count};

/// The time within which another control plane leads.
const TAKEOVER_LIMIT: Duration = Duration::from_secs(10);

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
fn postgresql_is_restarted_while_brokers_work() {
    let database = Arc::new(PostgresServer::start().unwrap());
    let mut fleet = SmallFleet::start_with(30, 3, &["--ledger", &database.url()]);
    let watch = LeaseWatch::of_database(database.clone());
    let run = fleet.start_slowly();
    let brokers = ["b0", "b1", "b2"];
    brokers.iter().for_each(|broker| fleet.wait_for_work(run, broker));
    // The last time is longer than a leader may be silent.
    for (crashes, away) in [(false, 1), (true, 1), (true, 7)] {
        if crashes {
            database.crash();
        } else {
            database.stop();
        }
        sleep(Duration::from_secs(away));
        database.resume().unwrap();
        fleet.control.wait_until_ready();
        brokers.iter().for_each(|broker| fleet.wait_for_work(run, broker));
    }
    assert!(!watch.leases().is_empty());
    fleet.finish_after(run, &watch, &[]);
    for broker in brokers {
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
    let database = Arc::new(PostgresServer::start().unwrap());
    let url = database.url();
    let mut fleet = SmallFleet::start_with(30, 2, &["--ledger", &url]);
    let watch = LeaseWatch::of_database(database.clone());
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
    assert!(killed.elapsed() < TAKEOVER_LIMIT, "{:?}", killed.elapsed());
    fleet.control.wait_for_brokers(2);
    fleet.finish_after(run, &watch, &[]);
    for broker in ["b0", "b1"] {
        assert!(!fleet.broker(broker).log().contains(LOST), "{}", fleet.broker(broker).log());
    }
}
