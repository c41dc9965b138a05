//! What limits a run is named rightly, one thing being made slow at a time; and a limit that is asked for holds.

use std::fs;
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::throttle::Throttle;
use rustix::process::Signal;

use crate::program::{Copy, HAKOBU, Host, Ran, contents, file, place, wait_until};

/// The verdict is the expected one. Where this machine has no processors to spare, those are the limit, and rightly so.
fn assert_limit(ran: &Ran, expected: &str) {
    let found = &ran.report["bottleneck"];
    let stage = found["stage"].as_str().unwrap_or_default();
    assert!(stage == expected || stage.ends_with(" processor"), "{expected} and not {found}");
}

fn long_line(rate_bits_per_second: u64) -> Link {
    let settings = LinkSettings { mtu: 9000, ..LinkSettings::with_rtt(Duration::from_millis(20)) };
    Link::up(LinkSettings { rate_bits_per_second: Some(rate_bits_per_second), ..settings }).unwrap()
}

#[test]
fn a_slow_line() {
    if no_root() {
        return;
    }
    let (link, place) = (long_line(100_000_000), place());
    let host = Host::behind(&link);
    let source = file(&place.path().join("source"), 30_000_000);
    let ran = Copy::across(&link).to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
    assert_limit(&ran, "network");
    ran.says(&["limited by: "]);
}

#[test]
fn a_window_that_is_too_small_for_the_way() {
    if no_root() {
        return;
    }
    let (link, place) = (long_line(1_000_000_000), place());
    link.far().set_parameter("ipv4/tcp_rmem", "4096 16384 65536").unwrap();
    let host = Host::behind(&link);
    let source = file(&place.path().join("source"), 40_000_000);
    let ran = Copy::across(&link).to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
    assert_limit(&ran, "target's receive window");
}

#[test]
fn processors_that_have_no_time() {
    if no_root() {
        return;
    }
    for (at_source, expected) in [(true, "source processor"), (false, "target processor")] {
        let (place, host) = (place(), Host::up());
        let source = file(&place.path().join("source"), 200_000_000);
        let throttle = Throttle::processor(20).unwrap();
        let copy = match at_source {
            true => Copy::by(throttle.command(HAKOBU)),
            false => Copy::new(),
        };
        if !at_source {
            throttle.add(host.sshd.id()).unwrap();
        }
        let ran = copy.to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(0);
        // Of two ends that are both short of processors, the shorter one is named.
        assert_limit(&ran, expected);
    }
}

/// The limit is over all lanes, and what is limited says so.
#[test]
fn a_limit_of_the_rate_holds() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    file(&source.join("large"), 6_000_000);
    for index in 0..20 {
        file(&source.join(index.to_string()), 100_000);
    }
    let copy = |target: &str| {
        Copy::new()
            .to(&host)
            .args(["--bwlimit", "4M"])
            .arg(contents(&source))
            .arg(host.at(place.path().join(target)))
    };
    let ran = copy("far").run_to(0);
    // Eight of the 8 MB go at 4 MB/s: how long that takes is the limit, and no matter of speed.
    let seconds = ran.report["seconds"]["transfer"].as_f64().unwrap();
    assert!(seconds >= 1.8, "{seconds}");
    assert_eq!(ran.report["bottleneck"]["stage"], "rate limit", "{:#}", ran.report["bottleneck"]);
    ran.says(&["note: at most 4.00 MB/s = 32.0 Mbit/s", "limited by: rate limit ("]);
    // On this machine alone, over SFTP and in a pull as well.
    let here = Copy::new().args(["--bwlimit", "4M"]).arg(contents(&source)).arg(place.path().join("here"));
    let sftp = copy("sftp").options("--transport sftp");
    let pull = Copy::new()
        .to(&host)
        .args(["--bwlimit", "4M"])
        .arg(host.at(contents(&source)))
        .arg(place.path().join("pull"));
    for copy in [here, sftp, pull] {
        let ran = copy.run_to(0);
        assert!(ran.report["seconds"]["transfer"].as_f64().unwrap() >= 1.8, "{:#}", ran.report["seconds"]);
    }
}

#[test]
fn a_run_in_a_pause_waits_and_can_be_stopped() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 5_000_000);
    let target = place.path().join("target");
    let copy = Copy::new()
        .to(&host)
        .args(["--bwlimit", "00:00,pause 23:59,pause"])
        .arg(&source)
        .arg(host.at(&target));
    let running = copy.start();
    let begun = || running.events().iter().any(|event| event["event"] == "progress");
    wait_until("it has begun", Duration::from_secs(60), begun);
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    // A lane that is held back in the middle of a chunk hands over the rest of it when it is told to stop.
    assert!(!target.exists() && ran.report["bytes"]["target_written"].as_u64() <= Some(4 << 20));
}
