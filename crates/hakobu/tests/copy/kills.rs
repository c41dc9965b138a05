//! Runs that are stopped, killed or cut off, after data has moved.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use hakobu_testkit::sshd::no_root;

use crate::changes::slow_link;
use crate::program::*;

const SIZE_BYTES: u64 = 60_000_000;

/// A host behind a slow link, a tree with a large file on one side, and nothing on the other.
struct Line {
    // The fields are dropped in this order: the host's processes must end before their network is removed.
    host: Host,
    link: Link,
    place: TempDir,
    source: PathBuf,
    target: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Push,
    Pull,
}

/// Runs a test for push and pull at the same time, because the tests mostly wait.
fn both_ways(test: impl Fn(Way) + Sync) {
    std::thread::scope(|scope| {
        for way in [Way::Push, Way::Pull] {
            let test = &test;
            scope.spawn(move || test(way));
        }
    });
}

impl Line {
    fn new() -> Self {
        let link = slow_link();
        let (place, host) = (place(), Host::behind(&link));
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        fs::create_dir(&source).unwrap();
        file(&source.join("large"), SIZE_BYTES);
        for index in 0..200 {
            file(&source.join(format!("small {index}")), 5000);
        }
        Self { host, link, place, source, target }
    }

    fn copy(&self, way: Way) -> Copy {
        let (source, target) = (contents(&self.source), self.target.clone().into_os_string());
        let copy = Copy::across(&self.link).to(&self.host);
        match way {
            Way::Push => copy.arg(source).arg(self.host.at(target)),
            Way::Pull => copy.arg(self.host.at(source)).arg(target),
        }
    }

    fn change_rate(&self, rate_bits_per_second: Option<u64>) {
        let settings = LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() };
        self.link.change(settings).unwrap();
    }

    /// Fails if an incomplete file has its final name.
    #[track_caller]
    fn assert_nothing_partial(&self) {
        for entry in fs::read_dir(&self.target).unwrap().flatten() {
            if !entry.file_name().as_encoded_bytes().starts_with(b".hakobu.") {
                assert_same(&self.source.join(entry.file_name()), &entry.path());
            }
        }
        assert!(!self.target.join("large").exists());
    }

    /// Asserts that the command, run again at full speed, succeeds and leaves nothing behind.
    #[track_caller]
    fn assert_goes_on(&self, way: Way) {
        self.change_rate(None);
        let ran = self.copy(way).run_to(0);
        assert!(ran.entries("unchanged") > 0, "{:#}", ran.report);
        assert_same(&self.source, &self.target);
        assert!(drafts(self.place.path()).is_empty());
        self.host.wait_for_no_agent();
    }
}

#[test]
fn ctrl_c_in_the_middle_of_a_push_and_of_a_pull() {
    if no_root() {
        return;
    }
    both_ways(|way| {
        let line = Line::new();
        let mut running = line.copy(way).start();
        running.wait_until_under_way();
        assert!(!drafts(&line.target).is_empty());
        running.signal(Signal::INT);
        let ran = running.end();
        assert_eq!(ran.code, Some(130), "{way:?} {}", ran.err);
        assert_eq!(ran.report["outcome"], "interrupted");
        ran.says(&["interrupted: ", "to go on: ", line.target.to_str().unwrap()]);
        assert_tells_what_was_written(&ran);
        line.assert_nothing_partial();
        line.host.wait_for_no_agent();
        assert!(drafts(&line.target).is_empty(), "{way:?}");
        line.assert_goes_on(way);
    });
}

/// Fails unless an interrupted run reports written data, as its last progress event does.
#[track_caller]
fn assert_tells_what_was_written(ran: &Ran) {
    let bytes = |value: &serde_json::Value| value.as_u64().unwrap();
    let told = ran.events.iter().filter(|event| event["event"] == "progress");
    let told = told.map(|event| bytes(&event["bytes_done"])).max().unwrap();
    let written = bytes(&ran.report["bytes"]["target_written"]);
    assert!(written >= told && told > 0, "{told} {:#}", ran.report);
    assert!(ran.report["seconds"]["transfer"].as_f64().unwrap() > 0.0, "{:#}", ran.report);
    assert!(bytes(&ran.report["throughput_bytes_per_second"]) > 0, "{:#}", ran.report);
}

/// The ssh processes get the signal as well, as by Ctrl-C on a terminal, and exit at once.
#[test]
fn a_signal_to_the_whole_process_group() {
    if no_root() {
        return;
    }
    both_ways(|way| {
        let line = Line::new();
        let mut running = line.copy(way).start_group();
        running.wait_until_under_way();
        rustix::process::kill_process_group(running.id(), Signal::INT).unwrap();
        let ran = running.end();
        assert_eq!(ran.code, Some(130), "{way:?} {}", ran.err);
        assert_tells_what_was_written(&ran);
        line.host.wait_for_no_agent();
        line.assert_nothing_partial();
    });
}

/// The agent is stopped, so it does not end by itself, while its kernel still keeps the data connections open.
#[test]
fn a_run_does_not_outlive_its_control_connection() {
    if no_root() {
        return;
    }
    for by_signal in [false, true] {
        let line = Line::new();
        let mut running = line.copy(Way::Push).options("--retry-for 0s").start_group();
        running.wait_until_under_way();
        let agents = line.host.agents();
        assert_eq!(agents.len(), 1);
        kill_process(agents[0], Signal::STOP).unwrap();
        if by_signal {
            rustix::process::kill_process_group(running.id(), Signal::INT).unwrap();
        } else {
            let id = running.id().as_raw_nonzero();
            let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap();
            let ssh = children.split_whitespace().next().unwrap().parse().unwrap();
            kill_process(rustix::process::Pid::from_raw(ssh).unwrap(), Signal::KILL).unwrap();
        }
        let ran = running.end();
        kill_process(agents[0], Signal::CONT).unwrap();
        assert_eq!(ran.code, Some(if by_signal { 130 } else { 1 }), "{}", ran.err);
        ran.says(&["to go on: "]);
        assert_tells_what_was_written(&ran);
        line.host.wait_for_no_agent();
        line.assert_nothing_partial();
    }
}

/// On a terminal, ssh gets the signal as well.
#[test]
fn ctrl_c_on_a_terminal() {
    if no_root() {
        return;
    }
    let line = Line::new();
    let program = format!("ip netns exec {} {HAKOBU}", line.link.near().name());
    let (from, to) = (contents(&line.source), line.host.at(&line.target));
    let mut child = terminal(&line.host, &program, &[&from, &to]).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    wait_until_written(line.place.path(), 5_000_000);
    input.write_all(b"\x03").unwrap();
    let output = child.wait_with_output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{shown}");
    assert!(shown.contains("interrupted: ") && shown.contains("to go on: "), "{shown}");
    assert!(!shown.contains("connection lost"), "{shown}");
    line.assert_nothing_partial();
    line.host.wait_for_no_agent();
    assert!(drafts(&line.target).is_empty());
    drop(input);
}

#[test]
fn ctrl_c_here() {
    let place = place();
    let (source, target) = (file(&place.path().join("source"), 2 << 30), place.path().join("target"));
    let by = |command| Copy::by(command).options("--verify wire").arg(&source).arg(&target);
    let mut running = by(stopped()).start();
    running.crawl_until_under_way();
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    ran.says(&["to go on: "]);
    assert_goes_on_here(&source, &target, by(Command::new(HAKOBU)));
}

/// Fails unless there are a draft and a journal, and the same command resumes and removes them.
#[track_caller]
fn assert_goes_on_here(source: &Path, target: &Path, copy: Copy) {
    let place = target.parent().unwrap();
    assert!(!target.exists() && drafts(place).len() == 2, "{:?}", drafts(place));
    let ran = copy.run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    let written = ran.report["bytes"]["target_written"].as_u64().unwrap();
    assert!(written < fs::metadata(source).unwrap().len(), "{:#}", ran.report);
    assert_same(source, target);
    assert!(drafts(place).is_empty());
}

/// Waits until there is a draft of at least this size.
fn wait_until_written(below: &Path, bytes: u64) {
    wait_until("a draft grows", Duration::from_secs(60), || {
        use std::os::unix::fs::MetadataExt;
        let found = drafts(below);
        found.iter().filter_map(|path| fs::metadata(path).ok()).any(|found| found.blocks() * 512 > bytes)
    });
}

#[test]
fn a_kill_of_this_side_in_the_middle_of_a_push() {
    if no_root() {
        return;
    }
    let line = Line::new();
    let mut running = line.copy(Way::Push).start();
    running.wait_until_under_way();
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    line.assert_nothing_partial();
    // The remote side notices the loss and removes its drafts.
    line.host.wait_for_no_agent();
    assert!(drafts(&line.target).is_empty());
    line.assert_goes_on(Way::Push);
}

/// The process that serves the target is killed, so the draft of the large file remains. The next run resumes it.
#[test]
fn a_kill_of_this_side_in_the_middle_of_a_pull() {
    if no_root() {
        return;
    }
    let line = Line::new();
    let mut running = line.copy(Way::Pull).start();
    running.wait_until_under_way();
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    line.assert_nothing_partial();
    line.host.wait_for_no_agent();
    assert_eq!(drafts(&line.target).len(), 1);
    line.assert_goes_on(Way::Pull);
}

#[test]
fn a_kill_on_one_machine() {
    let place = place();
    let (source, target) = (file(&place.path().join("source"), 2 << 30), place.path().join("target"));
    let by = |command| Copy::by(command).options("--verify wire").arg(&source).arg(&target);
    let mut running = by(stopped()).start();
    running.crawl_until_under_way();
    // The journal is written at most once a second.
    std::thread::sleep(Duration::from_millis(1200));
    running.crawl_until(|_| {
        let sizes = drafts(place.path()).into_iter().filter_map(|path| fs::metadata(path).ok());
        sizes.map(|found| found.len()).any(|bytes| bytes > 128 && bytes < 100_000)
    });
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    assert_goes_on_here(&source, &target, by(Command::new(HAKOBU)));
}

#[test]
fn a_killed_agent_is_started_again() {
    if no_root() {
        return;
    }
    both_ways(|way| {
        let line = Line::new();
        let mut running = line.copy(way).start();
        running.wait_until_under_way();
        let agents = line.host.agents();
        assert_eq!(agents.len(), 1);
        kill_process(agents[0], Signal::KILL).unwrap();
        let ran = running.end();
        assert_eq!(ran.code, Some(0), "{way:?} {}", ran.err);
        ran.says(&["connection lost", "trying again"]);
        assert_same(&line.source, &line.target);
        assert!(drafts(&line.target).is_empty());
        line.host.wait_for_no_agent();
        // Each entry counts once. Bytes count each time they are moved, on the wire and at the target.
        let counted = ran.entries("created") + ran.entries("unchanged") + ran.entries("attributes_only");
        assert_eq!((counted, ran.entries("updated")), (202, 0), "{way:?} {:#}", ran.report);
        let bytes = |name: &str| ran.report["bytes"][name].as_u64().unwrap();
        // Files whose completion was not confirmed before the agent died are found unchanged, and are not counted.
        let confirmed = 200u64.saturating_sub(ran.entries("unchanged"));
        assert!(bytes("target_written") >= SIZE_BYTES + confirmed * 5000, "{way:?} {:#}", ran.report);
        // In a pull, the engine's count was lost with the killed agent.
        assert!(way == Way::Pull || bytes("wire_sent") > bytes("target_written"), "{:#}", ran.report);
    });
}

#[test]
fn a_killed_agent_ends_the_run_where_it_may_not_be_tried_again() {
    if no_root() {
        return;
    }
    both_ways(|way| {
        let line = Line::new();
        let mut running = line.copy(way).options("--retry-for 0s").start();
        running.wait_until_under_way();
        kill_process(line.host.agents()[0], Signal::KILL).unwrap();
        let ran = running.end();
        assert_eq!(ran.code, Some(1), "{way:?} {}", ran.err);
        ran.says(&["throwaway", "hint: check the network", "to go on: "]);
        assert_tells_what_was_written(&ran);
        line.assert_nothing_partial();
        line.assert_goes_on(way);
    });
}

#[test]
fn the_same_job_twice_at_once() {
    if no_root() {
        return;
    }
    both_ways(|way| {
        let line = Line::new();
        // A busy machine sees only after seconds that the run is under way.
        line.change_rate(Some(10_000_000));
        let mut running = line.copy(way).start();
        running.wait_until_under_way();
        // It must not end before two more runs have, and leaves the link to them.
        running.signal(Signal::STOP);
        line.change_rate(None);
        let ran = line.copy(way).run_to(6);
        ran.says(&["the same copy is already running", "hint: wait for the other run"]);
        assert_eq!(ran.err.matches("wait").count(), 1, "{}", ran.err);
        running.assert_unfinished();
        // Another job with the same target directory may run at the same time.
        let other = file(&line.place.path().join("other"), 1000);
        let target = if way == Way::Push { line.host.at(&line.target) } else { line.target.clone().into() };
        let typed = if way == Way::Push { other.clone().into() } else { line.host.at(&other) };
        Copy::across(&line.link).to(&line.host).arg(typed).arg(target).run_to(0);
        assert_same(&other, &line.target.join("other"));
        running.assert_unfinished();
        running.signal(Signal::CONT);
        assert_eq!(running.end().code, Some(0));
        fs::remove_file(line.target.join("other")).unwrap();
        std::fs::File::open(&line.target)
            .unwrap()
            .set_modified(fs::metadata(&line.source).unwrap().modified().unwrap())
            .unwrap();
        assert_same(&line.source, &line.target);
    });
}

/// The four cases run at the same time, because they mostly wait until a silent peer is given up.
#[test]
fn a_line_that_is_cut() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| both_ways(cut_for_good));
        scope.spawn(|| both_ways(cut_and_mended));
    });
}

fn cut_for_good(way: Way) {
    let line = Line::new();
    let mut running = line.copy(way).options("--itemize --retry-for 3s").start();
    running.wait_until_under_way();
    line.link.cut();
    let ran = running.end();
    assert_eq!(ran.code, Some(1), "{way:?} {}", ran.err);
    ran.says(&["throwaway", "connection lost", "hint: check the network", "to go on: "]);
    line.assert_nothing_partial();
    for (_, path) in ran.changes() {
        assert_same(&line.source.join(&path), &line.target.join(&path));
    }
}

fn cut_and_mended(way: Way) {
    let line = Line::new();
    let mut running = line.copy(way).options("--itemize --retry-for 5m").start();
    running.wait_until_under_way();
    line.link.cut();
    // Long enough for this side to give the connection up.
    let noticed = || running.events().iter().any(|event| event["event"] == "notice");
    wait_until("the loss is noticed", Duration::from_secs(60), noticed);
    line.link.mend();
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{way:?} {}", ran.err);
    ran.says(&["connection lost", "trying again", "without it", "are not listed"]);
    let (listed, mut names) = (ran.changes(), ran.changes());
    names.dedup_by(|one, other| one.1 == other.1);
    assert_eq!(listed, names, "each entry is listed once");
    assert!(listed.contains(&("create".to_owned(), "large".to_owned())), "{listed:?}");
    let outages = &ran.report["outages"];
    assert!(outages["count"].as_u64() >= Some(1) && outages["seconds"].as_f64() > Some(0.0), "{outages:#}");
    assert_same(&line.source, &line.target);
    line.host.wait_for_no_agent();
    assert!(drafts(&line.target).is_empty());
}

/// A short interruption of the link is not reported.
#[test]
fn a_line_that_is_cut_for_a_moment() {
    if no_root() {
        return;
    }
    let line = Line::new();
    let mut running = line.copy(Way::Push).start();
    running.wait_until_under_way();
    line.link.cut();
    std::thread::sleep(Duration::from_secs(1));
    running.assert_unfinished();
    line.link.mend();
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("connection lost"), "{}", ran.err);
    assert_same(&line.source, &line.target);
}
