//! The messages, report, events and exit code of a run agree, whatever fails and whatever the transport.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hakobu_testkit::immutable::ImmutableDirectory;
use hakobu_testkit::sshd::{Shell, Sudo, User, no_root};

use crate::program::*;

/// A failure at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// No fault.
    None,
    /// No entry can be created in a directory.
    NothingCanBeMade,
    /// The attributes of a directory cannot be set after its content was copied.
    LateAttributes,
    /// Entries that only the target has cannot be removed.
    NothingCanBeRemoved,
    /// The entry that is in the way of a file cannot be removed.
    StaysInTheWay,
}

const FAULTS: [Fault; 5] = [
    Fault::None,
    Fault::NothingCanBeMade,
    Fault::LateAttributes,
    Fault::NothingCanBeRemoved,
    Fault::StaysInTheWay,
];

/// Creates source and target with the fault. The last value keeps the fault in place.
fn pair(place: &Path, fault: Fault) -> (PathBuf, PathBuf, Option<ImmutableDirectory>) {
    let (source, target) = (place.join("source"), place.join("target"));
    fs::create_dir_all(source.join("d")).unwrap();
    fs::write(source.join("a"), "a").unwrap();
    fs::write(source.join("d/b"), "b").unwrap();
    fs::create_dir_all(&target).unwrap();
    let make = |path: &str| {
        fs::create_dir_all(target.join(path)).unwrap();
        fs::write(target.join(path).join("x"), "x").unwrap();
        target.join(path)
    };
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let held = match fault {
        Fault::None => None,
        Fault::NothingCanBeMade => {
            fs::create_dir(target.join("d")).unwrap();
            Some(target.join("d"))
        }
        Fault::LateAttributes => {
            fs::create_dir(target.join("d")).unwrap();
            fs::copy(source.join("d/b"), target.join("d/b")).unwrap();
            let written = fs::metadata(source.join("d/b")).unwrap().modified().unwrap();
            fs::File::options().write(true).open(target.join("d/b")).unwrap().set_modified(written).unwrap();
            fs::File::open(target.join("d")).unwrap().set_modified(old).unwrap();
            Some(target.join("d"))
        }
        Fault::NothingCanBeRemoved => Some(make("extra/inner")),
        Fault::StaysInTheWay => Some(make("a/inner")),
    };
    (source, target, held.as_deref().map(|held| ImmutableDirectory::new(held).unwrap()))
}

/// Fails unless exit code, report, events and summary agree.
#[track_caller]
fn assert_agrees(ran: &Ran, code: i32, what: &str) {
    let report = &ran.report;
    assert_eq!(ran.code, Some(code), "{what}: {}\n{report:#}", ran.err);
    assert_eq!(report["exit_code"], code, "{what}: {report:#}");
    let failed = report["entries"]["failed"].as_u64().unwrap();
    let listed = report["failures"].as_array().unwrap().len() as u64;
    assert_eq!(failed, listed, "{what}: {report:#}");
    let told = ran.events.iter().filter(|event| event["event"] == "failure").count() as u64;
    assert_eq!(told, failed, "{what}: {:?}", ran.events);
    assert_eq!(code == 0, failed == 0 && report["error"].is_null(), "{what}: {report:#}");
    assert_eq!(code == 0, report["outcome"] == "done", "{what}: {report:#}");
}

#[test]
fn a_failure_of_any_kind_is_in_the_record_and_in_the_exit_code() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let ways = [("", false, false), ("", true, false), ("", false, true), ("--transport sftp", true, false)];
    for (options, push, pull) in ways {
        // The controller decides when entries are deleted, wherever the ends are.
        let is_local = !push && !pull;
        for verb in ["copy", "sync", "sync --delete-during"] {
            if verb == "sync" && !is_local {
                continue;
            }
            for fault in FAULTS {
                let place = place();
                let (source, target, held) = pair(place.path(), fault);
                let copy = if verb == "copy" { Copy::new() } else { Copy::sync() };
                let deleting = match verb {
                    "copy" => "",
                    "sync" => "--delete --max-delete 100%",
                    _ => "--delete-during --max-delete 100%",
                };
                let from = if pull { host.at(&source) } else { source.clone().into_os_string() };
                let from = [from.as_encoded_bytes(), b"/"].concat();
                let from = String::from_utf8(from).unwrap();
                let to = if push { host.at(&target) } else { target.clone().into_os_string() };
                let ran = copy.to(&host).options(options).options(deleting).arg(&from).arg(to).run();
                let code = match fault {
                    Fault::None => 0,
                    Fault::NothingCanBeRemoved if verb == "copy" => 0,
                    _ => 3,
                };
                let what = format!("{verb} {options} push {push} pull {pull}: {fault:?}");
                assert_agrees(&ran, code, &what);
                drop(held);
            }
        }
    }
}

#[test]
fn digest_says_all_that_it_could_not_read() {
    if no_root() {
        return;
    }
    let (place, user) = (place(), User::create(Shell::Sh, &Sudo::Refused).unwrap());
    open_to_all(place.path());
    let hakobu = place.path().join("hakobu");
    install(HAKOBU, &hakobu);
    let (source, target, _) = pair(place.path(), Fault::None);
    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    use std::os::unix::fs::PermissionsExt;
    let close = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o000)).unwrap();
    for at in [&source, &target] {
        close(&at.join("a"));
        close(&at.join("d/b"));
    }
    let ran = std::process::Command::new("setpriv")
        .args(["--reuid", user.name(), "--regid", "nogroup", "--clear-groups"])
        .arg(&hakobu)
        .args(["digest", "--json"])
        .arg(&source)
        .env("HAKOBU_SETTINGS", "none")
        .output()
        .unwrap();
    let said = String::from_utf8(ran.stdout).unwrap();
    let last: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert!(matches!(ran.status.code(), Some(1 | 3)), "{said}");
    assert_eq!(last["exit_code"], ran.status.code().unwrap());
    assert_eq!(last["failures"].as_array().unwrap().len(), 2, "{said}");
}

/// `verify` of two files compares their attributes, as in a tree.
#[test]
fn verify_of_two_files_compares_attributes() {
    let place = place();
    let (one, other) = (place.path().join("one"), place.path().join("other"));
    fs::write(&one, "content").unwrap();
    Copy::new().arg(&one).arg(&other).run_to(0);
    let verify = || Copy::verify().arg(&one).arg(&other);
    assert_agrees(&verify().run(), 0, "equal");
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&other, fs::Permissions::from_mode(0o751)).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    fs::File::open(&other).unwrap().set_modified(old).unwrap();
    let ran = verify().run_to(4);
    let differences = ran.report["differences"].as_array().unwrap();
    assert_eq!(differences.len(), 2, "{:#}", ran.report);
    assert_eq!((ran.entries("different"), ran.entries("unchanged")), (1, 0), "{:#}", ran.report);
}
