//! Copies between a host and a store that the host opens itself. Only the host has credentials.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_testkit::sshd::SshdOptions;
use hakobu_testkit::stores::StoreServer;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use crate::program::*;

/// The options with which the source's host opens the store.
const FROM: &str = "--open-at source --profile there";
const TO: &str = "--open-at target --profile there";

/// A host with a profile `there` that leads to a bucket.
struct HostWithBucket {
    place: TempDir,
    server: StoreServer,
    host: Host,
}

impl HostWithBucket {
    fn up() -> Self {
        let (place, server) = (place(), StoreServer::versitygw().unwrap());
        server.make_bucket("bucket").unwrap();
        let config = place.path().join("config");
        let profile = format!(
            "[profile there]\naws_access_key_id = {}\naws_secret_access_key = {}\nendpoint_url = {}\nregion = us-east-1\n",
            server.access_key, server.secret_key, server.endpoint
        );
        fs::write(&config, profile).unwrap();
        let set = |name: &str, value: &Path| (name.to_owned(), value.display().to_string());
        let options = SshdOptions {
            path_dirs: vec![Path::new(HAKOBU).parent().unwrap().to_owned()],
            set_env: vec![
                set("AWS_CONFIG_FILE", &config),
                set("AWS_SHARED_CREDENTIALS_FILE", Path::new("/dev/null")),
                set("AWS_EC2_METADATA_DISABLED", Path::new("true")),
                set("HAKOBU_STATE", &place.path().join("state there")),
            ],
            ..SshdOptions::default()
        };
        Self { host: Host::with(&options), place, server }
    }

    /// Prepares a run on a machine without credentials.
    fn with(&self, copy: Copy) -> Copy {
        copy.to(&self.host)
            .env("AWS_CONFIG_FILE", "/dev/null")
            .env("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("HAKOBU_STATE", self.place.path().join("state"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn object(&self, key: &str) -> PathBuf {
        self.server.data().join("bucket").join(key)
    }
}

fn route(ran: &Ran) -> Vec<&str> {
    ran.report["route"].as_array().unwrap().iter().map(|machine| machine.as_str().unwrap()).collect()
}

#[test]
fn the_host_opens_the_store_with_its_own_credentials() {
    let store = HostWithBucket::up();
    let source = tree(&store.path("source"));
    let (up, there) = (store.host.at(contents(&source)), OsString::from("s3://bucket/tree/"));
    let ends = [up.as_os_str(), &there];
    let plan = store.with(Copy::new()).options(FROM).arg("--dry-run").args(ends).run_to(0);
    assert!(plan.err.contains("route: throwaway -> s3://bucket"), "{}", plan.err);
    assert!(!store.object("tree").exists());

    let ran = store.with(Copy::new()).options(FROM).args(ends).run_to(0);
    assert_eq!(route(&ran), ["throwaway", "s3://bucket"]);
    let (requests, wire) = (&ran.report["requests"], &ran.report["bytes"]["wire_sent"]);
    assert!(requests["target"]["put"].as_u64() >= Some(300) && wire.is_null(), "{requests:#} {wire}");
    assert!(requests["source"].is_null(), "{requests:#}");
    assert!(store.object("tree/large").exists());
    assert!(!store.path("state/uploads").exists(), "journals are where the store is opened");

    let again = store.with(Copy::new()).options(FROM).args(ends).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0));
    store.with(Copy::verify()).options(FROM).args(ends).run_to(0);
    fs::write(source.join("large"), "other").unwrap();
    fs::remove_file(source.join("empty file")).unwrap();
    let found = store.with(Copy::verify()).options(FROM).args(ends).run_to(4);
    assert!(found.entries("examined") > 0, "{:#}", found.report);
    let synced = store.with(Copy::sync()).options(FROM).arg("--delete").args(ends).run_to(0);
    assert_eq!((synced.entries("updated"), synced.entries("deleted")), (1, 1));

    let back = store.path("back");
    let down = [there.clone(), store.host.at(&back)];
    let ran = store.with(Copy::new()).options(TO).args(&down).run_to(0);
    assert_eq!(route(&ran), ["s3://bucket", "throwaway"]);
    assert!(ran.report["requests"]["source"]["get"].as_u64() > Some(0), "{:#}", ran.report);
    assert_same(&source, &back);

    // This machine itself has no credentials, and says where they are missing.
    let refused = store.with(Copy::new()).options("--transport sftp").args(ends).run_to(1);
    assert!(!refused.err.contains("the store is opened on"), "{}", refused.err);
    let refused = store.with(Copy::new()).options("--open-at source").args(ends).run_to(1);
    assert!(refused.err.contains("the store is opened on throwaway"), "{}", refused.err);
}

/// Copies a tree from a host to a store that only the host can open, and back; also as a job.
fn check_host_of(server: &StoreServer, location: &str, environment: &[(&str, &str)]) {
    server.make_bucket("bucket").unwrap();
    let place = place();
    let path = |name: &str| place.path().join(name);
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let mut set_env: Vec<_> = environment.iter().map(own).collect();
    set_env.push(("HAKOBU_STATE".to_owned(), path("state there").display().to_string()));
    let options = SshdOptions {
        path_dirs: vec![Path::new(HAKOBU).parent().unwrap().to_owned()],
        set_env,
        ..SshdOptions::default()
    };
    let host = Host::with(&options);
    let copy = || {
        let copy = Copy::new().to(&host).env("HAKOBU_STATE", path("state"));
        // Credentials of this machine must not matter.
        copy.env("NO_GCE_CHECK", "true").env("AZURE_STORAGE_KEY", "bm8ga2V5")
    };
    let source = tree(&path("source"));
    let (there, up) = (OsString::from(format!("{location}tree/")), host.at(contents(&source)));
    let ran = copy().options("--open-at source").args([up.as_os_str(), &there]).run_to(0);
    assert_eq!(route(&ran), ["throwaway", location.trim_end_matches('/')]);
    let again = copy().options("--open-at source").args([up.as_os_str(), &there]).run_to(0);
    assert_eq!((again.entries("created"), again.entries("updated")), (0, 0));

    let back = path("back");
    let down = host.at(&back);
    let job = |line: &[&OsStr]| {
        let mut command = std::process::Command::new(HAKOBU);
        command.args(line).env("HAKOBU_STATE", path("state")).env("HAKOBU_SETTINGS", "none");
        let output = command.env("HAKOBU_SSH", host.sshd.ssh_command()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    let id = job(&["copy", "--open-at=target", "--detach"]
        .map(OsStr::new)
        .into_iter()
        .chain([&*there, &down])
        .collect::<Vec<_>>());
    job(&["jobs", "attach", &id].map(OsStr::new));
    assert_same(&source, &back);
}

#[test]
fn a_host_opens_azure_with_its_own_credentials() {
    let server = StoreServer::azurite().unwrap();
    let account = format!(
        "DefaultEndpointsProtocol=http;AccountName={};AccountKey={};BlobEndpoint={};",
        server.access_key, server.secret_key, server.endpoint
    );
    check_host_of(&server, "az://bucket/", &[("AZURE_STORAGE_CONNECTION_STRING", &account)]);
}

#[test]
fn a_host_opens_gcs_with_its_own_credentials() {
    let server = StoreServer::fake_gcs().unwrap();
    check_host_of(&server, "gs://bucket/", &[("STORAGE_EMULATOR_HOST", &server.endpoint)]);
}

#[test]
fn secrets_of_this_machine_stay_here() {
    const SECRET: &str = "Very+Secret/Key";
    let store = HostWithBucket::up();
    let source = file(&store.path("source"), 100_000);
    // Everything that goes to the host: the command line of ssh, and its standard input.
    let (ssh, sent) = (store.path("ssh"), store.path("sent"));
    let command = store.host.sshd.ssh_command();
    let script = format!(
        "#!/bin/bash\nprintf '%s\\n' \"$@\" >> {0}\nexec {command} \"$@\" < <(tee -a {0})\n",
        sent.display()
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    let copy = store.with(Copy::new()).env("HAKOBU_SSH", &ssh).env("AWS_ACCESS_KEY_ID", "HEREKEY");
    let copy = copy.env("AWS_SECRET_ACCESS_KEY", SECRET).env("AWS_SESSION_TOKEN", SECRET).options(FROM);
    copy.args([store.host.at(&source), "s3://bucket/file".into()]).run_to(0);
    let sent = String::from_utf8_lossy(&fs::read(&sent).unwrap()).into_owned();
    assert!(sent.contains("bucket") && sent.contains("there"), "the request was not recorded");
    assert!(!sent.contains(SECRET) && !sent.contains("HEREKEY"));
    assert_eq!(fs::read(store.object("file")).unwrap(), fs::read(&source).unwrap());
}

#[test]
fn a_stop_or_a_lost_connection_ends_the_run_there() {
    let store = HostWithBucket::up();
    let source = store.path("source");
    fs::create_dir(&source).unwrap();
    (0..8).for_each(|number| drop(file(&source.join(number.to_string()), 6_000_000)));
    let ends = [store.host.at(&source), "s3://bucket/stopped".into()];
    let slow = || store.with(Copy::new()).options(FROM).options("--bwlimit 6M").args(&ends);

    let mut running = slow().start();
    running.wait_until_under_way();
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    store.host.wait_for_no_agent();

    let mut running = slow().start();
    running.wait_until_under_way();
    running.signal(Signal::KILL);
    running.end();
    store.host.wait_for_no_agent();

    let mut running = slow().arg("--retry-for").arg("0s").start();
    running.wait_until_under_way();
    store.host.agents().into_iter().for_each(|agent| kill_process(agent, Signal::KILL).unwrap());
    let ran = running.end();
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("talking to the agent on throwaway"), "{}", ran.err);

    let ends = [store.host.at(&source), "s3://bucket/lost".into()];
    let mut running = store.with(Copy::new()).options(FROM).options("--bwlimit 8M").args(&ends).start();
    running.wait_until_under_way();
    store.host.agents().into_iter().for_each(|agent| kill_process(agent, Signal::KILL).unwrap());
    let ran = running.end();
    assert_eq!((ran.code, ran.report["outages"]["count"].as_u64()), (Some(0), Some(1)), "{}", ran.err);
    let held: Vec<_> = (0..8).map(|number| store.object(&format!("lost/source/{number}"))).collect();
    assert!(held.iter().all(|object| object.metadata().unwrap().len() == 6_000_000));
}

#[test]
fn a_store_that_does_not_answer_keeps_no_agent() {
    let store = HostWithBucket::up();
    let source = file(&store.path("source"), 1000);
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let copy = store.with(Copy::new()).options(FROM).args(["--endpoint", &endpoint]);
    let running = copy.args([store.host.at(&source), "s3://bucket/file".into()]).start();
    let (asked, _) = silent.accept().unwrap();
    running.signal(Signal::INT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    wait_until("the agent is gone", Duration::from_secs(20), || store.host.agents().is_empty());
    drop(asked);
}

#[test]
fn a_store_is_opened_on_hosts_with_hakobu_only() {
    let place = place();
    let host = Host::with(&SshdOptions::default());
    let source = file(&place.path().join("source"), 1000);
    let open = || Copy::new().to(&host).options("--open-at source");
    let ran = open().args([host.at(&source).as_os_str(), OsStr::new("null://")]).run_to(1);
    assert!(ran.err.contains("--open-at takes hakobu there"), "{}", ran.err);
    let ran = open().args([source.as_os_str(), OsStr::new("null://")]).run_to(2);
    assert!(ran.err.contains("the source is on no host that ssh reaches"), "{}", ran.err);
    assert_eq!(host.logins(), 1);
}
