//! Brokers that are killed, stopped or cut off in the middle of a run.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::nats::NatsConfiguration;
use hakobu_testkit::random::Random;
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::control_plane::operations;
use crate::processes::{HAKOBU, SOON, wait_until};
use crate::relay::relay;
use crate::small_fleet::{OPERATIONS, SmallFleet, entries_again, entries_of, lanes_of};

/// The words of a broker about a unit that others have.
pub const LOST: &str = "a unit is no longer this broker's";
/// The variable with the seed of moments, to play them again.
const SEED: &str = "HAKOBU_TEST_SEED";
/// The time between the end of a lease and the moment at which that is seen: the looks of the leader, of the broker that is idle,
/// and of the test, on a machine that is busy.
const LOOK: Duration = Duration::from_secs(2);
/// The time between two looks of the interface at the leader.
const SHOWN_AFTER_MS: usize = 1100;

/// Returns random numbers of a seed, which is shown.
fn random() -> Random {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = std::env::var(SEED).map_or(now, |seed| seed.parse().unwrap());
    println!("{SEED}={seed}");
    Random::new(seed)
}

fn pause(random: &mut Random, from_ms: usize, below_ms: usize) {
    sleep(Duration::from_millis((from_ms + random.below(below_ms - from_ms)) as u64));
}

#[test]
fn brokers_killed_at_random_moments_cost_the_work_of_their_units() {
    const KILLS: usize = 20;
    const LEASE: Duration = Duration::from_secs(5);
    let mut random = random();
    let mut fleet = SmallFleet::start(5, 3);
    let watch = fleet.watch_leases();
    let run = fleet.start_slowly();
    fleet.wait_for_work(run, "b0");
    let (mut kills, mut lost, mut begun) = (Vec::new(), Vec::new(), 0);
    let mut names = ["b0", "b1", "b2"].map(str::to_owned);
    for kill in 0..KILLS {
        let victim = &mut names[random.below(3)];
        fleet.broker(victim).kill();
        let killed = Instant::now();
        let successor = format!("b{}", kill + 3);
        fleet.add_broker(&successor);
        let victim = std::mem::replace(victim, successor);
        pause(&mut random, SHOWN_AFTER_MS, 2000);
        // Its last requests have arrived, and its leases go on.
        let had = watch.leases_of(&victim);
        if !had.is_empty() {
            // Those that it told of last, and those since then: it tells twice a second, and each takes two operations or more.
            begun += lanes_of(&fleet.control.run(run), &victim, "entries_done") + u64::from(OPERATIONS / 4);
        }
        kills.extend(had.iter().map(|lease| (killed, lease.clone())));
        lost.extend(had);
    }
    assert!(lost.len() >= KILLS / 2, "few of those that were killed had a unit: {lost:?}");
    for (killed, lease) in &kills {
        wait_until("the end of a lease", SOON, || watch.returned_at(lease).is_some());
        let after = watch.returned_at(lease).unwrap().saturating_duration_since(*killed);
        assert!(after <= LEASE + LOOK, "unit {} was offered again after {after:?}", lease.unit);
    }
    let view = fleet.finish_after(run, &watch, &lost);
    let again = entries_again(&view);
    println!("{again} entries again of at most {begun}");
    assert!(again <= begun, "{again} entries again, of at most {begun}: {view:#}");
}

#[test]
fn a_unit_of_a_killed_broker_is_given_to_another_when_its_lease_ends() {
    const LEASE: Duration = Duration::from_secs(3);
    let mut random = random();
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 3, 3, &[]);
    // One file is too small to be divided: one broker has a unit, and the others are idle.
    fs::create_dir(fleet.source()).unwrap();
    let bytes: Vec<u8> =
        (0..80_000_000_u32).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(fleet.source().join("file"), bytes).unwrap();
    let watch = fleet.watch_leases();
    let run = fleet.start_within(&json!({ "version": 1, "bytes_per_second": 1_000_000 }));
    let mut lost = Vec::new();
    for kill in 0..5 {
        watch.wait_for_lease();
        pause(&mut random, 0, 1500);
        let lease = watch.wait_for_lease();
        let victim = lease.broker.clone().unwrap();
        fleet.broker(&victim).kill();
        let killed = Instant::now();
        fleet.add_broker(&format!("b{}", kill + 3));
        let (leased, next) = watch.wait_for_next_lease(&lease);
        let after = leased.saturating_duration_since(killed);
        println!("another broker has the unit after {after:?}");
        assert!(after <= LEASE + LOOK, "{after:?}");
        assert_ne!(next.and_then(|next| next.broker), Some(victim));
        lost.push(lease);
    }
    fleet.finish_after(run, &watch, &lost);
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

/// Cuts a broker off for so long, and lets it come back.
fn cut_off(lease_seconds: u32, away: Duration, operations_per_second: u32) {
    if no_root() {
        return;
    }
    let link = Link::up(LinkSettings::default()).unwrap();
    let mut fleet = SmallFleet::start(lease_seconds, 1);
    let watch = fleet.watch_leases();
    let relay = relay(&link, fleet.nats_address());
    fleet.add_broker_by("far", link.near().command(HAKOBU), &format!("nats://{relay}"));
    fleet.control.wait_for_brokers(2);
    let run = fleet.start_within(&operations(Some(operations_per_second)));
    fleet.wait_for_work(run, "far");
    link.cut();
    assert!(!watch.leases_of("far").is_empty());
    sleep(away);
    fleet.control.wait_for_run(run, "the end of a lease", |view| entries_of(view, "far") == 0);
    assert!(watch.leases_of("far").is_empty());
    link.mend();
    wait_until("a refusal", SOON, || fleet.broker("far").log().contains(LOST));
    fleet.wait_for_work(run, "far");
    // A request for another unit may have been on its way, and arrives now: that lease is over for its broker at once.
    fleet.finish_after(run, &watch, &watch.all_leases_of("far"));
}

#[test]
fn a_broker_that_is_cut_off_does_no_harm_when_it_is_back() {
    cut_off(2, Duration::from_secs(4), OPERATIONS);
}

/// The lease is the usual one. The run is so slow that it lasts.
#[test]
#[ignore = "takes more than five minutes"]
fn long_a_broker_that_is_cut_off_for_five_minutes_does_no_harm_when_it_is_back() {
    cut_off(30, Duration::from_secs(300), OPERATIONS / 10);
}
