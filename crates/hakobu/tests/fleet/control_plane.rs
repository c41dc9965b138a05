//! `hakobu serve`, and its interface as a client sees it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use hakobu_fleet::client::FleetClient;
use hakobu_fleet::secret_bytes::SecretBytes;
use serde_json::{Value, json};

use crate::processes::{HAKOBU, SOON, TestProcess, wait_until};

/// A control plane, whose folder outlasts its processes.
pub struct TestControlPlane {
    process: TestProcess,
    folder: PathBuf,
    arguments: Vec<String>,
    token: String,
    /// The file with certificates to trust.
    authorities: Option<PathBuf>,
    pub client: FleetClient,
}

impl TestControlPlane {
    /// Starts a control plane without a broker of its own.
    pub fn start(folder: &Path, arguments: &[&str]) -> Self {
        Self::start_trusted(folder, arguments, None)
    }

    /// Starts one whose certificate is of an authority that is not the system's.
    pub fn start_trusted(folder: &Path, arguments: &[&str], authorities: Option<PathBuf>) -> Self {
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let mut process = spawn(folder, &arguments);
        let (url, once) = address(&mut process);
        let client = client(&url, &once, authorities.as_deref());
        let input = json!({ "label": "test", "role": "admin" });
        let made: Value = client.send("POST", "/api/v1/tokens", &input).unwrap();
        let token = made["secret"].as_str().unwrap().to_owned();
        let client = self::client(&url, &token, authorities.as_deref());
        Self { process, folder: folder.to_owned(), arguments, token, authorities, client }
    }

    /// Asks it to end, and waits until it has.
    pub fn end(&mut self) {
        self.process.signal(rustix::process::Signal::TERM);
        assert_eq!(self.process.wait().code(), Some(0), "{}", self.process.log());
    }

    /// Runs `hakobu fleet`, with words that are divided by spaces. Returns its exit code, and what it shows.
    pub fn fleet(&self, line: &str) -> (i32, String) {
        self.fleet_by(&line.split(' ').collect::<Vec<_>>(), &[])
    }

    /// Runs `hakobu fleet` with words that may have spaces, and variables of its environment.
    pub fn fleet_by(&self, words: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
        self.run_fleet(words, variables, self.authorities.as_deref())
    }

    /// Runs `hakobu fleet` with certificates to trust.
    pub fn fleet_trusting(&self, line: &str, authorities: Option<&Path>) -> (i32, String) {
        self.run_fleet(&line.split(' ').collect::<Vec<_>>(), &[], authorities)
    }

    fn run_fleet(
        &self,
        words: &[&str],
        variables: &[(&str, &str)],
        authorities: Option<&Path>,
    ) -> (i32, String) {
        let mut command = Command::new(HAKOBU);
        for name in ["LC_ALL", "LC_MESSAGES", "LANG"] {
            command.env_remove(name);
        }
        command
            .arg("fleet")
            .args(words)
            .args(authorities.map(|file| format!("--tls-ca={}", file.display())))
            .envs(variables.iter().copied())
            .env("HAKOBU_FLEET_URL", self.client.server())
            .env("HAKOBU_FLEET_TOKEN", &self.token)
            .env("HAKOBU_SETTINGS", "none");
        let output = command.output().unwrap();
        let shown = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8_lossy(&shown).into_owned())
    }

    /// Returns what it has written.
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.client.server().trim_start_matches("http://").parse().unwrap()
    }

    /// Kills it.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts it again with the same folder.
    pub fn restart(&mut self) {
        self.kill();
        self.process = spawn(&self.folder, &self.arguments);
        let (url, _) = address(&mut self.process);
        self.client = client(&url, &self.token, self.authorities.as_deref());
    }

    /// Starts another control plane with the same ledger, which waits until it leads.
    pub fn start_standby(&self, folder: &Path, more: &[&str]) -> TestProcess {
        let more = more.iter().map(|argument| (*argument).to_owned());
        spawn(folder, &self.arguments.iter().cloned().chain(more).collect::<Vec<_>>())
    }

    /// Has another one lead.
    pub fn fail_over(&mut self, mut standby: TestProcess) {
        let (url, _) = address(&mut standby);
        self.process = standby;
        self.client = client(&url, &self.token, self.authorities.as_deref());
    }

    /// Returns a client of another control plane with the same ledger.
    pub fn client_of(&self, url: &str) -> FleetClient {
        client(url, &self.token, self.authorities.as_deref())
    }

    /// Starts a copy of what a folder has.
    pub fn copy(&self, group: &str, source: &Path, target: &Path) -> u64 {
        let source = format!("{}/", source.display());
        let request = json!({ "sources": [source], "target": target.display().to_string() });
        let started: Value =
            self.client.send("POST", "/api/v1/runs", &json!({ "group": group, "request": request })).unwrap();
        started["run"].as_u64().unwrap_or_else(|| panic!("{started}"))
    }

    pub fn run(&self, run: u64) -> Value {
        self.client.get(&format!("/api/v1/runs/{run}")).unwrap()
    }

    /// Returns what does not work.
    pub fn troubles(&self) -> Vec<Value> {
        let status: Value = self.client.get("/api/v1/status").unwrap();
        status["troubles"].as_array().unwrap().clone()
    }

    /// Limits the operations of all brokers that work on a run, or of a group.
    pub fn limit(&self, what: &str, operations_per_second: Option<u32>) {
        self.set_limits(what, &operations(operations_per_second));
    }

    /// Limits a run or a group.
    pub fn set_limits(&self, what: &str, limits: &Value) {
        self.client.order("PUT", &format!("/api/v1/{what}/limits"), Some(limits)).unwrap();
    }

    /// Waits until the ledger works.
    #[track_caller]
    pub fn wait_until_ready(&self) {
        wait_until("a ledger that works", SOON, || self.client.get_bytes("/readyz").is_ok());
    }

    /// Returns the limit of a group's operations.
    #[track_caller]
    pub fn limit_of_group(&self, name: &str) -> u64 {
        let groups: Value = self.client.get("/api/v1/groups").unwrap();
        let mut groups = groups["items"].as_array().unwrap().iter();
        groups.find(|group| group["name"] == name).unwrap()["limits"]["operations_per_second"]
            .as_u64()
            .unwrap()
    }

    /// Waits until so many brokers are there.
    pub fn wait_for_brokers(&self, count: usize) {
        wait_until("brokers", SOON, || {
            let brokers: Vec<Value> = self.client.list("/api/v1/brokers", &[], 100).unwrap();
            brokers.iter().filter(|broker| broker["state"] != "away").count() >= count
        });
    }

    /// Waits until something holds for a run that has not ended.
    #[track_caller]
    pub fn wait_for_run(&self, run: u64, what: &str, holds: impl Fn(&Value) -> bool) {
        wait_until(what, SOON, || {
            let view = self.run(run);
            assert_eq!(view["state"], "running", "it is over before anything has happened: {view}");
            holds(&view)
        });
    }

    /// Waits until a run has ended.
    #[track_caller]
    pub fn finish(&self, run: u64, limit: Duration) -> Value {
        let mut view = Value::Null;
        wait_until("the end of the run", limit, || {
            view = self.run(run);
            view["state"] != "running"
        });
        view
    }
}

/// Returns a limit of operations, or none.
pub fn operations(per_second: Option<u32>) -> Value {
    json!({ "version": 1, "operations_per_second": per_second })
}

fn client(url: &str, token: &str, authorities: Option<&Path>) -> FleetClient {
    let authorities = authorities.map(|file| std::fs::read(file).unwrap());
    FleetClient::new(url, SecretBytes::new(token.as_bytes().to_vec()), authorities.as_deref()).unwrap()
}

/// Starts a process.
fn spawn(folder: &Path, arguments: &[String]) -> TestProcess {
    let log = folder.with_extension("log");
    let _has_none = std::fs::remove_file(&log);
    let mut command = Command::new(HAKOBU);
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(folder).args(arguments);
    TestProcess::start(command, &log)
}

/// Returns the address of a control plane that leads, and the token that it shows.
fn address(process: &mut TestProcess) -> (String, String) {
    let mut shown = None;
    wait_until("the address of the control plane", SOON, || {
        assert_eq!(process.ended(), None, "{}", process.log());
        let log = process.log();
        shown = log.split_once("open ").and_then(|(_, rest)| {
            let (url, rest) = rest.split_once("/#/sign-in?token=")?;
            let (token, _) = rest.split_once(' ')?;
            Some((url.to_owned(), token.to_owned()))
        });
        shown.is_some()
    });
    shown.unwrap()
}
