//! Options, output and the report.

use std::fs;
use std::path::Path;
use std::process::Command;

use hakobu_measure::generate::{TreeSpec, tree as plain_tree};
use hakobu_testkit::sshd::no_root;
use rustix::process::{Pid, Signal};

use crate::program::*;

#[test]
fn every_option_that_changes_the_way_still_copies() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    plain_tree(&source, &TreeSpec { files: 40, directories: 5, ..TreeSpec::default() }).unwrap();
    file(&source.join("large"), 20_000_000);
    for (index, (options, field, value)) in [
        ("--cipher aes-128-gcm", "cipher", "aes-128-gcm"),
        ("--cipher aes-256-gcm", "cipher", "aes-256-gcm"),
        ("--cipher chacha20-poly1305", "cipher", "chacha20-poly1305"),
        ("--cipher none", "cipher", "none"),
        ("--cipher none --verify none", "verified", "none"),
        ("--verify none", "verified", "none"),
        ("--verify wire", "verified", "wire"),
        ("--lanes 1", "lanes_max", "1"),
        ("--lanes 5", "lanes_max", "5"),
        ("--durable none", "outcome", "done"),
        ("--transport agent", "transport", "agent"),
        ("--why --verbose", "outcome", "done"),
    ]
    .into_iter()
    .enumerate()
    {
        let pull = index % 2 == 1;
        let target = place.path().join(format!("target {index}"));
        let typed = if pull {
            [contents(host.at(&source)), target.clone().into()]
        } else {
            [contents(&source), host.at(&target)]
        };
        let ran = Copy::new().to(&host).options(options).args(&typed).run_to(0);
        assert_same(&source, &target);
        let found = &ran.report[field];
        assert_eq!(found.as_str().map_or_else(|| found.to_string(), str::to_owned), value, "{options}");
        // The report has the timeline of the run, on whichever host the engine was.
        let samples = ran.report["timeline"]["samples"].as_array().unwrap();
        let bytes: u64 = samples.iter().map(|sample| sample["bytes"].as_u64().unwrap()).sum();
        assert_eq!(bytes, ran.report["bytes"]["target_written"], "{options}");
    }
}

#[test]
fn one_port_is_enough() {
    let (place, host) = (place(), Host::up());
    let source = tree(&place.path().join("source"));
    let free = hakobu_testkit::free_port::free_port().unwrap();
    let options = format!("--why --lanes 4 --data-port {free} --data-address 127.0.0.1");
    let target = place.path().join("target");
    let ran = Copy::new().to(&host).options(&options).arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_same(&source, &target);
    assert_eq!(ran.report["lanes_max"], 4);
}

#[test]
fn a_dry_run_lists_and_changes_nothing() {
    let (place, host) = (place(), Host::up());
    let source = tree(&place.path().join("source"));
    let target = place.path().join("target");
    for typed in [target.clone().into_os_string(), host.at(&target)] {
        let ran = Copy::new().to(&host).arg("-n").arg(contents(&source)).arg(typed).run_to(0);
        assert!(!target.exists());
        assert_eq!(ran.report["dry_run"], true);
        assert_eq!(ran.report["bytes"]["target_written"], 0);
        let planned: Vec<_> = ran.events.iter().filter(|event| event["event"] == "planned").collect();
        // The directory itself is not listed again.
        assert_eq!(planned.len() as u64, ran.entries("created") - 1, "{:?}", planned.last());
        let large = planned.iter().find(|event| event["path"] == "large").unwrap();
        assert_eq!(large["size_bytes"], 5_000_001);
        let sum: u64 = planned.iter().filter_map(|event| event["size_bytes"].as_u64()).sum();
        assert_eq!(ran.report["bytes"]["planned"], sum, "{:#}", ran.report["bytes"]);
        ran.says(&[" to transfer, checked in "]);
    }

    Copy::new().arg(contents(&source)).arg(&target).run_to(0);
    fs::write(source.join("large"), "changed").unwrap();
    let before = fs::metadata(target.join("large")).unwrap().modified().unwrap();
    let ran = Copy::new().to(&host).arg("-n").arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_eq!(ran.entries("updated"), 1);
    assert_eq!(before, fs::metadata(target.join("large")).unwrap().modified().unwrap());
    assert_eq!(fs::metadata(target.join("large")).unwrap().len(), 5_000_001);
}

/// A dry run predicts the refusal of the real run.
#[test]
fn a_dry_run_foresees_a_lack_of_room() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..60 {
        file(&source.join(index.to_string()), 200_000);
    }
    let small = Small::mount(&place.path().join("small"), "size=8m");
    for remote in [false, true] {
        let target = small.0.join("target");
        let typed = if remote { host.at(&target) } else { target.clone().into() };
        let plan = || Copy::new().to(&host).arg("-n").arg(contents(&source)).arg(&typed);
        let ran = plan().run_to(6);
        ran.says(&["12.0 MB are needed", "are free", "free space at the target"]);
        assert_eq!(ran.report["error"]["kind"], "refused");
        assert!(ran.entries("created") == 61 && !target.exists());
        // The real run ends before any content moves, as all files are in one directory.
        let ran = Copy::new().to(&host).arg(contents(&source)).arg(&typed).run_to(6);
        ran.says(&["12.0 MB are needed", "are free", "free space at the target"]);
        assert_eq!(ran.report["bytes"]["target_written"], 0, "{:#}", ran.report);
        let _ = fs::remove_dir_all(&target);
        // The file that it replaces makes room.
        fs::create_dir(&target).unwrap();
        for index in 0..35 {
            file(&target.join(index.to_string()), 199_999);
        }
        plan().run_to(6);
        for index in 40..60 {
            fs::rename(source.join(index.to_string()), place.path().join(index.to_string())).unwrap();
        }
        plan().run_to(0);
        for index in 40..60 {
            fs::rename(place.path().join(index.to_string()), source.join(index.to_string())).unwrap();
        }
        fs::remove_dir_all(&target).unwrap();
    }
    // Nothing shares blocks in memory, so a large file makes no difference.
    fs::remove_dir_all(&source).unwrap();
    fs::create_dir(&source).unwrap();
    file(&source.join("large"), 12_000_000);
    let plan = |target| Copy::new().to(&host).arg("-n").arg(contents(&source)).arg(target);
    plan(small.0.join("target").into()).run_to(6).says(&["12.0 MB are needed", "are free"]);
    plan(host.at(small.0.join("target"))).run_to(6);
}

/// A tree of several directories that does not fit ends as soon as more of it is known than there is room for.
#[test]
fn a_tree_without_room_is_refused_as_soon_as_that_is_known() {
    if no_root() {
        return;
    }
    let place = place();
    let source = place.path().join("source");
    for directory in ["a", "b", "c"] {
        fs::create_dir_all(source.join(directory)).unwrap();
        (0..30).for_each(|index| drop(file(&source.join(directory).join(index.to_string()), 150_000)));
    }
    let small = Small::mount(&place.path().join("small"), "size=8m");
    let ran = Copy::new().args(["--lanes", "1"]).arg(&source).arg(&small.0).run_to(6);
    ran.says(&["MB are needed", "are free", "free space at the target"]);
    assert_eq!(ran.report["error"]["step"], "write");
    // One more than there are inodes for.
    let few = Small::mount(&place.path().join("few"), "nr_inodes=40");
    let ran = Copy::new().arg(&source).arg(&few.0).run_to(6);
    ran.says(&["new files and directories are needed", "free inodes at the target"]);
    // There may be room on file systems that are mounted at the target.
    let tight = Small::mount(&place.path().join("tight"), "size=4m");
    let _inner = Small::mount(&tight.0.join("a"), "size=16m");
    Copy::new().arg(source.join("a")).arg(&tight.0).run_to(0);
    fs::create_dir(place.path().join("outer")).unwrap();
    fs::rename(source.join("b"), place.path().join("outer/a")).unwrap();
    Copy::new().arg(contents(place.path().join("outer"))).arg(&tight.0).run_to(0);
}

/// A mistyped name of a report may be that of the source.
#[test]
fn a_report_overwrites_neither_the_source_nor_the_target() {
    let place = place();
    let at = |name: &str| place.path().join(name);
    let source = file(&at("source"), 3_000_000);
    let copy = |report: &Path, target: &Path| {
        let mut command = Command::new(HAKOBU);
        command
            .args(["copy", "--report"])
            .arg(report)
            .arg(&source)
            .arg(target)
            .env("HAKOBU_SETTINGS", "none");
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, err) = copy(&source, &at("target"));
    assert_eq!(code, Some(6), "{err}");
    assert!(err.contains("something else than a report") && !at("target").exists(), "{err}");
    assert_eq!(fs::metadata(&source).unwrap().len(), 3_000_000);
    let (code, err) = copy(&at("target"), &at("target"));
    assert!(code == Some(6) && err.contains("it is also the file of --report"), "{err}");
    assert!(!at("target").exists(), "what was made for the report goes");
    // The report can be at the path where the copy lands below the target, which is noticed at the end.
    fs::create_dir(at("directory")).unwrap();
    let (code, err) = copy(&at("directory/source"), &at("directory"));
    assert!(code == Some(1) && err.contains("has put something else in its place"), "{err}");
    assert_eq!(fs::metadata(at("directory/source")).unwrap().len(), 3_000_000);
    assert_eq!(copy(&at("report"), &at("target")).0, Some(0));
    assert_eq!(copy(&at("report"), &at("target")).0, Some(0));
}

#[test]
fn events_have_a_schema_a_beginning_and_an_end() {
    let (place, host) = (place(), Host::up());
    let source = tree(&place.path().join("source"));
    let ran = Copy::new().to(&host).arg(contents(&source)).arg(host.at(place.path().join("t"))).run_to(0);
    assert!(
        ran.events.iter().all(|event| event["schema"] == "hakobu.event/1" && event["seconds"].is_number())
    );
    // Decisions about the connection may come first, but nothing is copied.
    let names: Vec<_> = ran.events.iter().map(|event| event["event"].as_str().unwrap()).collect();
    let started = names.iter().position(|name| *name == "started").unwrap();
    assert!(names[..started].iter().all(|name| matches!(*name, "decision" | "notice")), "{names:?}");
    assert_eq!(names.iter().filter(|name| **name == "started").count(), 1);
    let last = ran.events.last().unwrap();
    assert_eq!(last["event"], "finished");
    assert_eq!(last["report"], ran.report);
}

#[test]
fn the_report_has_what_was_promised() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 30_000_000);
    let ran = Copy::new().to(&host).arg(&source).arg(host.at(place.path().join("t"))).run_to(0);
    let report = &ran.report;
    assert_eq!(report["schema"], "hakobu.report/1");
    for (field, least) in [
        ("/bytes/source_read", 30_000_000),
        ("/bytes/target_written", 30_000_000),
        ("/bytes/wire_sent", 30_000_000),
        ("/bytes/wire_received", 1),
        ("/throughput_bytes_per_second", 1_000_000),
        ("/peak_memory_bytes/source", 1_000_000),
        ("/peak_memory_bytes/target", 1_000_000),
        ("/lanes_max", 1),
        ("/entries/scanned", 1),
        ("/entries/created", 1),
    ] {
        let found = report.pointer(field).and_then(serde_json::Value::as_u64);
        assert!(found >= Some(least), "{field}: {found:?} in {report:#}");
    }
    for zero in ["updated", "unchanged", "attributes_only", "deleted", "only_in_target", "skipped", "failed"]
    {
        assert_eq!(report["entries"][zero], 0, "{zero}");
    }
    for (field, text) in [
        ("/outcome", "done"),
        ("/transport", "agent"),
        ("/compression", "none"),
        ("/verified", "wire"),
        ("/version", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(report.pointer(field).and_then(|found| found.as_str()), Some(text), "{field}");
    }
    for field in
        ["/job", "/user", "/started_at", "/ended_at", "/source/resolved", "/target/resolved", "/cipher"]
    {
        assert!(report.pointer(field).is_some_and(serde_json::Value::is_string), "{field}: {report:#}");
    }
    for second in ["total", "connect", "scan", "transfer"] {
        assert!(report["seconds"][second].is_number(), "{second}");
    }
    assert!(report["bottleneck"]["stage"].is_string() && report["bottleneck"]["stages"].is_object());
    assert!(report["losses"].is_array() && report["failures"].is_array() && report["resumed"] == false);
    assert!(report["command"].as_str().unwrap().contains(source.to_str().unwrap()));
}

/// A switch of the library hides the AES instructions at both ends.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_processor_without_aes_gets_the_other_cipher() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 5_000_000);
    let target = place.path().join("target");
    let copy = || Copy::new().to(&host).arg("--why").arg(&source).arg(host.at(&target));
    let ran = copy().env("OPENSSL_ia32cap", "~0x200000200000000").run_to(0);
    assert_eq!(ran.report["cipher"], "chacha20-poly1305", "{}", ran.err);
    ran.says(&["cipher: chacha20-poly1305", "what one core does at the source and at the target"]);
    if std::arch::is_x86_feature_detected!("aes") {
        assert_eq!(copy().run_to(0).report["cipher"], "aes-128-gcm");
    }
}

/// Without a terminal, the output is a first line and a summary, each on the right stream.
#[test]
fn without_a_terminal_there_are_a_first_line_and_a_summary() {
    let (place, host) = (place(), Host::up());
    let source = tree(&place.path().join("source"));
    let plain = |options: &[&str], target: &str| {
        let mut command = Command::new(HAKOBU);
        command.arg("copy").args(options).arg(contents(&source)).arg(host.at(place.path().join(target)));
        let output = command.env("HAKOBU_SSH", host.sshd.ssh_command()).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (out, err) = plain(&[], "a");
    let lines: Vec<_> = out.lines().collect();
    assert!(
        lines[0].starts_with("copying ") && lines[0].ends_with(place.path().join("a").to_str().unwrap()),
        "{out}"
    );
    assert!(
        lines[1].starts_with("done: ") && lines[1].contains(" directories), 0 updated, 0 unchanged"),
        "{out}"
    );
    assert_eq!((lines.len(), err.as_str()), (3, ""), "{out}");
    let (out, err) = plain(&["--quiet"], "b");
    assert_eq!((out.as_str(), err.as_str()), ("", ""));
    let (_, err) = plain(&["--why"], "c");
    for words in ["why: lanes: ", "why: cipher: ", "why: data connections: ", "why: agent on throwaway: "] {
        assert!(err.contains(words), "{err}");
    }
}

#[test]
fn pairs_go_to_their_own_targets_and_have_their_own_digests() {
    let (place, host) = (place(), Host::up());
    let (one, two) = (place.path().join("one"), place.path().join("two words"));
    file(&one, 9_000_000);
    file(&two, 70_000);
    fs::create_dir(place.path().join("in")).unwrap();
    let at = |name: &str| host.at(place.path().join(name)).to_string_lossy().into_owned();
    let list = place.path().join("pairs");
    let lines =
        format!("# what goes where\n{} {}\n'{}' {}\n", one.display(), at("target"), two.display(), at("in/"));
    fs::write(&list, lines).unwrap();
    let ran = Copy::new().to(&host).options("--pairs").arg(&list).run_to(0);
    for (source, target, index) in [(&one, "target", 0), (&two, "in/two words", 1)] {
        let bytes = fs::read(source).unwrap();
        assert!(bytes == fs::read(place.path().join(target)).unwrap(), "{target}");
        let digest = blake3::hash(&bytes).to_hex().to_string();
        assert_eq!(ran.report["pairs"][index]["digest_blake3"], digest.as_str());
    }
    fs::write(&list, format!("{} {}\n'{}' {}\n", one.display(), at("x"), two.display(), at("x"))).unwrap();
    let ran = Copy::new().to(&host).options("--pairs").arg(&list).run_to(2);
    assert!(ran.err.contains("another pair has the same target"), "{}", ran.err);
}

/// Returns the niceness of each thread of a process.
fn nicenesses(pid: Pid) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())).unwrap();
    let of_task = |task: fs::DirEntry| {
        let stat = fs::read_to_string(task.path().join("stat")).unwrap();
        // The name, in parentheses, may contain anything.
        stat.rsplit(')').next().unwrap().split_whitespace().nth(16).unwrap().to_owned()
    };
    tasks.map(|task| of_task(task.unwrap())).collect()
}

#[test]
fn other_processes_go_first_if_asked_for() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 300 << 20);
    for (options, niceness) in [("--nice", "19"), ("", "0")] {
        // Each run has a directory of its own, because a killed run leaves a draft and a journal.
        let at = place.path().join(niceness);
        fs::create_dir(&at).unwrap();
        let copy = Copy::by(stopped()).to(&host).options(options);
        let mut running = copy.arg(&source).arg(host.at(at.join("target"))).start();
        running.crawl_until(|_| !drafts(&at).is_empty());
        let agents = host.agents();
        assert_eq!(agents.len(), 1);
        for pid in [running.id(), agents[0]] {
            let found = nicenesses(pid);
            let moving = found.iter().filter(|found| *found == niceness).count();
            // Only the thread that waits for signals was started before.
            assert!(moving > 2 && found.len() - moving <= 1, "{options} {found:?}");
        }
        running.signal(Signal::KILL);
        running.end();
        host.wait_for_no_agent();
    }
}

#[test]
fn verify_says_which_options_have_no_effect_on_it() {
    let place = place();
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    file(&source.join("file"), 10);
    let typed = [contents(&source), place.path().join("target").into()];
    Copy::new().args(&typed).run_to(0);
    let ran = Copy::verify()
        .options("--compare digest --durable none --restart --bwlimit 1MB")
        .args(&typed)
        .run_to(0);
    ran.says(&[
        "note: --compare digest has no effect: content is compared in any case",
        "note: --durable has no effect: nothing is written",
        "note: --restart has no effect: nothing is written",
        "note: --bwlimit has no effect: only digests are sent",
    ]);
    assert!(!Copy::verify().args(&typed).run_to(0).err.contains("has no effect"));
}
