//! Known traps of tree migrations: an alleged success, and an incomplete plan.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::devices::mount;
use hakobu_testkit::sshd::no_root;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::program::*;

fn pair(place: &Path) -> [PathBuf; 2] {
    ["source", "target"].map(|name| {
        let path = place.join(name);
        fs::create_dir(&path).unwrap();
        path
    })
}

/// Creates a directory whose path is longer than the system accepts in one call.
fn deep(root: &Path) {
    let script = "for number in $(seq 40); do mkdir \"$1\"; cd -P \"$1\"; done; echo x > bottom";
    let name = "d".repeat(120);
    let status = Command::new("bash").args(["-ec", script, "sh", &name]).current_dir(root).status();
    assert!(status.unwrap().success());
}

#[test]
fn what_lies_too_deep_to_be_compared_is_no_success() {
    let place = place();
    let [source, target] = pair(place.path());
    deep(&source);
    let typed = [contents(&source), target.clone().into()];
    Copy::new().args(&typed).run_to(3);
    let ran = Copy::verify().args(&typed).run_to(3);
    assert!(ran.failures()[0].1.contains("at most 4095"), "{:?}", ran.failures());
    // The other direction has the same result.
    let ran = Copy::verify().args([contents(&target), source.clone().into()]).run();
    assert_ne!(ran.code, Some(0), "{:#}", ran.report);
    for root in [&source, &target] {
        assert!(Command::new("rm").arg("-rf").arg(root).status().unwrap().success());
    }
}

/// A rule protects a directory of the target in whose place the source has a file.
#[test]
fn a_file_that_a_rule_keeps_from_its_place_is_a_failure() {
    let (place, host) = (place(), Host::up());
    let [source, target] = pair(place.path());
    fs::write(source.join("build"), "a file").unwrap();
    fs::create_dir(target.join("build")).unwrap();
    fs::write(target.join("build/old"), "o").unwrap();
    fs::write(target.join("gone"), "g").unwrap();
    for typed in [target.clone().into_os_string(), host.at(&target)] {
        for options in ["--delete", "--delete --delete-during", "--dry-run", ""] {
            let copy = Copy::sync().to(&host).options(options).options("--exclude build/ --max-delete 100%");
            let ran = copy.args([contents(&source), typed.clone()]).run_to(3);
            let failures = ran.failures();
            assert!(failures.len() == 1 && failures[0].1.contains("filter rule"), "{options}: {failures:?}");
            assert!(target.join("build/old").exists());
        }
    }
}

#[test]
fn a_directory_takes_the_place_of_anything() {
    let place = place();
    let [source, target] = pair(place.path());
    let listener = std::os::unix::net::UnixListener::bind(target.join("socket")).unwrap();
    mknodat(CWD, target.join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    assert!(fs::metadata(target.join("fifo")).unwrap().file_type().is_fifo());
    for name in ["socket", "fifo"] {
        fs::create_dir(source.join(name)).unwrap();
        fs::write(source.join(name).join("in it"), "x").unwrap();
    }
    drop(listener);
    let typed = [contents(&source), target.clone().into()];
    Copy::new().args(&typed).run_to(3);
    Copy::sync().options("--delete").args(&typed).run_to(0);
    assert_same(&source, &target);
}

/// A dry run lists directories whose attributes would change.
#[test]
fn a_plan_names_directories_that_get_other_attributes() {
    let place = place();
    let [source, target] = pair(place.path());
    for (root, mode) in [(&source, 0o700), (&target, 0o755)] {
        fs::create_dir(root.join("inner")).unwrap();
        fs::set_permissions(root.join("inner"), fs::Permissions::from_mode(mode)).unwrap();
    }
    let typed = [contents(&source), target.clone().into()];
    let plan = || Copy::sync().options("--dry-run").args(&typed).run_to(0);
    let planned = |ran: &Ran| {
        let of = |event: &&serde_json::Value| event["event"] == "planned" && event["path"] == "inner";
        ran.events.iter().filter(of).map(|event| event["action"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(planned(&plan()), ["attributes"]);
    Copy::sync().args(&typed).run_to(0);
    assert!(planned(&plan()).is_empty());
}

/// Deletions create the space that the copy needs.
#[test]
fn removing_first_helps_a_target_without_room() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let [source, target] = pair(place.path());
    let _mounted = mount(Path::new("tmpfs"), &target, &["-t", "tmpfs", "-o", "size=30m"]).unwrap();
    for typed in [target.clone().into_os_string(), host.at(&target)] {
        let _ = fs::remove_file(target.join("new"));
        let _ = fs::remove_file(source.join("new"));
        file(&target.join("old"), 20 << 20);
        file(&source.join("new"), 20 << 20);
        let copy = Copy::sync().to(&host).options("--delete-during --max-delete 100%");
        copy.args([contents(&source), typed]).run_to(0);
        assert_same(&source, &target);
    }
}

#[test]
fn a_plan_that_cannot_be_printed_is_no_success() {
    let place = place();
    let [source, target] = pair(place.path());
    fs::write(source.join("new"), "x").unwrap();
    for options in [&["--dry-run"][..], &["--dry-run", "--json"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(HAKOBU);
        command.arg("sync").args(options).arg(contents(&source)).arg(&target);
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{words}");
        assert!(words.contains("standard output"), "{words}");
    }
}
