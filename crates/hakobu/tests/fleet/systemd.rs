//! The units for systemd: that it understands them, and that the control plane starts with what they pass.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hakobu_fleet::key_file::SealingKeys;
use hakobu_testkit::postgres::{PostgresOptions, PostgresServer};
use hakobu_testkit::sshd::no_root;

use crate::authority::pem_of;
use crate::processes::{HAKOBU, SOON, TestProcess, wait_until};

const UNITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../contrib/systemd");
const DROP_IN: &str = "hakobu-serve.service.d/credentials.conf";
/// The place of the program in the units.
const INSTALLED: &str = "/usr/bin/hakobu";

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(UNITS).join(name)).unwrap()
}

/// Returns the values of a key in units.
fn values<'a>(text: &'a str, key: &str) -> Vec<&'a str> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    lines.map(|value| value.trim_matches('"')).collect()
}

#[test]
fn systemd_understands_the_units() {
    let is_there = Command::new("systemd-analyze").arg("--version").output().is_ok();
    if !is_there && no_root() {
        return;
    }
    assert!(is_there, "systemd-analyze is missing: ./test installs it");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("hakobu-serve.service.d")).unwrap();
    let units = ["hakobu-serve.service", "hakobu-broker.service"];
    for name in [&units[..], &[DROP_IN]].concat() {
        fs::write(folder.path().join(name), read(name).replace(INSTALLED, HAKOBU)).unwrap();
    }
    let paths = units.map(|name| folder.path().join(name));
    let verified = Command::new("systemd-analyze").args(["verify", "--man=no"]).args(paths).output().unwrap();
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(verified.status.success() && said.trim().is_empty(), "{said}");
}

/// Puts the files that the drop-in names into a folder, as systemd does where the file system has access control lists.
fn pass_credentials(folder: &Path, drop_in: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let certificate = pem_of("CERTIFICATE", made.cert.der());
    let key = pem_of("PRIVATE KEY", &made.signing_key.serialize_der());
    let groups = "[site-a]\nservers = \"tls://localhost:1\"\nuser = \"control-site-a\"\nca = \"ca.pem\"\n\
                  password-file = \"control-site-a.password\"\n";
    for value in values(drop_in, "LoadCredential") {
        let (name, from) = value.split_once(':').unwrap();
        assert_eq!(from, format!("/etc/hakobu/{name}"));
        let path = folder.join(name);
        match name {
            "key" => drop(SealingKeys::create(&path).unwrap()),
            "tls.pem" | "ca.pem" => fs::write(&path, &certificate).unwrap(),
            "tls.key" => fs::write(&path, &key).unwrap(),
            "pgpass" => fs::write(&path, "*:*:fleet:joe:sesame\n").unwrap(),
            "groups.toml" => fs::write(&path, groups).unwrap(),
            "control-site-a.password" => fs::write(&path, "sesame\n").unwrap(),
            other => panic!("a credential without a test: {other}"),
        }
        fs::set_permissions(&path, Permissions::from_mode(0o440)).unwrap();
    }
}

#[test]
fn the_control_plane_starts_with_what_its_unit_passes() {
    let access = "local all all trust\nhost all all all scram-sha-256\n";
    let options = PostgresOptions { access: Some(access), lines: "fsync = off\n", ..Default::default() };
    let database = PostgresServer::start_with(&options).unwrap();
    database.sql("CREATE USER joe PASSWORD 'sesame'").unwrap();
    database.sql("CREATE DATABASE fleet OWNER joe").unwrap();
    let place = tempfile::tempdir().unwrap();
    let (data, credentials) = (place.path().join("data"), place.path().join("credentials"));
    fs::create_dir(&credentials).unwrap();
    let drop_in = read(DROP_IN).replace("%d", credentials.to_str().unwrap());
    pass_credentials(&credentials, &drop_in);
    let unit = read("hakobu-serve.service");
    let arguments = format!(
        "SERVE_ARGUMENTS=--listen 127.0.0.1:0 --ledger postgres://joe@127.0.0.1:{}/fleet",
        database.port()
    );
    let mut variables = values(&drop_in, "Environment");
    variables.push(&arguments);
    let [line] = values(&unit, "ExecStart")[..] else { panic!("one command is started") };
    let mut words: Vec<String> = Vec::new();
    for word in line.strip_prefix(INSTALLED).unwrap().split_whitespace() {
        match word.strip_prefix('$') {
            None => words.push(word.replace("/var/lib/hakobu-fleet", data.to_str().unwrap())),
            Some(name) => {
                let value =
                    variables.iter().find_map(|variable| variable.strip_prefix(name)?.strip_prefix('='));
                words.extend(value.unwrap().split(' ').map(str::to_owned));
            }
        }
    }
    let mut command = Command::new(HAKOBU);
    command.args(&words).env("CREDENTIALS_DIRECTORY", &credentials);
    command.envs(variables.iter().filter_map(|variable| variable.split_once('=')));
    let log: PathBuf = place.path().join("log");
    let mut process = TestProcess::start(command, &log);
    wait_until("the address", SOON, || {
        assert_eq!(process.ended(), None, "{}", process.log());
        process.log().contains("open https://127.0.0.1:")
    });
    assert!(!data.join("key").exists(), "the key file is the one that was passed");
    // Without systemd, such rights are those of a group.
    let key = SealingKeys::load(&credentials.join("key")).unwrap_err();
    assert!(key.to_string().contains("other users may use it"), "{key}");
}
