//! Brokers that are other than they should be: of another version, or with a clock that is wrong.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hakobu_core::event::NoObserver;
use hakobu_fleet::bus::BrokerBus;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::nats::settings::NatsOptions;
use hakobu_fleet::message::{BrokerCall, BrokerReport, BrokerRequest};
use hakobu_fleet::message_form::{MESSAGE_VERSION, encode};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_testkit::nats::NatsConfiguration;
use serde_json::{Value, json};

use crate::processes::{HAKOBU, SOON, wait_until};
use crate::small_fleet::{GROUP, OPERATIONS, SmallFleet, entries_of};

/// Returns a broker as the interface shows it.
fn broker(fleet: &SmallFleet, name: &str) -> Option<Value> {
    let brokers: Vec<Value> = fleet.control.client.list("/api/v1/brokers", &[], 100).unwrap();
    brokers.into_iter().find(|broker| broker["name"] == name)
}

#[test]
fn a_broker_of_another_form_is_refused_and_shown() {
    let fleet = SmallFleet::start_over(&NatsConfiguration::default(), 30, 1, &[]);
    let name = BrokerName::new("newer").unwrap();
    let settings = NatsOptions { servers: fleet.nats.url(), ..NatsOptions::default() }.check().unwrap();
    let group = GroupName::new(GROUP).unwrap();
    let bus = NatsBrokerBus::start(settings, group, name.clone(), Arc::new(NoObserver)).unwrap();
    let report = BrokerReport { version: "9.1.0".to_owned(), slots: 1, ..BrokerReport::default() };
    let request = BrokerRequest::Report(report);
    let mut bytes = encode(&BrokerCall { broker: name, process: 1, request }).unwrap();
    bytes[0] = MESSAGE_VERSION + 1;
    bytes.extend(b"what this form has at its end");
    wait_until("the refused broker", SOON, || {
        let _is_not_there_yet = bus.call(bytes.clone(), Duration::from_secs(5));
        broker(&fleet, "newer").is_some_and(|broker| broker["refused"].is_object())
    });
    let shown = broker(&fleet, "newer").unwrap();
    assert_eq!((&shown["state"], &shown["version"]), (&"refused".into(), &"9.1.0".into()), "{shown}");
    assert_eq!(shown["refused"]["form"], u64::from(MESSAGE_VERSION) + 1, "{shown}");
    let (code, said) = fleet.control.fleet("brokers list");
    let form = u64::from(MESSAGE_VERSION);
    let words = format!("it speaks form {} of the messages, and the control plane form {form}", form + 1);
    assert!(code == 0 && said.contains(&words) && said.contains("newer is refused since 20"), "{said}");
    assert!(!said.contains("b0 is refused"), "{said}");
}

/// Returns the library with which a program sees another time of day.
fn faketime() -> PathBuf {
    let folders = fs::read_dir("/usr/lib").unwrap().flatten();
    let mut files = folders.map(|folder| folder.path().join("faketime/libfaketime.so.1"));
    files.find(|file| file.exists()).expect("faketime is missing: ./test installs it")
}

/// Returns the program on a machine whose clock differs by so much. Clocks that nobody sets, and times of files, are right.
fn hakobu_with_clock(difference: &str) -> Command {
    let mut command = Command::new(HAKOBU);
    command.env("LD_PRELOAD", faketime()).env("FAKETIME", difference);
    for name in ["FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC", "NO_FAKE_STAT"] {
        command.env(name, "1");
    }
    command
}

#[test]
fn clocks_that_are_wrong_change_no_run_and_are_told() {
    let mut fleet = SmallFleet::start(5, 0);
    let nats = fleet.nats.url();
    fleet.add_broker_by("ahead", hakobu_with_clock("+1h"), &nats);
    fleet.add_broker_by("behind", hakobu_with_clock("-1h"), &nats);
    fleet.add_broker("right");
    let names = ["ahead", "behind", "right"];
    fleet.control.wait_for_brokers(names.len());
    let run = fleet.start_slowly();
    names.iter().for_each(|name| fleet.wait_for_work(run, name));
    let clock = |name: &str| broker(&fleet, name).unwrap()["clock_ahead_s"].as_i64();
    wait_until("the clocks", SOON, || clock("ahead").is_some() && clock("behind").is_some());
    let (ahead, behind) = (clock("ahead").unwrap(), clock("behind").unwrap());
    assert!((3_590..=3_610).contains(&ahead) && (-3_610..=-3_590).contains(&behind), "{ahead} {behind}");
    assert_eq!(clock("right"), None);
    let (code, said) = fleet.control.fleet("brokers list");
    for words in ["the clock of ahead is ", " ahead of the control plane's", "the clock of behind is "] {
        assert!(code == 0 && said.contains(words), "{said}");
    }
    assert!(!said.contains("the clock of right"), "{said}");
    // Times and rates that are shown have nothing to do with these clocks.
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    for name in names {
        let seen_ms = broker(&fleet, name).unwrap()["last_seen_ms"].as_u64().unwrap();
        assert!(now_ms.abs_diff(u128::from(seen_ms)) < 30_000, "{name}: {seen_ms} at {now_ms}");
    }
    let rate = fleet.control.run(run)["progress"]["entries_per_second"].as_u64().unwrap();
    assert!(rate <= u64::from(OPERATIONS) * 10, "{rate}");
    // A lease ends when it should, and no other one does.
    fleet.broker("ahead").kill();
    let killed = Instant::now();
    fleet.control.wait_for_run(run, "the end of a lease", |view| entries_of(view, "ahead") == 0);
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    fleet.wait_for_work(run, "behind");
    fleet.finish(run);
    for name in ["behind", "right"] {
        let log = fleet.broker(name).log();
        assert!(!log.contains("a unit is no longer this broker's"), "{log}");
    }
}

#[test]
fn ages_are_those_at_the_start_of_the_run() {
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 30, 0, &[]);
    let nats = fleet.nats.url();
    fleet.add_broker_by("ahead", hakobu_with_clock("+1h"), &nats);
    fleet.control.wait_for_brokers(1);
    fs::create_dir(fleet.source()).unwrap();
    for (name, minutes) in [("new", 10), ("old", 50)] {
        let file = File::create(fleet.source().join(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(minutes * 60)).unwrap();
    }
    let request = json!({
        "sources": [format!("{}/", fleet.source().display())],
        "target": fleet.target().display().to_string(),
        "arguments": ["--newer-than", "30m"],
    });
    let input = json!({ "group": GROUP, "request": request });
    let started: Value = fleet.control.client.send("POST", "/api/v1/runs", &input).unwrap();
    let view = fleet.control.finish(started["run"].as_u64().unwrap(), SOON);
    assert_eq!(
        (&view["state"], &view["request"]["arguments"][1]),
        (&"complete".into(), &"30m".into()),
        "{view:#}"
    );
    let copied = ["new", "old"].map(|name| fleet.target().join(name).exists());
    assert_eq!(copied, [true, false], "{view:#}");
}
