//! A large file that several brokers copy, one of which is killed.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use hakobu_testkit::nats::NatsConfiguration;
use serde_json::Value;

use crate::processes::{SOON, wait_until};
use crate::small_fleet::SmallFleet;

const MIB: u64 = 1 << 20;
/// The size of the file: large enough to be divided.
const SIZE_BYTES: u64 = 2600 * MIB + 4321;
/// The bytes of each piece of data, and the distance between two.
const DATA_BYTES: u64 = 4 * MIB;
const DATA_EVERY: u64 = 40 * MIB;

/// Makes a file with data and holes.
fn make(path: &Path) {
    let file = File::create(path).unwrap();
    file.set_len(SIZE_BYTES).unwrap();
    for at in (0..SIZE_BYTES - DATA_BYTES).step_by(DATA_EVERY as usize) {
        let bytes: Vec<u8> = (0..DATA_BYTES).map(|byte| (byte * 31 + byte / 509 + at / MIB) as u8).collect();
        file.write_all_at(&bytes, at).unwrap();
    }
    file.write_all_at(b"the end", SIZE_BYTES - 7).unwrap();
}

/// Returns the bytes that a broker has read in the units that it works on.
fn bytes_of(view: &Value, broker: &str) -> u64 {
    let brokers = view["brokers"].as_array().unwrap();
    let units = brokers.iter().filter(|other| other["broker"] == broker);
    let units = units.flat_map(|broker| broker["units"].as_array().unwrap());
    units.map(|unit| unit["bytes_done"].as_u64().unwrap()).sum()
}

#[test]
fn brokers_copy_one_large_file_and_a_killed_one_costs_its_range() {
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 3, 3, &[]);
    fs::create_dir(fleet.source()).unwrap();
    make(&fleet.source().join("large"));
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
