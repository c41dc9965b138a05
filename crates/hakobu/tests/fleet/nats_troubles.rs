//! NATS that is away, or refuses the control plane: everybody is told, until it works.

use std::fs;

use hakobu_testkit::nats::{NatsConfiguration, NatsServer};
use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;
use crate::processes::{SOON, wait_until};
use crate::small_fleet::{GROUP, SmallFleet};

/// Waits until NATS does not work, with these words. Returns the trouble.
fn wait_for_trouble(control: &TestControlPlane, words: &str) -> Value {
    let mut trouble = Value::Null;
    wait_until(words, SOON, || {
        trouble = control.troubles().into_iter().next().unwrap_or_default();
        trouble["problem"]["message"].as_str().is_some_and(|message| message.contains(words))
    });
    assert_eq!((&trouble["kind"], &trouble["group"]), (&"nats".into(), &GROUP.into()), "{trouble}");
    trouble
}

#[test]
fn a_server_of_nats_that_is_away_is_told_until_it_is_back() {
    let mut fleet = SmallFleet::start_over(&NatsConfiguration::default(), 30, 1, &[]);
    assert_eq!(fleet.control.fleet("status"), (0, "everything works\n".to_owned()));
    let measured = |fleet: &SmallFleet, down: u32| {
        let metrics = fleet.control.client.get_bytes("/metrics").unwrap();
        String::from_utf8(metrics).unwrap().contains(&format!("\nhakobu_fleet_nats_groups_down {down}\n"))
    };
    assert!(measured(&fleet, 0));
    fleet.nats.kill();
    let trouble = wait_for_trouble(&fleet.control, "connecting to NATS");
    assert!(measured(&fleet, 1));
    assert_eq!(trouble["problem"]["kind"], "connection_lost", "{trouble}");
    let (code, said) = fleet.control.fleet("status");
    assert!(code == 1 && said.contains("NATS does not work for the group site-a since 20"), "{said}");
    assert!(said.contains("\nhint: start nats-server there"), "{said}");
    let (code, said) = fleet.control.fleet("brokers list");
    assert!(
        code == 0 && said.contains("warning: NATS does not work for the group site-a since 20"),
        "{said}"
    );
    fleet.nats.restart().unwrap();
    wait_until("the end of the trouble", SOON, || fleet.control.troubles().is_empty());
    assert_eq!(fleet.control.fleet("status"), (0, "everything works\n".to_owned()));
}

#[test]
fn credentials_that_nats_refuses_are_told_until_they_are_mended() {
    let text = "authorization { users: [ { user: control, password: right } ] }\n".to_owned();
    let nats = NatsServer::start(&NatsConfiguration { text, environment: Vec::new() }).unwrap();
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let password = place.path().join("password");
    fs::write(&password, "wrong\n").unwrap();
    let (url, file) = (nats.url(), password.to_str().unwrap());
    let login = ["--nats-user", "control", "--nats-password-file", file];
    let arguments = [&["--no-broker", "--nats", &url, "--nats-group", GROUP], &login[..]].concat();
    let control = TestControlPlane::start(&place.path().join("control"), &arguments);
    let trouble = wait_for_trouble(&control, "the server refuses the user or the password");
    assert_eq!(trouble["problem"]["kind"], "unauthenticated", "{trouble}");
    assert!(!trouble.to_string().contains("wrong"), "{trouble}");
    let (code, said) = control.fleet("status");
    assert!(code == 1 && said.contains("--nats-password-file"), "{said}");
    fs::write(&password, "right\n").unwrap();
    wait_until("the end of the trouble", SOON, || control.troubles().is_empty());
    assert_eq!(control.fleet("status").0, 0);
}
