//! `hakobu probe` with a disk as target: the disk is only read, unless `--confirm` names it. Then its own content is
//! written back.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::*;
use crate::program::*;

fn probe(host: Option<&Host>) -> Command {
    let mut command = Command::new(HAKOBU);
    command.args(["probe", "--json"]).env_remove("HAKOBU_SSH").env("LC_ALL", "C").stdin(Stdio::null());
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command
}

/// Runs a probe, which has to end with this exit code. Returns its JSON, if there is any, and its standard error.
#[track_caller]
fn run(command: &mut Command, code: i32) -> (Value, String) {
    let output = command.output().unwrap();
    let (out, err) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(code), "{out}{err}");
    (serde_json::from_str(&out).unwrap_or_default(), err)
}

/// Returns the number of bytes that were written to a disk, from the kernel's counter.
fn written_bytes(disk: &Path) -> u64 {
    let name = disk.file_name().unwrap().to_str().unwrap();
    let stat = fs::read_to_string(format!("/sys/class/block/{name}/stat")).unwrap();
    stat.split_ascii_whitespace().nth(6).unwrap().parse::<u64>().unwrap() * 512
}

#[test]
fn a_disk_that_is_named_keeps_what_it_holds() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    // The size is no multiple of pieces or pages.
    let held = content(5 * MIB + 4096 + 512, 7);
    for (far, sector_bytes) in [(false, 512), (true, 512)] {
        let disk = Disk::with(place.path(), &format!("disk {far}"), &held, sector_bytes);
        let target = if far { host.at(&disk.path) } else { disk.as_typed() };
        let host = far.then_some(&host);
        let before = written_bytes(&disk.path);
        let (found, err) = run(probe(host).arg("--gentle").arg(&target), 0);
        let announced = if far { "(a disk is only read)" } else { "a disk, which is not written to without" };
        assert!(err.contains(announced), "{err}");
        assert_eq!((&found["target_figures"]["how"], written_bytes(&disk.path)), (&"device".into(), before));
        assert_eq!(found["prediction"]["unknown"], serde_json::json!(["target write"]), "{found:#}");
        let (found, err) = run(probe(host).args(["--gentle", "--confirm", &disk.id()]).arg(&target), 0);
        let figures = &found["target_figures"];
        assert_eq!(figures["how"], "written_back", "{found:#}");
        assert!(figures["bytes_per_second"].as_u64() > Some(0), "{found:#}");
        assert!(figures["latency_seconds"].as_f64() > Some(0.0), "{found:#}");
        assert_eq!(found["prediction"]["unknown"], serde_json::json!([]), "{found:#}");
        assert!(err.contains("holds back to where it is"), "{err}");
        assert!(written_bytes(&disk.path) >= before + 5 * MIB);
        assert_bytes(&disk.bytes(), &held);
        assert!(disk.remembered().is_empty());
    }
    host.wait_for_no_agent();
}

#[test]
fn what_speaks_against_a_disk_is_said_and_the_rest_is_measured() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let mounted = Mounted::of_size(place.path(), "ext4", 32 * MIB);
    let device = mounted.disk.as_ref().unwrap();
    let disk = Disk::full_of(place.path(), "disk", 0xaa, 6 * MIB, 512);
    let image = place.path().join("image");
    fs::write(&image, vec![0x55; 7 * MIB as usize]).unwrap();
    let seen = |places: &[&OsStr], words: Option<&str>| {
        let (found, err) = run(probe(Some(&host)).arg("--gentle").args(places), 0);
        let obstacle = &found["obstacle"];
        match words {
            Some(words) => {
                assert_eq!(
                    (&obstacle["kind"], &obstacle["certain"]),
                    (&"refused".into(), &true.into()),
                    "{err}"
                );
                assert!(obstacle["error"].as_str().unwrap().contains(words), "{obstacle:#}");
            }
            None => assert!(obstacle.is_null(), "{obstacle:#}"),
        }
        assert_eq!(found["target_figures"]["how"], "device", "{found:#}");
    };
    for far in [false, true] {
        let at = |path: &Path| if far { host.at(path) } else { path.as_os_str().to_owned() };
        seen(&[&at(&device.path)], Some("is mounted"));
        // The content of the disk is no obstacle, because a copy asks before it overwrites it.
        seen(&[&at(&disk.path)], None);
        seen(&[image.as_os_str(), &at(&disk.path)], Some("take a larger one"));
        seen(&[&at(&device.path), &at(&disk.path)], Some("is mounted for writing"));
        seen(&[&at(&disk.path), &at(&disk.path)], Some("is the source itself"));
    }
    host.wait_for_no_agent();
}

#[test]
fn a_disk_in_use_or_another_one_is_refused_before_anything_is_measured() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let mounted = Mounted::of_size(place.path(), "ext4", 32 * MIB);
    let device = mounted.disk.as_ref().unwrap();
    let [disk, other] = ["disk", "other"].map(|name| Disk::full_of(place.path(), name, 0xaa, 6 * MIB, 512));
    let refused = |target: &OsStr, id: &str, words: &str| {
        for target in [target.to_owned(), host.at(target)] {
            let (found, err) = run(probe(Some(&host)).arg(&target).args(["--confirm", id]), 6);
            assert!(found.is_null() && err.contains(words), "{target:?}: {found:#}{err}");
            // The refusal comes before the first measurement.
            assert!(!err.contains("measuring"), "{err}");
        }
    };
    let before = [&disk, &other].map(|disk| written_bytes(&disk.path));
    refused(device.path.as_os_str(), &device.id(), "is mounted");
    refused(disk.path.as_os_str(), &other.id(), "the confirmed device is");
    refused(disk.path.as_os_str(), "made.0123456789abcdef", "the confirmed device is");
    let open = fs::File::options().write(true).open(&disk.path).unwrap();
    refused(disk.path.as_os_str(), &disk.id(), "is open for writing by process");
    drop(open);
    // The kernel does not say who has opened the disk exclusively, only that somebody has.
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let held = fs::File::options().read(true).custom_flags(exclusive).open(&disk.path).unwrap();
    refused(disk.path.as_os_str(), &disk.id(), "held by the kernel");
    drop(held);
    let (_, err) = run(probe(None).args([&disk.path, &disk.path]).args(["--confirm", &disk.id()]), 6);
    assert!(err.contains("is the source itself"), "{err}");
    let (_, err) = run(probe(None).args([&disk.backing, &disk.path]).args(["--confirm", &disk.id()]), 6);
    assert!(err.contains("is the source itself"), "{err}");
    let (_, err) = run(probe(None).arg(place.path()).args(["--confirm", &disk.id()]), 2);
    assert!(err.contains("--confirm is for a disk as TARGET"), "{err}");
    run(probe(None).arg(&disk.path).args(["--no-write", "--confirm", &disk.id()]), 2);
    assert_eq!([&disk, &other].map(|disk| written_bytes(&disk.path)), before);
    assert_bytes(&disk.bytes(), &vec![0xaa; 6 * MIB as usize]);
}

#[test]
fn a_disk_holds_the_same_after_a_kill() {
    if no_root() {
        return;
    }
    let place = place();
    let held = content(64 * MIB, 3);
    let disk = Disk::with(place.path(), "disk", &held, 512);
    let mut seen = 0;
    for round in 0..10 {
        let before = written_bytes(&disk.path);
        let mut child = probe(None)
            .arg(&disk.path)
            .args(["--confirm", &disk.id()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let id = Pid::from_child(&child);
        while child.try_wait().unwrap().is_none() && written_bytes(&disk.path) <= before + round * 4 * MIB {
            std::thread::yield_now();
        }
        let _gone_already = kill_process(id, Signal::KILL);
        seen += u32::from(child.wait().unwrap().code().is_none());
        assert_bytes(&disk.bytes(), &held);
    }
    assert!(seen > 0, "none was killed while it wrote");
}
