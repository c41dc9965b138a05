//! Control planes that are killed, and databases that are restarted, in the middle of a run.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_testkit::postgres::PostgresServer;
use serde_json::Value;

use crate::faults::LOST;
use crate::lease_watch::LeaseWatch;
use crate::logs_and_health::ask;
use crate::processes::{SOON, wait_until};
use crate::small_fleet::{OPERATIONS, SmallFleet, count, entries_of};

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
fn what_was_done_before_a_restart_is_not_in_the_rate() {
    let mut fleet = SmallFleet::start(30, 1);
    let run = fleet.start_slowly();
    let entries = |view: &Value| entries_of(view, "b0");
    fleet.control.wait_for_run(run, "much that is done", |view| entries(view) > 600);
    fleet.control.restart();
    fleet.control.wait_for_run(run, "a report", |view| entries(view) > 600);
    for _ in 0..30 {
        let rate = fleet.control.run(run)["progress"]["entries_per_second"].as_u64().unwrap();
        assert!(rate < u64::from(OPERATIONS), "{rate} entries a second");
        sleep(Duration::from_millis(100));
    }
    fleet.finish(run);
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

/// Asks a control plane whose connection ends with the answer. Returns the status, and what it says.
fn asked(fleet: &SmallFleet, path: &str) -> (u16, Value) {
    let began = Instant::now();
    let (status, body) = ask(fleet.control.address(), path);
    assert!(began.elapsed() < Duration::from_secs(5), "{path} took {:?}", began.elapsed());
    (status, serde_json::from_str(&body).unwrap_or(Value::Null))
}

#[test]
fn a_database_that_is_away_for_long_is_told_by_whoever_is_asked() {
    let database = Arc::new(PostgresServer::start().unwrap());
    let fleet = SmallFleet::start_with(30, 1, &["--ledger", &database.url()]);
    let watch = LeaseWatch::of_database(database.clone());
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    let token = fleet.control.log();
    database.crash();
    wait_until("the end of the lead", SOON, || {
        asked(&fleet, "/healthz").0 == 200 && asked(&fleet, "/readyz").1["status"] == "standby"
    });
    // It answers for as long as the database is away.
    for _ in 0..40 {
        assert_eq!(asked(&fleet, "/healthz").0, 200);
        let (status, ready) = asked(&fleet, "/readyz");
        assert!(status == 503 && ready["ledger_down_since_ms"].is_u64(), "{ready}");
        let (status, refused) = asked(&fleet, "/api/v1/status");
        assert_eq!((status, &refused["kind"]), (503, &"ledger_down".into()), "{refused}");
        sleep(Duration::from_millis(200));
    }
    let (code, said) = fleet.control.fleet("status");
    assert!(code == 1 && said.contains("the ledger does not answer") && said.contains("hint: "), "{said}");
    let told = fleet.control.log()[token.len()..].to_owned();
    assert!(told.contains("this control plane does not lead any more"), "{told}");
    assert!(told.contains("PostgreSQL") || told.contains("postgres"), "{told}");
    database.resume().unwrap();
    wait_until("the lead", Duration::from_secs(60), || asked(&fleet, "/readyz").0 == 200);
    fleet.control.wait_for_brokers(1);
    fleet.finish_after(run, &watch, &[]);
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
    wait_until("the standby", SOON, || standby.log().contains("\" leads, and this one waits at http://"));
    // A client that never sends the rest of its request keeps it from nothing.
    let log = standby.log();
    let address = log.rsplit_once("waits at http://").and_then(|(_, rest)| rest.lines().next()).unwrap();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"GET /readyz HTTP/1.1\r\nHost: loc").unwrap();
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
