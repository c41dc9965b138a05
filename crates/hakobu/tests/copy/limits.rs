//! Bottlenecks, each created by slowing one thing down, and limits that the user sets.

use std::ffi::OsString;
use std::fs;
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::slow_fs::SlowFs;
use hakobu_testkit::sshd::no_root;
use hakobu_testkit::throttle::Throttle;
use rustix::process::Signal;

use crate::program::{Copy, HAKOBU, Host, Ran, assert_same, contents, file, in_a_pause, place, wait_until};

/// Fails unless the bottleneck is the expected one, or the processors of a busy machine.
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
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_slow_line() {
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
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_a_window_that_is_too_small_for_the_way() {
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
#[ignore = "long: measures, so it depends on what else the machine does"]
fn long_processors_that_have_no_time() {
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
        // If both ends are short of processor time, the shorter one is named.
        assert_limit(&ran, expected);
    }
}

/// A rate limit applies to all lanes together, and is reported as the bottleneck.
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
    // 8 MB at 4 MB/s take this long because of the limit, whatever the speed of the machine.
    let seconds = ran.report["seconds"]["transfer"].as_f64().unwrap();
    assert!(seconds >= 1.8, "{seconds}");
    assert_eq!(ran.report["bottleneck"]["stage"], "rate limit", "{:#}", ran.report["bottleneck"]);
    ran.says(&["note: at most 4.00 MB/s = 32.0 Mbit/s", "limited by: rate limit ("]);
    // The limit holds on one machine as well, over SFTP and in a pull.
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
    let source = file(&place.path().join("source"), 60_000_000);
    let target = place.path().join("target");
    let copy =
        Copy::new().to(&host).args(["--why", "--bwlimit", in_a_pause()]).arg(&source).arg(host.at(&target));
    let running = copy.start();
    // Long enough that hakobu would try other numbers of lanes.
    let begun = || running.events().iter().filter(|event| !event["paused_until"].is_null()).count() >= 6;
    wait_until("it has begun", Duration::from_secs(60), begun);
    let events = running.events();
    let progress = events.iter().rfind(|event| event["event"] == "progress").unwrap();
    assert_eq!(progress["bottleneck"]["stage"], "rate limit", "{progress:#}");
    let said = |word: &str| events.iter().filter(|event| event.to_string().contains(word)).count();
    let tried = said(" instead of ") + said(", as before");
    assert_eq!((said("by the timetable of --bwlimit"), tried), (1, 0), "{events:#?}");
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(!target.exists() && ran.report["bytes"]["target_written"] == 0, "{:#}", ran.report);
    // The report counts the pause.
    let seconds = |name: &str| ran.report["seconds"][name].as_f64().unwrap();
    assert!(seconds("paused") > 0.5 && seconds("paused") <= seconds("total"), "{:#}", ran.report["seconds"]);
    ran.says(&["paused for ", " by the timetable of --bwlimit"]);
}

/// A lane that waits for a limit in the middle of a chunk stops there when the run is stopped.
#[test]
fn a_run_that_is_held_back_stops_where_it_is() {
    let (place, host) = (place(), Host::up());
    let source = file(&place.path().join("source"), 5_000_000);
    let target = place.path().join("target");
    let copy =
        Copy::new().to(&host).args(["--bwlimit", "50k", "--lanes", "1"]).arg(&source).arg(host.at(&target));
    let running = copy.start();
    let begun = || running.events().iter().any(|event| event["event"] == "progress");
    wait_until("it has begun", Duration::from_secs(60), begun);
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    let sent = ran.report["bytes"]["wire_sent"].as_u64().unwrap_or_default();
    assert!(!target.exists() && sent < 3 << 20, "{sent}");
}

/// The limit applies to each end and to all lanes together, on whichever host the engine is, and is reported as the
/// bottleneck.
#[test]
fn a_limit_of_operations_holds() {
    let (place, host) = (place(), Host::up());
    let source = place.path().join("source");
    fs::create_dir(&source).unwrap();
    for index in 0..60 {
        file(&source.join(index.to_string()), 1000 + index);
    }
    let copy = |options: &str, from: OsString, to: OsString| {
        Copy::new().to(&host).args(["--iops-limit", "40"]).options(options).arg(from).arg(to)
    };
    let far = |name: &str| host.at(place.path().join(name));
    let here = |name: &str| place.path().join(name).into_os_string();
    for (name, copy) in [
        ("push", copy("", contents(&source), far("push"))),
        ("pull", copy("", host.at(contents(&source)), here("pull"))),
        ("sftp", copy("--transport sftp", contents(&source), far("sftp"))),
        ("here", copy("", contents(&source), here("here"))),
    ] {
        let ran = copy.run_to(0);
        // 60 entries are listed, and as many files are read: 120 operations at 40 a second.
        let seconds = ran.report["seconds"]["transfer"].as_f64().unwrap();
        assert!(seconds >= 1.2, "{name}: {seconds}");
        assert_eq!(ran.report["bottleneck"]["stage"], "operation limit", "{:#}", ran.report["bottleneck"]);
        ran.says(&[
            "note: at most 40 operations a second at each end (--iops-limit)",
            "limited by: operation limit (--iops-limit, as requested",
        ]);
        let brought = fs::read_dir(place.path().join(name)).unwrap().count();
        assert_eq!(brought, 60, "{name}");
    }
    // rsync has no such limit.
    let ran = copy("", contents(&source), "rsync://127.0.0.1:9/m".into()).run_to(2);
    ran.says(&["--iops-limit is not possible where rsync moves the data"]);
}

/// A source that becomes slower than the limit is read less.
#[test]
fn a_source_that_gets_slow_is_held_back() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (backing, slow) = (place.path().join("backing"), place.path().join("slow"));
    fs::create_dir(&backing).unwrap();
    fs::create_dir(&slow).unwrap();
    let source = file(&backing.join("source"), 48_000_000);
    let _mounted = SlowFs::mount(&slow, &backing, Duration::from_millis(30)).unwrap();
    for (name, from, to) in [
        ("push", slow.join("source").into_os_string(), host.at(place.path().join("push"))),
        ("pull", host.at(slow.join("source")), place.path().join("pull").into_os_string()),
    ] {
        let copy = Copy::new().to(&host).options("--why --lanes 1 --source-p99 5").arg(from).arg(to);
        let ran = copy.run_to(0);
        ran.says(&["why: source: at most ", " reads took longer than 5 ms (--source-p99)"]);
        assert_same(&source, &place.path().join(name));
    }
}
