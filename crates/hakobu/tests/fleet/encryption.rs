//! Fleets whose connections are encrypted: NATS with the configurations of `contrib`, PostgreSQL, and the interface.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use hakobu_testkit::free_port::free_port;
use hakobu_testkit::nats::NatsServer;
use hakobu_testkit::postgres::{PostgresOptions, PostgresServer};
use serde_json::Value;
use tempfile::TempDir;

use crate::authority::TestAuthority;
use crate::control_plane::TestControlPlane;
use crate::processes::{HAKOBU, SOON, TestProcess, run_to_end, wait_until};
use crate::small_fleet::GROUP;
use crate::trees;

const CONFIGURATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/nats");
const USERS: [&str; 5] = ["control-site-a", "broker-site-a", "control-site-b", "broker-site-b", "admin"];

/// Returns the password of a user.
fn password(user: &str) -> String {
    format!("password-of-{user}")
}

/// Returns a server with a configuration of `contrib`, whose places are replaced, and the port of its own page.
fn server_of(
    file: &str,
    name: &str,
    authority: &TestAuthority,
    more: &[(&str, String)],
) -> (NatsServer, u16) {
    let folder = TempDir::with_prefix("nats.").unwrap();
    let read = |file: &str| fs::read_to_string(Path::new(CONFIGURATIONS).join(file)).unwrap();
    let (port, page) = (free_port().unwrap(), free_port().unwrap());
    let mut text = read(file);
    let own = [
        ("/etc/nats/", authority.file("")),
        ("/var/lib/nats", folder.path().join("data").to_str().unwrap().to_owned()),
        ("0.0.0.0:4222", format!("127.0.0.1:{port}")),
        ("127.0.0.1:8222", format!("127.0.0.1:{page}")),
    ];
    for (from, to) in own.iter().chain(more) {
        assert!(text.contains(from), "{file} has no {from}");
        text = text.replace(from, to);
    }
    fs::write(folder.path().join("server.conf"), text).unwrap();
    fs::write(folder.path().join("accounts.conf"), read("accounts.conf")).unwrap();
    let variable = |user: &str| format!("{}_PASSWORD", user.to_uppercase().replace('-', "_"));
    let mut environment: Vec<_> = USERS.iter().map(|user| (variable(user), password(user))).collect();
    environment.push(("SERVER_NAME".to_owned(), name.to_owned()));
    (NatsServer::of_folder(folder, port, &environment), page)
}

/// A folder with the files of a fleet: passwords, logs and trees.
struct EncryptedFleet {
    place: TempDir,
    authority: TestAuthority,
    /// The URLs of the servers of NATS.
    nats: String,
}

impl EncryptedFleet {
    fn new(authority: TestAuthority, servers: &[&NatsServer]) -> Self {
        let urls = servers.iter().map(|server| format!("tls://localhost:{}", server.port()));
        let fleet = Self {
            place: TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap(),
            nats: urls.collect::<Vec<_>>().join(","),
            authority,
        };
        for user in USERS {
            fs::write(fleet.path(user), password(user)).unwrap();
        }
        let groups = format!(
            "[{GROUP}]\nservers = \"{}\"\nuser = \"control-{GROUP}\"\npassword-file = \"control-{GROUP}\"\nca = \"{}\"\n",
            fleet.nats,
            fleet.authority.file("ca.pem")
        );
        fs::write(fleet.path("groups.toml"), groups).unwrap();
        fleet
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Starts a control plane with the certificate of the authority.
    fn serve(&self, more: &[&str]) -> TestControlPlane {
        let groups = self.path("groups.toml");
        let (certificate, key) = (self.authority.file("server.pem"), self.authority.file("server.key"));
        let arguments =
            ["--no-broker", "--nats-groups", groups.to_str().unwrap(), "--tls-certificate", &certificate];
        let arguments = [&arguments[..], &["--tls-key", &key], more].concat();
        let authorities = Some(self.authority.path("ca.pem"));
        TestControlPlane::start_trusted(&self.path("control"), &arguments, authorities)
    }

    /// Starts a broker.
    fn broker(&self, name: &str, servers: &str, more: &[&str]) -> TestProcess {
        let state = self.path(&format!("{name}.state"));
        fs::create_dir_all(&state).unwrap();
        let user = format!("broker-{GROUP}");
        let mut command = Command::new(HAKOBU);
        command
            .args(["broker", "--group", GROUP, "--name", name, "--nats", servers, "--nats-user", &user])
            .arg("--nats-password-file")
            .arg(self.path(&user))
            .args(more)
            .env("HAKOBU_STATE", state)
            .env("HAKOBU_SETTINGS", "none");
        TestProcess::start(command, &self.path(&format!("{name}.log")))
    }

    /// Copies a tree with a broker that trusts the authority.
    fn copy_tree(&self, control: &TestControlPlane) {
        let _broker = self.broker("one", &self.nats, &["--nats-ca", &self.authority.file("ca.pem")]);
        control.wait_for_brokers(1);
        let (source, target) = (self.path("source"), self.path("target"));
        fs::create_dir(&source).unwrap();
        trees::make(&source, 4, 20);
        let run = control.copy(GROUP, &source, &target);
        let view = control.finish(run, SOON);
        assert_eq!(view["state"], "complete", "{view:#}");
        trees::assert_equal(&source, &target);
    }
}

#[test]
fn every_connection_of_a_fleet_can_be_encrypted() {
    let authority = TestAuthority::new();
    let (mut nats, _page) = server_of("one.conf", "one", &authority, &[]);
    nats.restart().unwrap();
    let (certificate, key) = (authority.read("server.pem"), authority.read("server.key"));
    // Without TLS nobody is let in from the network.
    let database = PostgresServer::start_with(&PostgresOptions {
        access: Some("local all all trust\nhostssl all all all trust\n"),
        certificate: Some((&certificate, &key)),
        lines: "fsync = off\n",
        ..PostgresOptions::default()
    })
    .unwrap();
    let fleet = EncryptedFleet::new(authority, &[&nats]);
    let ledger =
        |mode: &str| format!("postgres://hakobu@localhost:{}/postgres?sslmode={mode}", database.port());
    let trusted = format!("{}&sslrootcert={}", ledger("verify-full"), fleet.authority.file("ca.pem"));
    let control = fleet.serve(&["--ledger", &trusted]);
    assert!(control.client.server().starts_with("https://"), "{}", control.client.server());
    fleet.copy_tree(&control);
    let sessions = database.sql("SELECT count(*) FROM pg_stat_ssl WHERE ssl").unwrap();
    assert!(sessions.trim().parse::<u32>().unwrap() > 0, "{sessions}");
    let (code, shown) = control.fleet("run list");
    assert!(code == 0 && shown.contains("complete"), "{shown}");
    let (code, shown) = control.fleet_trusting("run list", None);
    assert!(code == 1 && shown.contains("certificate") && shown.contains("--tls-ca FILE"), "{shown}");

    // One that waits to lead encrypts as well.
    let key = fleet.path("control/key");
    let more = ["--name", "standby", "--key-file", key.to_str().unwrap()];
    let standby = control.start_standby(&fleet.path("standby"), &more);
    wait_until("the standby", SOON, || standby.log().contains("leads, and this one waits at https://"));
    let log = standby.log();
    let url = log.rsplit_once("waits at ").and_then(|(_, rest)| rest.lines().next()).unwrap();
    let waiting = control.client_of(url);
    let refused = waiting.get::<Value>("/api/v1/runs").unwrap_err().to_string();
    assert!(refused.contains("this control plane waits, and"), "{refused}");
    let port = url.rsplit_once(':').unwrap().1.parse().unwrap();
    assert!(!page_of(port, "/readyz").contains("HTTP/1"), "it answers without encryption");

    // Who trusts another authority, or nobody but those of the system, connects to nothing.
    let other = TestAuthority::new();
    for (name, more) in [("stranger", vec![]), ("misled", vec!["--nats-ca".to_owned(), other.file("ca.pem")])]
    {
        let more: Vec<&str> = more.iter().map(String::as_str).collect();
        let broker = fleet.broker(name, &fleet.nats, &more);
        wait_until("a refusal", SOON, || broker.log().contains("certificate"));
        assert!(!broker.log().contains("connected"), "{}", broker.log());
    }
    let untrusted = format!("{}&sslrootcert={}", ledger("verify-full"), other.file("ca.pem"));
    for (url, words) in [(untrusted, "certificate"), (ledger("disable"), "pg_hba.conf")] {
        let mut command = Command::new(HAKOBU);
        command.args(["serve", "--listen", "127.0.0.1:0", "--no-broker", "--ledger", &url, "--data"]);
        command.arg(fleet.path("other"));
        let (code, said) = run_to_end(command, &fleet.path("other.log"));
        assert!(code != Some(0) && said.contains(words), "{url}: {said}");
    }
    let brokers: Vec<Value> = control.client.list("/api/v1/brokers", &[], 100).unwrap();
    assert_eq!(brokers.len(), 1, "{brokers:?}");
}

#[test]
fn three_servers_of_nats_prove_themselves_to_each_other() {
    let authority = TestAuthority::new();
    let ports = [free_port().unwrap(), free_port().unwrap(), free_port().unwrap()];
    let names = ["nats1", "nats2", "nats3"];
    let mut nodes: Vec<_> = (0..3)
        .map(|own| {
            let mut more = vec![("0.0.0.0:6222", format!("127.0.0.1:{}", ports[own]))];
            let routes = ["nats1:6222", "nats2:6222", "nats3:6222"];
            more.extend(routes.into_iter().zip(ports.map(|port| format!("127.0.0.1:{port}"))));
            server_of("node.conf", names[own], &authority, &more)
        })
        .collect();
    nodes.iter_mut().for_each(|(server, _)| server.spawn().unwrap());
    let servers: Vec<&NatsServer> = nodes.iter().map(|(server, _)| server).collect();
    let fleet = EncryptedFleet::new(authority, &servers);
    let control = fleet.serve(&[]);
    fleet.copy_tree(&control);
    // All three keep the offers.
    wait_until("three replicas", SOON, || {
        page_of(nodes[0].1, "/jsz?accounts=true&streams=true&config=true").contains("\"num_replicas\": 3")
    });
    let routes = page_of(nodes[0].1, "/routez");
    assert!(routes.contains("nats2") && routes.contains("nats3"), "{routes}");
}

/// Returns a page that a server of NATS shows on loopback.
fn page_of(port: u16, path: &str) -> String {
    let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { return String::new() };
    let mut page = String::new();
    // A server that encrypts ends the connection at any time, or sends an alert.
    let asked = write!(stream, "GET {path} HTTP/1.0\r\n\r\n");
    match asked.and_then(|()| stream.read_to_string(&mut page)) {
        Ok(_) => page,
        Err(_) => String::new(),
    }
}

#[test]
fn nothing_goes_beyond_this_machine_without_encryption() {
    let place = tempfile::tempdir().unwrap();
    let nats = ["--nats", "nats://192.0.2.1:4222"];
    let serve = |more: &[&str]| {
        let mut command = Command::new(HAKOBU);
        command.args(["serve", "--no-broker", "--data"]).arg(place.path().join("data")).args(more);
        command
    };
    let mut broker = Command::new(HAKOBU);
    broker.args(["broker", "--group", GROUP]).args(nats);
    let mut fleet = Command::new(HAKOBU);
    fleet
        .args(["fleet", "run", "list", "--server", "http://192.0.2.1:8420"])
        .env("HAKOBU_FLEET_TOKEN", "hkb_x");
    for (mut command, words) in [
        (serve(&["--listen", "0.0.0.0:0"]), "beyond this machine, TLS is needed"),
        (serve(&["--listen", "[::]:0"]), "--tls-certificate"),
        (
            serve(&[&nats[..], &["--listen", "127.0.0.1:0", "--nats-group", GROUP]].concat()),
            "would not be encrypted",
        ),
        (
            serve(&["--listen", "127.0.0.1:0", "--ledger", "postgres://u@192.0.2.1/d?sslmode=prefer"]),
            "verify-full",
        ),
        (broker, "would not be encrypted"),
        (fleet, "without TLS, everybody on the way could read the token"),
    ] {
        command.env("HAKOBU_STATE", place.path()).env("HAKOBU_SETTINGS", "none");
        let shown = format!("{command:?}");
        let (code, said) = run_to_end(command, &place.path().join("log"));
        assert!(code == Some(2) && said.contains(words), "{shown}: {said}");
    }
}
