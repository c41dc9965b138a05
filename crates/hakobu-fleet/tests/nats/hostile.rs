//! Brokers that send what they should not, as raw messages.

use std::sync::Arc;
use std::time::Duration;

use hakobu_core::path::EntryPath;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::{BrokerBus as _, LeaderBus};
use hakobu_fleet::lease_token::LeaseToken;
use hakobu_fleet::ledger::memory::MemoryLedger;
use hakobu_fleet::message::{
    BrokerCall, BrokerReport, BrokerRequest, CommittedWork, GrantedUnit, LeaderAnswer, LeaseName,
};
use hakobu_fleet::message_form::{decode, encode};
use hakobu_fleet::run::RunOutcome;
use hakobu_fleet::run_request::{FleetRequest, LocationText};
use hakobu_fleet::unit::{UnitItem, UnitWork};
use hakobu_fleet::unit_counters::UnitCounters;
use hakobu_testkit::nats::NatsServer;

use crate::fleet::Fleet;
use crate::servers::{Answering, LIMIT, Passwords, RawClient, accounts, broker_name, site, wait_until};

fn call(broker: &str, request: BrokerRequest) -> Vec<u8> {
    encode(&BrokerCall { broker: broker_name(broker), process: 1, request }).unwrap()
}

fn ask(bus: &NatsBrokerBus, broker: &str, request: BrokerRequest) -> LeaderAnswer {
    let bytes = call(broker, request);
    let mut answer = None;
    wait_until("an answer", || {
        answer = bus.call(bytes.clone(), Duration::from_secs(5)).map_err(|error| println!("{error}")).ok();
        answer.is_some()
    });
    decode(&answer.unwrap()).unwrap()
}

fn commit(lease: &LeaseName) -> BrokerRequest {
    commit_with(lease, &[])
}

/// A commit that gives away directories.
fn commit_with(lease: &LeaseName, given: &[&str]) -> BrokerRequest {
    let counters = serde_json::to_string(&UnitCounters::default()).unwrap();
    let items: Vec<_> = given.iter().map(|path| UnitItem::whole(0, EntryPath::new(*path).unwrap())).collect();
    let given = if items.is_empty() { Vec::new() } else { vec![UnitWork::Items(items).encode().unwrap()] };
    let result = Box::new(CommittedWork { counters, given, ..CommittedWork::default() });
    BrokerRequest::Commit { lease: lease.clone(), result }
}

fn lease(bus: &NatsBrokerBus, broker: &str) -> GrantedUnit {
    let report = BrokerReport { version: "test".to_owned(), slots: 1, ..BrokerReport::default() };
    let answer = ask(bus, broker, BrokerRequest::Report(report));
    assert!(matches!(answer, LeaderAnswer::Orders(_)), "{answer:?}");
    match ask(bus, broker, BrokerRequest::Lease { offered: Vec::new() }) {
        LeaderAnswer::Leases(mut units) => units.pop().unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_the_broker_of_a_lease_commits_it() {
    let server = NatsServer::start(&accounts()).unwrap();
    let passwords = Passwords::new();
    let url = server.url();
    let fleet = Fleet::with_buses(Box::new(MemoryLedger::default()), LIMIT, site("site-a"), |control| {
        let bus: Arc<dyn LeaderBus> = Arc::new(passwords.leader(&url, Arc::new(control.clone())));
        Ok(vec![bus])
    });
    let [one, two] = ["one", "two"].map(|name| passwords.broker(&url, "site-a", name));
    let other_group = passwords.broker(&url, "site-b", "one");
    let text = |path: &str| LocationText(path.as_bytes().to_vec());
    let request = FleetRequest { sources: vec![text("/a")], target: text("/b"), ..FleetRequest::default() };
    let run = fleet.start(&request);
    let granted = lease(&one, "one");
    let lost = |answer: LeaderAnswer| assert_eq!(answer, LeaderAnswer::Lost);
    // Another broker of the group, and one of another group that has the same name.
    lost(ask(&two, "two", commit(&granted.lease)));
    let refused = ask(&other_group, "one", commit(&granted.lease));
    assert!(!matches!(refused, LeaderAnswer::Done), "{refused:?}");
    // A name that is not that of the subject.
    match ask(&two, "one", commit(&granted.lease)) {
        LeaderAnswer::Refused(words) => assert!(words.contains("another broker"), "{words}"),
        other => panic!("{other:?}"),
    }
    // A token that was never given.
    let token: LeaseToken = postcard::from_bytes(&[7; 16]).unwrap();
    lost(ask(&one, "one", commit(&LeaseName { token, ..granted.lease.clone() })));
    // Nobody has the lease renewed or returned either.
    let returned = BrokerRequest::Return {
        lease: granted.lease.clone(),
        cause: hakobu_fleet::transition::RefuseCause::Draining,
        error: None,
    };
    lost(ask(&two, "two", returned));
    // Nobody of another group is given its units.
    let report = BrokerReport { version: "test".to_owned(), slots: 1, ..BrokerReport::default() };
    ask(&other_group, "three", BrokerRequest::Report(report));
    let answer = ask(&other_group, "one", BrokerRequest::Lease { offered: vec![granted.lease.key] });
    assert!(!matches!(&answer, LeaderAnswer::Leases(units) if !units.is_empty()), "{answer:?}");
    // The broker itself, twice, as after a lost answer.
    for _ in 0..2 {
        assert_eq!(ask(&one, "one", commit_with(&granted.lease, &["d"])), LeaderAnswer::Done);
    }
    let child = lease(&one, "one");
    assert_ne!(child.lease.key, granted.lease.key);
    // A place outside of the unit.
    match ask(&one, "one", commit_with(&child.lease, &["e"])) {
        LeaderAnswer::Unacceptable(words) => assert!(words.contains("do not belong"), "{words}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(ask(&one, "one", commit(&child.lease)), LeaderAnswer::Done);
    let row = fleet.finish(run, LIMIT);
    assert_eq!((row.outcome, row.units.committed), (Some(RunOutcome::Complete), 2));
    lost(ask(&one, "one", commit(&granted.lease)));
}

#[test]
fn garbage_is_refused_with_words_and_harms_nobody() {
    let server = NatsServer::start(&accounts()).unwrap();
    let passwords = Passwords::new();
    let url = server.url();
    let _fleet = Fleet::with_buses(Box::new(MemoryLedger::default()), LIMIT, site("site-a"), |control| {
        let bus: Arc<dyn LeaderBus> = Arc::new(passwords.leader(&url, Arc::new(control.clone())));
        Ok(vec![bus])
    });
    let bus = passwords.broker(&url, "site-a", "good");
    let report = || BrokerRequest::Report(BrokerReport { slots: 1, ..BrokerReport::default() });
    ask(&bus, "good", report());
    let raw = RawClient::connect(&url, "broker-site-a", "hakobu.reply.site-a.evil");
    let refused = |payload: Vec<u8>| {
        let answer = raw.request("hakobu.call.site-a.evil", payload).unwrap();
        // The version, and a whole answer.
        assert_eq!(answer[..2], [1, 0], "{answer:?}");
        match decode::<LeaderAnswer>(&answer[2..]).unwrap() {
            LeaderAnswer::Refused(words) => words,
            other => panic!("{other:?}"),
        }
    };
    // Frames: none, one of another version, one of no kind.
    for (payload, words) in [(vec![], "empty"), (vec![9, 0], "version 9"), (vec![1, 77], "reading a frame")] {
        let answer = refused(payload);
        assert!(answer.contains(words), "{answer}");
    }
    // Messages: none, one of another version, one that is cut off, one with something behind it.
    let good = call("evil", report());
    let whole = |message: &[u8]| [&[1, 0], message].concat();
    assert!(refused(whole(&[])).contains("empty"));
    let other_version = refused(whole(&[&[99], &good[1..]].concat()));
    assert!(other_version.contains("it has version 99, and this program speaks"), "{other_version}");
    refused(whole(&good[..good.len() - 1]));
    refused(whole(&[&good[..], &[0]].concat()));
    // Pieces of more than can be, and without their beginning: 1 is a piece, then number, length and place.
    let piece = |length: &[u8], at: u8| [&[1, 1, 7], length, &[at], &b"data"[..]].concat();
    let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    assert!(refused(piece(&most, 0)).contains("too long"));
    assert_eq!(raw.request("hakobu.call.site-a.evil", piece(&[100], 50)), Some(vec![1, 4]));
    // Many beginnings at once: memory is bounded, and others are served.
    for number in 0..2_000_u32 {
        let id = [0x80 | (number % 128) as u8, (number / 128) as u8];
        let payload = [&[1, 1][..], &id, &[0x80, 0x80, 0x80, 0x10], &[0], &[0; 100][..]].concat();
        raw.publish("hakobu.call.site-a.evil", "hakobu.reply.site-a.evil.x", payload);
    }
    assert!(matches!(ask(&bus, "good", report()), LeaderAnswer::Orders(_)));
}

#[test]
fn answers_go_to_their_broker_alone() {
    let server = NatsServer::start(&accounts()).unwrap();
    let (passwords, url) = (Passwords::new(), server.url());
    let sink = Answering::new(<[u8]>::to_vec);
    let _leader = passwords.leader(&url, sink.clone());
    let broker = passwords.broker(&url, "site-a", "one");
    wait_until("an answer", || broker.call(b"x".to_vec(), Duration::from_secs(2)).is_ok());
    let known = sink.calls().len();
    let control = RawClient::connect(&url, "control-site-a", "hakobu.control.site-a");
    let evil = RawClient::connect(&url, "broker-site-a", "hakobu.reply.site-a.evil");
    let whole = |words: &[u8]| [&[1, 0], words].concat();
    // The server carries an answer wherever the sender says, with the rights of who answers.
    for place in [
        "hakobu.control.site-a.x",
        "hakobu.call.site-a.one",
        "hakobu.reply.site-a.one.x",
        "hakobu.reply.site-a.evil",
        "hakobu.reply.site-a.evil.x.$JS",
        "hakobu.reply.site-b.evil.x",
        "hakobu.offer.site-a",
    ] {
        evil.publish("hakobu.call.site-a.evil", place, whole(b"stray"));
    }
    let answer = evil.first_at("hakobu.reply.site-a.evil.y", || {
        evil.publish("hakobu.call.site-a.evil", "hakobu.reply.site-a.evil.y", whole(b"own"));
    });
    assert_eq!(answer.unwrap().payload[..], whole(b"own"));
    let lengths: Vec<_> = sink.calls()[known..].iter().map(|call| call.2).collect();
    assert_eq!(lengths, [3], "only the last one was taken");
    let stray = control.first_at("hakobu.control.site-a.x", || {
        evil.publish("hakobu.call.site-a.evil", "hakobu.control.site-a.x", whole(b"stray"));
    });
    assert!(stray.is_none());
}

#[test]
fn credentials_of_a_group_reach_that_group_alone() {
    let server = NatsServer::start(&accounts()).unwrap();
    let (passwords, url) = (Passwords::new(), server.url());
    let sink = Answering::new(<[u8]>::to_vec);
    let leader = passwords.leader(&url, sink.clone());
    let broker = passwords.broker(&url, "site-a", "one");
    wait_until("an offer", || {
        leader.offer(&site("site-a"), b"offer".to_vec());
        broker.next_offer(Duration::from_millis(200)).is_ok_and(|offer| offer.is_some())
    });
    let known = sink.calls().len();
    let whole = |words: &[u8]| [&[1, 0], words].concat();
    for user in ["broker-site-b", "control-site-b"] {
        let inbox =
            if user.starts_with("control") { "hakobu.control.site-b" } else { "hakobu.reply.site-b.x" };
        let stranger = RawClient::connect(&url, user, inbox);
        assert_eq!(stranger.request("hakobu.call.site-a.one", whole(b"stray")), None, "{user}");
        for subject in [">", "hakobu.>", "hakobu.call.>", "hakobu.reply.site-a.>", "$JS.>"] {
            let seen = stranger.first_at(subject, || {
                broker.call(b"secret".to_vec(), Duration::from_secs(2)).unwrap();
                leader.offer(&site("site-a"), b"offer".to_vec());
            });
            assert!(seen.is_none(), "{user} {subject} {seen:?}");
        }
    }
    // In its own group, a broker may neither lead nor change streams.
    let own = RawClient::connect(&url, "broker-site-a", "hakobu.reply.site-a.evil");
    for subject in [">", "hakobu.call.>", "hakobu.offer.>", "$JS.>"] {
        let seen = own.first_at(subject, || {
            broker.call(b"secret".to_vec(), Duration::from_secs(2)).unwrap();
            leader.offer(&site("site-a"), b"offer".to_vec());
        });
        assert!(seen.is_none(), "{subject} {seen:?}");
    }
    let control = RawClient::connect(&url, "control-site-a", "hakobu.control.site-a");
    let context = control.jetstream();
    let stream = control.run(context.stream_by_subject("hakobu.offer.site-a")).unwrap();
    for subject in [
        format!("$JS.API.STREAM.DELETE.{stream}"),
        format!("$JS.API.STREAM.PURGE.{stream}"),
        format!("$JS.API.STREAM.INFO.{stream}"),
        format!("$JS.API.STREAM.MSG.GET.{stream}"),
        format!("$JS.API.CONSUMER.DELETE.{stream}.brokers-site-a"),
        format!("$JS.API.CONSUMER.CREATE.{stream}"),
        "$JS.API.STREAM.NAMES".to_owned(),
        "hakobu.offer.site-a".to_owned(),
    ] {
        assert_eq!(own.request(&subject, b"{}".to_vec()), None, "{subject}");
    }
    assert_eq!(control.run(context.stream_by_subject("hakobu.offer.site-a")).unwrap(), stream);
    assert!(sink.calls()[known..].iter().all(|(group, _, length)| *group == site("site-a") && *length == 6));
}
