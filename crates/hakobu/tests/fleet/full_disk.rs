//! A disk that is full under the ledger: everybody is told, until there is space again.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::sshd::no_root;
use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;
use crate::logs_and_health::{ask, ask_json};
use crate::processes::{SOON, wait_until};

/// A small file system, which is unmounted at the end.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, bytes: u64) -> Self {
        fs::create_dir_all(at).unwrap();
        let size = format!("mode=700,size={bytes}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(at).status();
        assert!(mounted.unwrap().success(), "mounting needs root");
        Self(at.to_owned())
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }

    /// Leaves no space.
    fn fill(&self) {
        let mut file = File::create(self.filler()).unwrap();
        while file.write_all(&[7; 4096]).is_ok() {}
    }

    fn make_space(&self) {
        fs::remove_file(self.filler()).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _has_ended = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_under_the_ledger_is_told_until_there_is_space() {
    if no_root() {
        return;
    }
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let folder = place.path().join("control");
    let disk = SmallDisk::mount(&folder, 4 << 20);
    let control = TestControlPlane::start(&folder, &[]);
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    fs::create_dir(&source).unwrap();
    (0..300).for_each(|number| fs::write(source.join(format!("f{number}")), "content").unwrap());
    assert_eq!(control.fleet("status"), (0, "everything works\n".to_owned()));
    control.limit("groups/local", Some(60));
    let run = control.copy("local", &source, &target);
    control.wait_for_run(run, "files", |view| view["figures"]["entries_done"].as_u64().unwrap() > 10);

    disk.fill();
    wait_until("the trouble", SOON, || !control.troubles().is_empty());
    let seen = control.troubles();
    assert_eq!((seen.len(), &seen[0]["kind"]), (1, &"ledger".into()), "{seen:?}");
    assert_eq!(seen[0]["problem"]["kind"], "no_space", "{seen:?}");
    let (code, said) = control.fleet("status");
    assert!(code == 1 && said.starts_with("the ledger does not work since 20"), "{said}");
    for words in
        [": writing the ledger ", "database or disk is full", "\nhint: make space in its file system"]
    {
        assert!(said.contains(words), "{said}");
    }
    for line in ["run list", "relationships list", "brokers list", &format!("run show {run}")] {
        let (code, said) = control.fleet(line);
        assert!(code == 0 && said.contains("warning: the ledger does not work since 20"), "{line}: {said}");
    }
    let (code, said) = control.fleet("status --json");
    let status: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &status["troubles"][0]["since_ms"]), (1, &seen[0]["since_ms"]), "{said}");
    let (code, said) = control.fleet("tokens add other --role viewer");
    assert!(code == 1 && said.contains("database or disk is full"), "{said}");
    // The words are for those who are signed in.
    let ready = ask_json(control.address(), "/readyz");
    assert_eq!(ready, (503, serde_json::json!({"is_ready": false, "error": "no_space"})));
    assert_eq!(ask(control.address(), "/healthz"), (200, "ok\n".to_owned()));
    // It stays, although nobody asks for anything.
    std::thread::sleep(Duration::from_secs(5));
    assert_eq!(control.troubles()[0]["since_ms"], seen[0]["since_ms"]);

    disk.make_space();
    wait_until("readiness", SOON, || ask(control.address(), "/readyz").0 == 200);
    wait_until("the end of the trouble", SOON, || control.troubles().is_empty());
    assert_eq!(control.fleet("status"), (0, "everything works\n".to_owned()));
    let (code, said) = control.fleet("run list");
    assert!(code == 0 && !said.contains("warning"), "{said}");
    control.limit("groups/local", None);
    let view = control.finish(run, SOON);
    assert_eq!(
        (&view["state"], &view["figures"]["entries_done"]),
        (&"complete".into(), &301.into()),
        "{view:#}"
    );
    assert_eq!(fs::read_dir(&target).unwrap().count(), 300);
}

#[test]
fn a_first_start_on_a_full_disk_does_not_harm_the_next_one() {
    if no_root() {
        return;
    }
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let folder = place.path().join("control");
    let disk = SmallDisk::mount(&folder, 4 << 20);
    disk.fill();
    let mut start = Command::new("timeout");
    start.args(["60", env!("CARGO_BIN_EXE_hakobu"), "serve", "--listen", "127.0.0.1:0", "--data"]);
    let failed = start.arg(&folder).output().unwrap();
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(failed.status.code() != Some(124) && said.to_lowercase().contains("no space left"), "{said}");
    disk.make_space();
    let control = TestControlPlane::start(&folder, &[]);
    assert_eq!(control.fleet("status"), (0, "everything works\n".to_owned()));
}
