//! A ledger in a file: versions, locks, backups, and disks that are full.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hakobu_core::error::ErrorKind;
use hakobu_fleet::change::{LedgerAnswer, LedgerChange, LedgerRefusal, UnitResult};
use hakobu_fleet::ids::RunId;
use hakobu_fleet::ledger::Ledger;
use hakobu_fleet::ledger::sqlite::backup::{back_up_file, restore};
use hakobu_fleet::ledger::sqlite::{SCHEMA_VERSION, SqliteLedger};
use hakobu_fleet::transition::UnitRefusal;
use hakobu_testkit::slow_fs::SlowFs;
use rusqlite::Connection;

use crate::samples::*;

/// Returns the tables and indexes, with what made them.
pub fn schema(connection: &Connection) -> Vec<(String, String)> {
    let mut statement = connection
        .prepare(
            "SELECT name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite%' ORDER BY name",
        )
        .unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_ledger_of_a_newer_version_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    drop(SqliteLedger::open(&file).unwrap());
    let newer = SCHEMA_VERSION + 1;
    let connection = Connection::open(&file).unwrap();
    connection.execute_batch(&format!("PRAGMA user_version = {newer}; CREATE TABLE later (x);")).unwrap();
    let before = schema(&connection);
    let error = SqliteLedger::open(&file).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    let words = error.to_string();
    for part in [&format!("version is {newer}"), &format!("versions up to {SCHEMA_VERSION}"), "ledger.db"] {
        assert!(words.contains(part), "{words}");
    }
    assert_eq!(schema(&connection), before);
    let backup = directory.path().join("copy.db");
    assert_eq!(restore(&file, &backup, moment(1)).unwrap_err().kind, ErrorKind::Unsupported);
    assert!(!backup.exists());
}

#[test]
fn other_files_are_not_taken_for_a_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("other.db");
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    assert_eq!(SqliteLedger::open(&file).unwrap_err().kind, ErrorKind::Usage);
    let text = directory.path().join("text");
    fs::write(&text, "no database at all, but long enough to be read as the beginning of one".repeat(9))
        .unwrap();
    let error = SqliteLedger::open(&text).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    let nowhere = directory.path().join("none/ledger.db");
    assert_eq!(SqliteLedger::open(&nowhere).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn one_process_at_a_time_has_a_ledger() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    let ledger = SqliteLedger::open(&file).unwrap();
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let error = SqliteLedger::open(&file).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Locked);
    assert!(error.to_string().contains("ledger.db"), "{error}");
    drop(ledger);
    SqliteLedger::open(&file).unwrap();
}

#[test]
fn a_backup_is_written_in_use_and_restored() {
    let directory = tempfile::tempdir().unwrap();
    let [file, copy, other, restored] =
        ["ledger.db", "copy", "other", "restored.db"].map(|name| directory.path().join(name));
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let run = start(&mut ledger, vec![work(&["a"]), work(&["b"])]);
    let keys: Vec<_> = ledger.ready_units(run, None, 9).unwrap().iter().map(|unit| unit.key).collect();
    let leased = lease(&mut ledger, keys[0], "one", 0);
    let limit = LedgerChange::LimitEndpoint(b"nas:".to_vec(), Some("{}".to_owned()));
    assert_eq!(apply(&mut ledger, limit), LedgerAnswer::Done);
    ledger.back_up(&copy).unwrap();
    back_up_file(&file, &other).unwrap();
    assert_eq!(ledger.back_up(&copy).unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o600);
    // The time after the backup, which is lost.
    let later = lease(&mut ledger, keys[1], "one", 0);
    drop(ledger);

    for (backup, to) in [(&copy, &restored), (&other, &directory.path().join("again.db"))] {
        restore(backup, to, moment(1_700_000_000_000)).unwrap();
        let mut ledger = SqliteLedger::open(to).unwrap();
        ledger.check_integrity().unwrap();
        assert_eq!(ledger.endpoint_limits().unwrap(), [(b"nas:".to_vec(), "{}".to_owned())]);
        let ready = ledger.ready_units(run, None, 9).unwrap();
        assert_eq!(ready.iter().map(|unit| unit.key).collect::<Vec<_>>(), keys);
        assert!(ready.iter().all(|unit| unit.state.epoch.get() >= 1_700_000_000_000));
        for (key, epoch) in [(keys[0], leased.epoch), (keys[1], later.epoch)] {
            let commit = commit_change(key, "one", epoch, UnitResult::default());
            let stale = LedgerAnswer::Refused(LedgerRefusal::Unit(UnitRefusal::StaleEpoch));
            assert_eq!(apply(&mut ledger, commit), stale);
        }
        // New units have epochs above all that were given in the lost time.
        let next = start(&mut ledger, vec![work(&["c"])]);
        let unit = &ledger.ready_units(next, None, 1).unwrap()[0];
        assert!(unit.state.epoch.get() >= 1_700_000_000_000);
        assert_eq!(restore(backup, to, moment(1)).unwrap_err().kind, ErrorKind::Locked);
    }
    let error = restore(&copy, &restored, moment(1)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Conflict, "{error}");
    let missing =
        restore(&directory.path().join("none"), &directory.path().join("x.db"), moment(1)).unwrap_err();
    assert_eq!(missing.kind, ErrorKind::NotFound);
    let left: Vec<_> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("partial")), "{left:?}");
}

/// A small file system, unmounted when dropped.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new(bytes: u64) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "none"])
            .arg(directory.path())
            .status();
        assert!(mount.unwrap().success());
        Self(directory)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Commits until the disk is full. Returns the number of units that were committed.
fn fill(ledger: &mut dyn Ledger, run: RunId) -> (u64, hakobu_core::Error) {
    let mut committed = 0;
    loop {
        let names = (0..200).map(|name| link_name(committed, &format!("a/{name:0200}"))).collect();
        let key = ledger.ready_units(run, None, 1).unwrap()[0].key;
        let unit = ledger.unit(key).unwrap().unwrap();
        let lease = lease_change(key, "one", unit.state.epoch.get(), 0, 10);
        let epoch = unit.state.epoch.next().unwrap();
        let result = UnitResult { children: vec![work(&["a"])], link_names: names, ..Default::default() };
        match ledger.apply(&[lease, commit_change(key, "one", epoch, result)]) {
            Ok(answers) => assert_eq!(answers[1], LedgerAnswer::Committed),
            Err(error) => return (committed, error),
        }
        committed += 1;
        assert!(committed < 100_000, "it is never full");
    }
}

#[test]
fn a_full_disk_is_an_error_with_a_remedy_and_loses_nothing() {
    if std::env::var_os("HAKOBU_NO_ROOT").is_some() {
        return;
    }
    let disk = SmallDisk::new(6 << 20);
    let ballast = disk.path().join("ballast");
    fs::write(&ballast, vec![1; 2 << 20]).unwrap();
    let file = disk.path().join("ledger.db");
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let run = start(&mut ledger, vec![work(&["a"])]);
    let (committed, error) = fill(&mut ledger, run);
    assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
    let words = error.to_string();
    assert!(words.contains("ledger.db") && words.contains("make space"), "{words}");
    assert!(committed > 10, "{committed}");
    // It still answers, and goes on as soon as there is space.
    assert_eq!(ledger.run(run).unwrap().unwrap().units.committed, committed);
    fs::remove_file(&ballast).unwrap();
    let (more, error) = fill(&mut ledger, run);
    assert!(more > 0 && error.kind == ErrorKind::NoSpace, "{more} {error}");
    // A backup that does not fit leaves nothing behind.
    assert_eq!(ledger.back_up(&disk.path().join("backup")).unwrap_err().kind, ErrorKind::NoSpace);
    assert_eq!(fs::read_dir(disk.path()).unwrap().flatten().filter(is_draft).count(), 0);
    drop(ledger);
    let backup = tempfile::tempdir().unwrap();
    back_up_file(&file, &backup.path().join("backup")).unwrap();
    let mut ledger = SqliteLedger::open(&backup.path().join("backup")).unwrap();
    ledger.check_integrity().unwrap();
    let units = ledger.run(run).unwrap().unwrap().units;
    assert_eq!((units.committed, units.open()), (committed + more, 1));
}

fn is_draft(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_string_lossy().contains("partial")
}

#[test]
fn a_damaged_ledger_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ledger.db");
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let run = start(&mut ledger, vec![work(&["a"])]);
    drop(ledger);
    let connection = Connection::open(&file).unwrap();
    connection.execute("UPDATE unit_work SET work = x'ff'", []).unwrap();
    connection.execute("UPDATE unit SET attempts = -1", []).unwrap();
    drop(connection);
    let mut ledger = SqliteLedger::open(&file).unwrap();
    let error = ledger.ready_units(run, None, 1).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Corrupt, "{error}");
    assert_eq!(ledger.work(key(run, 1)).unwrap_err().kind, ErrorKind::Corrupt);
    let change: LedgerChange = lease_change(key(run, 1), "one", 0, 0, 9);
    assert_eq!(ledger.apply(&[change]).unwrap_err().kind, ErrorKind::Corrupt);
}

#[test]
fn a_disk_that_other_machines_may_share_is_refused() {
    if std::env::var_os("HAKOBU_NO_ROOT").is_some() {
        return;
    }
    let (backing, mounted) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let _slow = SlowFs::mount(mounted.path(), backing.path(), Duration::ZERO).unwrap();
    let file = mounted.path().join("ledger.db");
    let linked = tempfile::tempdir().unwrap();
    let link = linked.path().join("ledger.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::write(&file, "").unwrap();
    for path in [&file, &link, &mounted.path().join("new.db")] {
        let error = SqliteLedger::open(path).unwrap_err();
        let words = error.to_string();
        assert!(
            error.kind == ErrorKind::Unsupported && words.contains("FUSE") && words.contains("postgres://"),
            "{words}"
        );
    }
    assert_eq!(fs::read_dir(backing.path()).unwrap().count(), 1, "not even a lock is left");
}
