//! `--compress`: fewer bytes are sent, and the content is the same.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_measure::generate::{self, FileSpec};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;

use crate::program::*;

const LARGE_BYTES: u64 = 20_000_000;

/// Creates a file that shrinks to about half.
fn compressible(path: &Path, size_bytes: u64) -> PathBuf {
    generate::file(path, FileSpec { size_bytes, seed: size_bytes, compressibility: 0.5, threads: 2 })
        .unwrap();
    path.to_owned()
}

/// Creates a large file and many small ones, all of which shrink.
fn compressible_tree(path: &Path) -> PathBuf {
    fs::create_dir(path).unwrap();
    compressible(&path.join("large"), LARGE_BYTES);
    for index in 0..100 {
        compressible(&path.join(format!("small {index}")), 10_000 + index);
    }
    path.to_owned()
}

fn bytes(ran: &Ran, what: &str) -> u64 {
    ran.report["bytes"][what].as_u64().unwrap()
}

/// Asserts that fewer bytes were sent than written, and that the report says so.
#[track_caller]
fn assert_compressed(ran: &Ran) {
    let (written, sent) = (bytes(ran, "target_written"), bytes(ran, "wire_sent"));
    assert!(sent < written * 2 / 3, "{sent} of {written}");
    let (compressed, compressed_to) = (bytes(ran, "compressed"), bytes(ran, "compressed_to"));
    assert!(compressed > 0 && compressed_to < compressed * 2 / 3 && compressed_to < sent, "{:#}", ran.report);
    assert_eq!(ran.report["compression"], "zstd");
    ran.says(&["(compressed "]);
}

#[test]
fn less_travels_in_all_directions() {
    let (place, host) = (place(), Host::up());
    let (source, target) = (compressible_tree(&place.path().join("source")), place.path().join("target"));
    let ways: [([OsString; 2], &str); 4] = [
        ([contents(&source), host.at(&target)], "--compress zstd:3 --why"),
        ([contents(host.at(&source)), target.clone().into()], "--compress zstd:-5"),
        ([contents(host.at(&source)), host.at_another(&target)], "--compress zstd"),
        ([contents(&source), host.at(&target)], "--compress zstd:1 --cipher none --transport ssh"),
    ];
    for (typed, options) in ways {
        let _ = fs::remove_dir_all(&target);
        let ran = Copy::new().to(&host).options(options).args(&typed).run_to(0);
        assert_same(&source, &target);
        assert_compressed(&ran);
        let levels = ran.report["compression_levels"].as_array().unwrap();
        match options.strip_prefix("--compress zstd:") {
            Some(fixed) => {
                let level: i64 = fixed.split(' ').next().unwrap().parse().unwrap();
                assert_eq!(levels, &[level]);
            }
            None => assert!(!levels.is_empty()),
        }
        if options.contains("--why") {
            ran.says(&["why: compression: zstd 3: as asked"]);
        }
    }
    host.wait_for_no_agent();
}

#[test]
fn what_does_not_shrink_or_is_not_to_goes_as_it_is() {
    let (place, host) = (place(), Host::up());
    let random = file(&place.path().join("random"), 5_000_000);
    let halves = compressible(&place.path().join("halves"), 5_000_000);
    for (source, how) in [(&random, "zstd:3"), (&random, "auto"), (&halves, "none")] {
        let target = place.path().join("target");
        let copy = Copy::new().to(&host).options(&format!("--compress {how}"));
        let ran = copy.arg(source).arg(host.at(&target)).run_to(0);
        assert_same(source, &target);
        assert!(bytes(&ran, "wire_sent") > 5_000_000, "{how}");
        assert_eq!((ran.report["compression"].as_str(), bytes(&ran, "compressed")), (Some("none"), 0));
        assert!(!ran.err.contains("(compressed"), "{}", ran.err);
        fs::remove_file(&target).unwrap();
    }
}

/// Without an option, data is compressed if the network is the bottleneck.
#[test]
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_slow_line_carries_less_without_being_told() {
    if no_root() {
        return;
    }
    let settings = LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(20)) };
    let link = Link::up(LinkSettings { rate_bits_per_second: Some(30_000_000), ..settings }).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let source = compressible(&place.path().join("source"), LARGE_BYTES);
    let target = place.path().join("target");
    let ran = Copy::across(&link).to(&host).arg("--why").arg(&source).arg(host.at(&target)).run_to(0);
    assert_same(&source, &target);
    assert_eq!(ran.report["compression"], "zstd", "{}", ran.err);
    assert!(bytes(&ran, "wire_sent") < bytes(&ran, "target_written"), "{:#}", ran.report);
    ran.says(&["compression: auto: at once on a long way", "compression: zstd 1: at first"]);
}

/// Changed parts of a large file are compressed, and moved parts are reused.
#[test]
fn changes_are_compressed() {
    let (place, host) = (place(), Host::up());
    let (from, to) = (place.path().join("source"), place.path().join("target"));
    [&from, &to].into_iter().for_each(|directory| fs::create_dir(directory).unwrap());
    let new = file(&from.join("large"), LARGE_BYTES);
    let target = to.join("large");
    fs::copy(&new, &target).unwrap();
    let old = fs::File::options().write(true).open(&target).unwrap();
    old.set_modified(std::time::UNIX_EPOCH).unwrap();
    let changed = fs::File::options().write(true).open(&new).unwrap();
    let words = b"what is new and said again and again. ".repeat(3000);
    (0..20).for_each(|at| changed.write_all_at(&words, at * 900_000).unwrap());
    for moved in [false, true] {
        if moved {
            let content = fs::read(&new).unwrap();
            fs::write(&new, [&words[..], &content].concat()).unwrap();
        }
        let sync = Copy::sync().to(&host).options("--compress zstd:1");
        let ran = sync.arg(contents(&from)).arg(host.at(&to)).run_to(0);
        assert_same(&from, &to);
        assert!(bytes(&ran, "compressed") > 0, "{moved} {:#}", ran.report);
        assert!(bytes(&ran, "wire_sent") < 1_000_000, "{moved} {:#}", ran.report);
    }
}

#[test]
fn an_interrupted_run_goes_on() {
    let (place, host) = (place(), Host::up());
    let source = compressible(&place.path().join("source"), 80_000_000);
    let target = place.path().join("target");
    let copy = |copy: Copy| copy.to(&host).options("--compress zstd:1").arg(&source).arg(host.at(&target));
    // Slow enough that it can be killed before its end, even on a busy machine.
    let mut running = copy(Copy::new().options("--bwlimit 10M")).start();
    running.wait_until_under_way();
    running.signal(Signal::KILL);
    running.end();
    host.wait_for_no_agent();
    assert!(!target.exists());
    let ran = copy(Copy::new()).run_to(0);
    assert_same(&source, &target);
    assert_eq!(ran.report["compression"], "zstd");
}

#[test]
fn it_has_no_effect_on_one_machine_and_a_note_says_so() {
    let place = place();
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    let copy = |how| Copy::new().options(how).arg(&source).arg(&target);
    let note = "note: --compress has no effect";
    copy("--compress zstd").run_to(0).says(&[note]);
    assert_same(&source, &target);
    let ran = copy("--compress auto").run_to(0);
    assert!(!ran.err.contains(note), "{}", ran.err);
}
