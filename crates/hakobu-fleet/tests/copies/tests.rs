use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_request::{FleetRequest, LocationText};

use crate::fleet::Fleet;
use crate::trees;

const LIMIT: Duration = Duration::from_secs(120);

fn request(source: &Path, target: &Path) -> FleetRequest {
    let text = |path: &Path| LocationText(path.as_os_str().as_bytes().to_vec());
    let mut source = text(source);
    source.0.push(b'/');
    FleetRequest { sources: vec![source], target: text(target), ..FleetRequest::default() }
}

#[test]
fn brokers_copy_a_tree_together() {
    for brokers in [1, 3] {
        let folder = tempfile::tempdir().unwrap();
        let (source, target) = (folder.path().join("source"), folder.path().join("target"));
        fs::create_dir(&source).unwrap();
        trees::make(&source, 60, 40);
        let mut fleet = Fleet::new(Box::new(MemoryLedger::default()), Duration::from_secs(10));
        (0..brokers).for_each(|broker| fleet.add_broker(&format!("b{broker}")));
        let run = fleet.start(&request(&source, &target));
        let row = fleet.finish(run, LIMIT);
        println!("{brokers} brokers: {:?} {} ms", row.units, row.ended.unwrap().get() - row.started.get());
        assert_eq!((row.outcome, row.failures), (Some(RunOutcome::Complete), 0));
        trees::assert_equal(&source, &target);
        // Again: nothing is written.
        let run = fleet.start(&request(&source, &target));
        let row = fleet.finish(run, LIMIT);
        println!("{brokers} brokers: {:?} {} ms", row.units, row.ended.unwrap().get() - row.started.get());
        assert_eq!(row.counters.target_written_bytes, 0, "{row:?}");
        assert_eq!(row.outcome, Some(RunOutcome::Complete));
    }
}
