//! Requests, answers and offers, without a leader behind them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_core::error::ErrorKind;
use hakobu_fleet::bus::nats::broker::NatsBrokerBus;
use hakobu_fleet::bus::{BrokerBus, HeldOffer, LeaderBus};
use hakobu_fleet::message_form::MESSAGE_BYTES_MAX;
use hakobu_testkit::nats::NatsServer;

use crate::servers::{Answering, LIMIT, Passwords, accounts, broker_name, notices, site, wait_until};

fn echo() -> Arc<Answering> {
    Answering::new(<[u8]>::to_vec)
}

/// Asks until there is an answer.
fn ask(broker: &NatsBrokerBus, bytes: &[u8]) -> Vec<u8> {
    let mut answer = None;
    wait_until("an answer", || {
        answer =
            broker.call(bytes.to_vec(), Duration::from_secs(5)).map_err(|error| println!("{error}")).ok();
        answer.is_some()
    });
    answer.unwrap()
}

/// Pulls until there is an offer.
fn pull(broker: &NatsBrokerBus) -> Box<dyn HeldOffer> {
    let mut offer = None;
    wait_until("an offer", || {
        offer = broker.next_offer(Duration::from_millis(500)).unwrap_or_default();
        offer.is_some()
    });
    offer.unwrap()
}

#[test]
fn requests_and_answers_of_all_lengths_arrive() {
    let server = NatsServer::start(&accounts()).unwrap();
    let (passwords, sink) = (Passwords::new(), echo());
    let _leader = passwords.leader(&server.url(), sink.clone());
    let broker = passwords.broker(&server.url(), "site-a", "one");
    for length in [0, 1, 100_000, (512 << 10) - 1, 512 << 10, (512 << 10) + 1, 5 << 20, MESSAGE_BYTES_MAX] {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        let answer = ask(&broker, &bytes);
        assert!(answer == bytes, "{length} {}", answer.len());
    }
    let calls = sink.calls();
    assert!(
        calls.iter().all(|(group, name, _)| *group == site("site-a") && *name == Some(broker_name("one")))
    );
    assert_eq!(calls.len(), 8);
    // Longer than anything that a leader takes.
    let error = broker.call(vec![0; MESSAGE_BYTES_MAX + 1], LIMIT).map(|answer| answer.len());
    let refused = error.unwrap();
    assert!(refused < 1000, "{refused}");
    assert_eq!(sink.calls().len(), 8);
}

#[test]
fn offers_are_held_ended_and_given_to_others() {
    let server = NatsServer::start(&accounts()).unwrap();
    let passwords = Passwords::new();
    let leader = passwords.leader(&server.url(), echo());
    let (one, two) =
        (passwords.broker(&server.url(), "site-a", "one"), passwords.broker(&server.url(), "site-a", "two"));
    let other = passwords.broker(&server.url(), "site-b", "one");
    ask(&one, b"");
    ask(&two, b"");
    ask(&other, b"");
    let mut first = None;
    wait_until("the first offer", || {
        // Until the stream is there, offers are lost.
        leader.offer(&site("site-a"), b"first".to_vec());
        first = one.next_offer(Duration::from_millis(200)).unwrap();
        first.is_some()
    });
    // The pieces of the first ones that are there.
    while let Some(more) = one.next_offer(Duration::from_millis(300)).unwrap() {
        more.end();
    }
    leader.offer(&site("site-a"), b"second".to_vec());
    let second = pull(&two);
    assert_eq!((first.as_ref().unwrap().bytes(), second.bytes()), (&b"first"[..], &b"second"[..]));
    // It is given back.
    drop(second);
    let again = pull(&one);
    assert_eq!(again.bytes(), b"second");
    again.end();
    // Held longer than the server waits for a sign.
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(13) {
        assert!(
            two.next_offer(Duration::from_millis(500)).unwrap().is_none(),
            "it was given to another broker"
        );
    }
    assert!(other.next_offer(Duration::from_millis(100)).unwrap().is_none());
    // The broker dies with it, without a word: another one gets it.
    std::mem::forget(first);
    std::mem::drop(one);
    assert_eq!(pull(&two).bytes(), b"first");
}

#[test]
fn a_control_plane_that_does_not_lead_is_silent() {
    let server = NatsServer::start(&accounts()).unwrap();
    let (passwords, sink) = (Passwords::new(), echo());
    let leader = passwords.leader(&server.url(), sink.clone());
    let broker = passwords.broker(&server.url(), "site-a", "one");
    ask(&broker, b"one");
    leader.set_leading(false);
    wait_until("silence", || broker.call(b"two".to_vec(), Duration::from_millis(500)).is_err());
    let error = broker.call(b"three".to_vec(), Duration::from_millis(500)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost);
    assert!(error.to_string().contains("no control plane answers for the group site-a"), "{error}");
    // Another one leads.
    let other = echo();
    let _other_leader = passwords.leader(&server.url(), other.clone());
    assert_eq!(ask(&broker, b"four"), b"four");
    assert_eq!(other.calls().len(), 1);
    leader.set_leading(true);
    wait_until("both", || {
        ask(&broker, b"five");
        sink.calls().iter().any(|call| call.2 == 4)
    });
}

#[test]
fn servers_that_are_away_and_wrong_credentials_are_states_that_end() {
    let mut server = NatsServer::start(&accounts()).unwrap();
    server.kill();
    let passwords = Passwords::new();
    let _leader = passwords.leader(&server.url(), echo());
    let told = notices();
    let settings = passwords.settings(&server.url(), "broker-site-a");
    let broker = NatsBrokerBus::start(settings, site("site-a"), broker_name("one"), told.clone()).unwrap();
    wait_until("words", || broker.state().trouble.is_some());
    let state = broker.state();
    assert!(!state.is_connected && state.trouble.unwrap().contains("no server answers"));
    let error = broker.call(Vec::new(), LIMIT).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionLost);
    assert!(broker.next_offer(LIMIT).is_err());

    let wrong = passwords.with_password(&server.url(), "broker-site-a", "other");
    let refused = NatsBrokerBus::start(wrong, site("site-a"), broker_name("two"), notices()).unwrap();
    // The credentials of another group.
    let stray = passwords.settings(&server.url(), "broker-site-b");
    let stray = NatsBrokerBus::start(stray, site("site-a"), broker_name("three"), notices()).unwrap();
    server.restart().unwrap();
    assert_eq!(ask(&broker, b"here"), b"here");
    assert_eq!(broker.state().trouble, None);
    wait_until("a refusal", || {
        refused.state().trouble.is_some_and(|words| words.contains("refuses the user or the password"))
    });
    wait_until("a connection", || stray.state().is_connected);
    let error = stray.call(b"x".to_vec(), Duration::from_secs(1)).unwrap_err();
    assert!(error.to_string().contains("lacks a permission"), "{error}");
    // It was told once that there was no connection, and once that there is one.
    let down = told.all().iter().filter(|words| words.starts_with("no connection")).count();
    let up = told.all().iter().filter(|words| words.starts_with("connected")).count();
    assert_eq!((down, up), (1, 1), "{:?}", told.all());

    // Afterwards as well.
    server.kill();
    wait_until("a loss", || !broker.state().is_connected);
    server.restart().unwrap();
    assert_eq!(ask(&broker, b"again"), b"again");
}
