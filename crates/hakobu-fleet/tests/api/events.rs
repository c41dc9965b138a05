//! Tests of the stream of events.

use std::time::{Duration, Instant};

use hakobu_fleet::broker::BrokerSighting;
use hakobu_fleet::change::LedgerChange;
use hakobu_fleet::fleet_clock::{FleetClock, MachineClock};
use hakobu_fleet::names::{BrokerName, GroupName};
use hakobu_fleet::token::TokenRole;
use serde_json::Value;

use crate::http::Connection;
use crate::test_server::{TestServer, relationship};

fn watch(server: &TestServer, token: &str, more: &[(&str, &str)]) -> Connection {
    watch_on(Connection::new(server.address), token, more)
}

fn watch_on(mut connection: Connection, token: &str, more: &[(&str, &str)]) -> Connection {
    let bearer = format!("Bearer {token}");
    // With the stream, the connection ends.
    let always = [("Authorization", bearer.as_str()), ("Connection", "close")];
    connection.request("GET /api/v1/events", &[&always, more].concat(), b"");
    let (status, headers) = connection.head();
    assert_eq!(status, 200);
    assert!(headers.iter().any(|(name, value)| name == "content-type" && value == "text/event-stream"));
    connection
}

/// Returns the name, the number and the data of the next event.
fn next_event(connection: &mut Connection) -> Option<(String, String, Value)> {
    let (mut name, mut id, mut data) = (String::new(), String::new(), Value::Null);
    loop {
        let line = connection.line()?;
        if let Some(text) = line.strip_prefix("event: ") {
            text.clone_into(&mut name);
        } else if let Some(text) = line.strip_prefix("id: ") {
            text.clone_into(&mut id);
        } else if let Some(text) = line.strip_prefix("data: ") {
            data = serde_json::from_str(text).unwrap();
        } else if line.is_empty() && !name.is_empty() {
            return Some((name, id, data));
        }
    }
}

fn see_broker(server: &TestServer, number: usize, version: &str) {
    let sighting = BrokerSighting {
        name: BrokerName::new(format!("broker-{number}")).unwrap(),
        group: GroupName::new("site-a").unwrap(),
        version: version.to_owned(),
        now: MachineClock.moment(),
    };
    server.plane.handle().apply(LedgerChange::SeeBroker(sighting)).unwrap();
}

#[test]
fn whoever_watches_is_told_and_told_again_after_a_break() {
    let server = TestServer::start();
    let admin = server.token(TokenRole::Admin);
    let mut first = watch(&server, &admin, &[]);
    assert_eq!(next_event(&mut first).unwrap().0, "hello");
    assert_eq!(server.call("POST /api/v1/relationships", &admin, &relationship("one")).status, 201);
    let (name, id, data) = next_event(&mut first).unwrap();
    assert_eq!((name.as_str(), data["name"].as_str()), ("relationship", Some("one")));
    drop(first);
    let answer = server.call("POST /api/v1/relationships/1/runs", &admin, &Value::Null);
    assert_eq!(answer.status, 201, "{answer:?}");
    let busy = server.call("POST /api/v1/relationships/1/runs", &admin, &Value::Null);
    assert_eq!((busy.status, busy.kind().as_str()), (409, "run_open"));
    let mut second = watch(&server, &admin, &[("Last-Event-ID", &id)]);
    assert_eq!(next_event(&mut second).unwrap().0, "hello");
    let (name, _, data) = next_event(&mut second).unwrap();
    assert_eq!((name.as_str(), data["state"].as_str()), ("run", Some("running")), "{data}");
    let mut third = watch(&server, &admin, &[("Last-Event-ID", "0-7")]);
    assert_eq!(next_event(&mut third).unwrap().0, "hello");
    assert_eq!(next_event(&mut third).unwrap().0, "reset");
}

/// The number of times that all brokers change.
const ROUNDS: usize = 15;

#[test]
fn a_slow_reader_is_cut_off_and_others_are_not() {
    let server = TestServer::start();
    let token = server.token(TokenRole::Viewer);
    let mut slow = watch_on(Connection::narrow(server.address), &token, &[]);
    let mut quick = watch(&server, &token, &[]);
    next_event(&mut quick).unwrap();
    let reader = std::thread::spawn(move || {
        let mut count = 0;
        while let Some((name, ..)) = next_event(&mut quick) {
            count += usize::from(name == "broker");
            if count >= ROUNDS * 400 {
                break;
            }
        }
        count
    });
    let began = Instant::now();
    for round in 0..ROUNDS {
        // Versions are long, so that what waits is more than sockets hold.
        let version = format!("{round}{}", "x".repeat(60));
        (0..400).for_each(|number| see_broker(&server, number, &version));
        std::thread::sleep(Duration::from_millis(1200));
    }
    assert_eq!(reader.join().unwrap(), ROUNDS * 400, "{:?}", began.elapsed());
    let mut count = 0;
    while next_event(&mut slow).is_some() {
        count += 1;
        assert!(count <= ROUNDS * 400, "it was not cut off: it got everything");
    }
    assert!(slow.has_end() && count < ROUNDS * 400, "it was not cut off: {count} events");
    println!("the slow reader got {count} events");
}

#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let server = TestServer::start();
    let admin = server.token(TokenRole::Admin);
    let made =
        server.call("POST /api/v1/tokens", &admin, &serde_json::json!({"label": "x", "role": "viewer"}));
    let made = made.json();
    let mut stream = watch(&server, made["secret"].as_str().unwrap(), &[]);
    next_event(&mut stream).unwrap();
    see_broker(&server, 1, "1");
    assert_eq!(next_event(&mut stream).unwrap().0, "broker");
    let line = format!("DELETE /api/v1/tokens/{}", made["token"]["id"]);
    assert_eq!(server.call(&line, &admin, &Value::Null).status, 204);
    see_broker(&server, 2, "1");
    assert!(next_event(&mut stream).is_none());
}
