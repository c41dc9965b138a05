//! Logs as JSON, health and readiness over HTTP: for those who watch the processes of a fleet.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use hakobu_testkit::free_port::free_port;
use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use hakobu_testkit::postgres::PostgresServer;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;
use crate::processes::{HAKOBU, SOON, TestProcess, wait_until};
use crate::small_fleet::GROUP;

/// Asks without a token. Returns the status and the body; the status is 0 if nothing answers.
pub fn ask(address: SocketAddr, path: &str) -> (u16, String) {
    let limit = Duration::from_secs(10);
    let answer = TcpStream::connect_timeout(&address, limit).and_then(|mut stream| {
        stream.set_read_timeout(Some(limit))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map(|_| answer)
    });
    let Ok(answer) = answer else { return (0, String::new()) };
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    (status, body.to_owned())
}

/// Returns an answer as JSON, with its status.
pub fn ask_json(address: SocketAddr, path: &str) -> (u16, Value) {
    let (status, body) = ask(address, path);
    (status, serde_json::from_str(&body).unwrap_or_default())
}

/// Returns an address of this machine that nobody uses.
fn free_address() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], free_port().unwrap()))
}

/// Checks that each line of a log has exactly these members besides those that all have. Returns the messages.
#[track_caller]
fn messages(log: &str, names: &[(&str, &str)]) -> Vec<String> {
    let message = |line: &str| {
        let object: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!((&object["schema"], &object["level"]), (&"hakobu.log/1".into(), &"note".into()), "{line}");
        let time: jiff::Timestamp = object["time"].as_str().unwrap().parse().unwrap();
        assert!(
            time.duration_since(jiff::Timestamp::now()).abs() < jiff::SignedDuration::from_mins(5),
            "{line}"
        );
        names.iter().for_each(|(name, value)| assert_eq!(object[*name], *value, "{line}"));
        assert_eq!(object.as_object().unwrap().len(), names.len() + 4, "{line}");
        object["message"].as_str().unwrap().to_owned()
    };
    log.lines().map(message).collect()
}

/// Starts a broker that tells its state at an address, which is returned.
fn broker_with_health(url: &str, place: &Path) -> (TestProcess, SocketAddr) {
    let address = free_address();
    let mut command = Command::new(HAKOBU);
    command.args(["broker", "--group", GROUP, "--name", "b0", "--nats", url, "--json"]);
    command.args(["--health", &address.to_string()]).env("HAKOBU_STATE", place.join("state"));
    command.env("HAKOBU_SETTINGS", "none");
    (TestProcess::start(command, &place.join("b0.log")), address)
}

#[test]
fn a_broker_that_nobody_answers_says_so() {
    let nats = NatsServer::start(&NatsConfiguration::default()).unwrap();
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let (_broker, address) = broker_with_health(&nats.url(), place.path());
    wait_until("the connection", SOON, || ask_json(address, "/readyz").1["connected"] == true);
    let (status, health) = ask_json(address, "/readyz");
    assert_eq!((status, &health["ready"]), (503, &false.into()), "{health}");
    assert!(health["trouble"].is_string(), "{health}");
}

#[test]
fn a_broker_writes_json_and_tells_its_health() {
    let mut nats = NatsServer::start(&NatsConfiguration::default()).unwrap();
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let url = nats.url();
    let arguments = ["--no-broker", "--nats", &url, "--nats-group", GROUP];
    let control = TestControlPlane::start(&place.path().join("control"), &arguments);
    let (mut broker, address) = broker_with_health(&url, place.path());
    control.wait_for_brokers(1);

    wait_until("readiness", SOON, || ask(address, "/readyz").0 == 200);
    let (status, health) = ask_json(address, "/healthz");
    assert_eq!((status, &health["schema"]), (200, &"hakobu.broker-health/1".into()), "{health}");
    assert_eq!((&health["broker"], &health["group"]), (&"b0".into(), &GROUP.into()), "{health}");
    assert_eq!((&health["ready"], &health["connected"]), (&true.into(), &true.into()), "{health}");
    assert!(health["last_answer_seconds"].as_f64().is_some_and(|seconds| seconds < 10.0), "{health}");
    assert_eq!(ask(address, "/").0, 404);

    nats.kill();
    wait_until("the loss", SOON, || ask(address, "/readyz").0 == 503);
    let (status, health) = ask_json(address, "/readyz");
    assert_eq!(
        (status, &health["ready"], &health["connected"]),
        (503, &false.into(), &false.into()),
        "{health}"
    );
    assert!(health["trouble"].is_string(), "{health}");
    assert_eq!(ask(address, "/healthz").0, 200, "the process lives");
    nats.restart().unwrap();
    wait_until("readiness again", SOON, || ask(address, "/readyz").0 == 200);

    broker.signal(Signal::TERM);
    assert_eq!(broker.wait().code(), Some(0), "{}", broker.log());
    let told = messages(&broker.log(), &[("broker", "b0"), ("group", GROUP)]);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(told[0], format!("broker b0 of group {GROUP}, hakobu {version}"));
    assert!(told.iter().any(|message| message.starts_with("connected to NATS at ")), "{told:?}");
    assert!(told.iter().any(|message| message.starts_with("no connection to NATS at ")), "{told:?}");
    assert_eq!(told.last().unwrap(), "the broker has ended");
}

#[test]
fn a_control_plane_writes_json() {
    let nats = NatsServer::start(&NatsConfiguration::default()).unwrap();
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let (folder, url) = (place.path().join("control"), nats.url());
    let arguments = ["--json", "--name", "one", "--no-broker", "--nats", &url, "--nats-group", GROUP];
    let mut control = TestControlPlane::start(&folder, &arguments);
    wait_until("the connection", SOON, || control.log().contains("connected to NATS at "));
    let told = messages(&control.log(), &[("control_plane", "one")]);
    assert!(told.iter().any(|message| message.starts_with("open http://127.0.0.1:")), "{told:?}");

    // The error with which another one ends.
    let second = Command::new(HAKOBU)
        .args(["serve", "--json", "--listen", "127.0.0.1:0", "--name", "two", "--data"])
        .arg(&folder)
        .env("HAKOBU_SETTINGS", "none")
        .output()
        .unwrap();
    assert_eq!((second.status.code(), second.stderr.len()), (Some(6), 0), "{second:?}");
    let error: Value = serde_json::from_slice(&second.stdout).unwrap();
    assert_eq!(
        (&error["level"], &error["control_plane"], &error["schema"]),
        (&"error".into(), &"two".into(), &"hakobu.log/1".into()),
        "{error}"
    );
    assert!(error["message"].as_str().unwrap().ends_with("another control plane uses it"), "{error}");
    assert!(error["hint"].as_str().unwrap().starts_with("stop that one first"), "{error}");
    control.end();
    messages(&control.log(), &[("control_plane", "one")]);
}

#[test]
fn a_standby_is_well_and_not_ready_until_it_leads() {
    let database = PostgresServer::start().unwrap();
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let (folder, url) = (place.path().join("one"), database.url());
    let mut control = TestControlPlane::start(&folder, &["--name", "one", "--no-broker", "--ledger", &url]);
    assert_eq!(ask(control.address(), "/readyz").0, 200);
    let address = free_address();
    let mut command = Command::new(HAKOBU);
    command.args([
        "serve",
        "--name",
        "two",
        "--no-broker",
        "--ledger",
        &url,
        "--listen",
        &address.to_string(),
    ]);
    command.arg("--data").arg(place.path().join("two")).arg("--key-file").arg(folder.join("key"));
    command.env("HAKOBU_SETTINGS", "none");
    let _standby = TestProcess::start(command, &place.path().join("two.log"));
    let mut health = Value::Null;
    wait_until("the standby", SOON, || {
        health = ask_json(address, "/readyz").1;
        health["leader"] == "one"
    });
    assert_eq!(
        ask_json(address, "/readyz"),
        (503, serde_json::json!({"status": "standby", "leader": "one"}))
    );
    assert_eq!(ask(address, "/healthz").0, 200, "it is well");
    let (status, problem) = ask_json(address, "/api/v1/runs");
    assert_eq!((status, &problem["kind"]), (503, &"standby".into()), "{problem}");
    assert!(problem["message"].as_str().unwrap().contains("\"one\" leads"), "{problem}");
    control.kill();
    wait_until("the new leader", SOON, || ask(address, "/readyz").0 == 200);
    assert_eq!(ask(address, "/healthz"), (200, "ok\n".to_owned()));
}
