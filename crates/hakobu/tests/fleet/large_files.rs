//! A large file that several brokers copy, some of which are killed or stopped.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use hakobu_testkit::nats::NatsConfiguration;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::faults::LOST;
use crate::lease_watch::{LeaseWatch, SeenLease};
use crate::processes::{SOON, wait_until};
use crate::small_fleet::{GROUP, SmallFleet, lanes_of};
use crate::trees;

const MIB: u64 = 1 << 20;
/// The size of the file: large enough to be divided.
const SIZE_BYTES: u64 = 2600 * MIB + 4321;
/// The bytes of each piece of data, and the distance between two.
const DATA_BYTES: u64 = 4 * MIB;
const DATA_EVERY: u64 = 40 * MIB;

/// Makes a file of holes and data: so many bytes of it at each such distance.
fn make(path: &Path, size_bytes: u64, (data_bytes, data_every): (u64, u64)) {
    let file = File::create(path).unwrap();
    file.set_len(size_bytes).unwrap();
    for at in (0..size_bytes - data_bytes).step_by(data_every as usize) {
        let bytes: Vec<u8> = (0..data_bytes).map(|byte| (byte * 31 + byte / 509 + at / MIB) as u8).collect();
        file.write_all_at(&bytes, at).unwrap();
    }
    file.write_all_at(b"the end", size_bytes - 7).unwrap();
}

/// Returns the bytes that a broker has read in the units that it works on.
fn bytes_of(view: &Value, broker: &str) -> u64 {
    lanes_of(view, broker, "bytes_done")
}

#[test]
fn brokers_copy_one_large_file_and_a_killed_one_costs_its_range() {
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 3, 3, &[]);
    fs::create_dir(fleet.source()).unwrap();
    make(&fleet.source().join("large"), SIZE_BYTES, (DATA_BYTES, DATA_EVERY));
    let run = fleet.start_slowly();
    for broker in ["b0", "b1", "b2"] {
        wait_until("work of a broker", SOON, || bytes_of(&fleet.control.run(run), broker) > 0);
    }
    let view = fleet.control.run(run);
    assert!(!fleet.target().join("large").exists(), "it is not complete: {view:#}");
    fleet.broker("b1").kill();
    fleet.add_broker("b3");
    let view = fleet.finish(run);
    assert!(view["units"]["committed"].as_u64().unwrap() >= 8, "{view:#}");
    assert_eq!(view["counters"]["entries_updated"], 0, "{view:#}");
    // Each range counts once, whoever has begun it.
    let data_bytes = SIZE_BYTES / DATA_EVERY * DATA_BYTES + MIB;
    let read_bytes = view["counters"]["source_read_bytes"].as_u64().unwrap();
    assert!(read_bytes <= data_bytes + 2 * DATA_BYTES, "{read_bytes} of {data_bytes}: {view:#}");
    let blocks = |root: &Path| fs::metadata(root.join("large")).unwrap().blocks();
    assert!(blocks(&fleet.target()) <= blocks(&fleet.source()) + 64, "holes are kept");
    assert_eq!(fs::read_dir(fleet.target()).unwrap().count(), 1, "no draft is left");
}

/// Stops a broker in the middle of a range of the file. Returns its lease.
fn stop_in_a_range(fleet: &mut SmallFleet, watch: &LeaseWatch, broker: &str) -> SeenLease {
    // The first unit met the file, and gave it away.
    let range = || watch.leases_of(broker).into_iter().find(|lease| lease.unit > 1);
    for _try in 0..20 {
        let mut lease = None;
        wait_until("a range of a broker", SOON, || {
            lease = range();
            lease.is_some()
        });
        sleep(Duration::from_millis(300));
        fleet.broker(broker).signal(Signal::STOP);
        // A commit that was on its way has arrived.
        sleep(Duration::from_millis(300));
        if range() == lease {
            return lease.unwrap();
        }
        fleet.broker(broker).signal(Signal::CONT);
    }
    panic!("{broker} ends each range at the moment at which it is stopped");
}

/// Fails if the content of the large file is another than the source's.
fn assert_equal_content(fleet: &SmallFleet) {
    let [source, target] =
        [fleet.source(), fleet.target()].map(|root| File::open(root.join("large")).unwrap());
    let size_bytes = source.metadata().unwrap().len();
    assert_eq!(target.metadata().unwrap().len(), size_bytes);
    let (mut expected, mut found) = (vec![0; MIB as usize], vec![0; MIB as usize]);
    for at in (0..size_bytes).step_by(MIB as usize) {
        let length = MIB.min(size_bytes - at) as usize;
        source.read_exact_at(&mut expected[..length], at).unwrap();
        target.read_exact_at(&mut found[..length], at).unwrap();
        assert!(expected[..length] == found[..length], "the MiB at {at} is another");
    }
}

#[test]
fn brokers_stopped_in_a_range_do_no_harm_to_a_file_that_is_complete_when_they_wake() {
    const TWO_LEASES: Duration = Duration::from_secs(6);
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 3, 4, &[]);
    let watch = fleet.watch_leases();
    fs::create_dir(fleet.source()).unwrap();
    make(&fleet.source().join("large"), 1300 * MIB, (MIB / 4, MIB));
    let run = fleet.start_within(&json!({ "version": 1, "bytes_per_second": 40_000_000 }));
    let zombies = ["b1", "b2"];
    let lost = zombies.map(|broker| stop_in_a_range(&mut fleet, &watch, broker));
    let stopped = Instant::now();
    let view = fleet.finish_after(run, &watch, &lost);
    for lease in &lost {
        assert_eq!(watch.returned().get(&lease.unit), Some(&1), "others had the range: {lease:?}");
    }
    let before = fs::metadata(fleet.target().join("large")).unwrap();
    sleep(TWO_LEASES.saturating_sub(stopped.elapsed()));
    for broker in zombies {
        assert!(!fleet.broker(broker).log().contains(LOST), "{broker} is awake");
        fleet.broker(broker).signal(Signal::CONT);
    }
    for broker in zombies {
        wait_until("a refusal", SOON, || fleet.broker(broker).log().contains(LOST));
    }
    // They take up work again, so what they did before is over.
    fleet.control.wait_for_brokers(4);
    sleep(Duration::from_secs(1));
    let after = fs::metadata(fleet.target().join("large")).unwrap();
    assert_eq!(after.ino(), before.ino());
    println!("a late write came: {}", after.mtime_nsec() != before.mtime_nsec());
    assert_equal_content(&fleet);
    assert_eq!(fs::read_dir(fleet.target()).unwrap().count(), 1, "no draft is left");
    let now = fleet.control.run(run);
    assert_eq!((&now["counters"], &now["units"]), (&view["counters"], &view["units"]), "a result is refused");
    // The next run puts the time right if a late write has changed it.
    let again = fleet.control.copy(GROUP, &fleet.source(), &fleet.target());
    let again = fleet.control.finish(again, SOON);
    assert_eq!((&again["state"], &again["failures"]), (&json!("complete"), &json!(0)), "{again:#}");
    trees::assert_equal(&fleet.source(), &fleet.target());
}
