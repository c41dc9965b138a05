//! A fleet on this machine: nats-server, `hakobu serve`, and brokers in processes of their own, with short leases.
//!
//! `nats.rs`: the server of NATS; `interface.rs`: the interface of the control plane; `faults.rs`: the faults; `run.rs`:
//! a run with its fault; `members.rs`: the brokers. The server is installed by `need_stores` of `scripts/lib.sh`.

pub mod faults;
mod interface;
mod members;
mod nats;
pub mod run;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::{Value, json};

use super::plants::VARIABLE;
use super::watched_process::WatchedProcess;
use interface::FleetInterface;
use members::FleetMembers;
use nats::TortureNats;

/// The group of the brokers.
const GROUP: &str = "torture";
/// The time of a lease in seconds: the shortest that there is.
const LEASE_S: &str = "2";
/// The time in which processes of a fleet are there.
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The fleet. Dropping it ends all its processes and removes its folder.
#[derive(Debug)]
pub struct TortureFleet {
    members: FleetMembers,
    serve: Option<WatchedProcess>,
    nats: TortureNats,
    interface: FleetInterface,
    token: String,
    place: FleetPlace,
}

/// The folder of a fleet, the program, and the fault that is planted in it.
#[derive(Debug, Clone)]
struct FleetPlace {
    folder: PathBuf,
    program: PathBuf,
    plant: Option<String>,
}

impl FleetPlace {
    /// Returns the environment of a process with folders of its own.
    fn environment(&self, name: &str) -> anyhow::Result<Vec<(String, OsString)>> {
        let mut all = Vec::new();
        for (variable, folder) in [
            ("HOME", "home"),
            ("TMPDIR", "temporary"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_RUNTIME_DIR", "runtime"),
        ] {
            let folder = self.folder.join(name).join(folder);
            fs::create_dir_all(&folder)?;
            all.push((variable.to_owned(), folder.into_os_string()));
        }
        all.push(("HAKOBU_SETTINGS".to_owned(), "none".into()));
        all.push(("LC_ALL".to_owned(), "C.UTF-8".into()));
        all.extend(self.plant.iter().map(|plant| (VARIABLE.to_owned(), plant.into())));
        Ok(all)
    }

    /// Starts the program with folders of its own.
    fn start(&self, name: &str, words: &[OsString]) -> anyhow::Result<WatchedProcess> {
        let log = self.folder.join(format!("{name}.log"));
        WatchedProcess::start(&self.program, words, &self.environment(name)?, &log)
    }
}

impl TortureFleet {
    /// Starts a fleet with its files below a scratch directory. `plant` is a fault that its processes have.
    ///
    /// # Errors
    /// Returns an error if nats-server is not installed, or a process does not start.
    pub fn start(scratch: &Path, program: &Path, plant: Option<&str>) -> anyhow::Result<Self> {
        let folder = scratch.join("fleet");
        let _has_none = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let place = FleetPlace { folder, program: program.to_owned(), plant: plant.map(ToOwned::to_owned) };
        let nats = TortureNats::start(&place.folder.join("nats"))?;
        let (serve, port, once) = serve(&place, &nats.url())?;
        let input = json!({ "label": "torture", "role": "admin" });
        let made = FleetInterface::new(port, &once).send("POST", "tokens", Some(&input))?;
        let token = made["secret"].as_str().context("no token in the answer")?.to_owned();
        let members = FleetMembers::start(&place, &nats.url())?;
        let interface = FleetInterface::new(port, &token);
        let fleet = Self { members, serve: Some(serve), nats, interface, token, place };
        fleet.wait_for_brokers()?;
        Ok(fleet)
    }

    /// Returns true if its processes have this planted fault.
    #[must_use]
    pub fn has_plant(&self, plant: Option<&str>) -> bool {
        self.place.plant.as_deref() == plant
    }

    /// Starts the control plane again.
    fn restart_serve(&mut self) -> anyhow::Result<()> {
        self.serve = None;
        let (serve, port, _) = serve(&self.place, &self.nats.url())?;
        self.serve = Some(serve);
        self.interface = FleetInterface::new(port, &self.token);
        Ok(())
    }

    /// Waits until all brokers have told the control plane of themselves.
    fn wait_for_brokers(&self) -> anyhow::Result<()> {
        self.wait("the brokers do not come", |brokers| brokers.iter().all(|broker| broker["state"] != "away"))
    }

    /// Waits until all brokers have nothing to do, as they say after the call.
    fn wait_for_rest(&self) -> anyhow::Result<()> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?.as_millis() as u64;
        self.wait("the brokers do not come to rest", |brokers| {
            brokers.iter().all(|broker| {
                broker["last_seen_ms"].as_u64() > Some(now)
                    && broker["units"] == 0
                    && broker["state"] != "away"
            })
        })
    }

    fn wait(&self, words: &str, holds: impl Fn(&[Value]) -> bool) -> anyhow::Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let answer = self.interface.get("brokers").unwrap_or_default();
            let brokers = answer["items"].as_array().map(Vec::as_slice).unwrap_or_default();
            if brokers.len() >= self.members.count() && holds(brokers) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{words}: {answer}\n{}", self.last_words());
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Returns the processes that have ended by themselves.
    fn ended(&self) -> Vec<String> {
        let serve = self.serve.iter().filter(|serve| serve.has_ended()).map(|_| "serve".to_owned());
        serve.chain(self.members.ended()).collect()
    }

    /// Returns the ends of all logs, for people.
    fn last_words(&self) -> String {
        let mut text = String::new();
        for name in ["serve"].into_iter().map(str::to_owned).chain(self.members.names()) {
            let log = fs::read(self.place.folder.join(format!("{name}.log"))).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<&str> = log.lines().collect();
            for line in &lines[lines.len().saturating_sub(15)..] {
                text.push_str(&format!("{name}: {line}\n"));
            }
        }
        text
    }
}

impl Drop for TortureFleet {
    fn drop(&mut self) {
        self.members.kill_all();
        self.serve = None;
        self.nats.kill();
        let _ = fs::remove_dir_all(&self.place.folder);
    }
}

/// Starts the control plane. Also returns its port, and the token that signs in once.
fn serve(place: &FleetPlace, nats: &str) -> anyhow::Result<(WatchedProcess, u16, String)> {
    // Words of an earlier process would be read.
    let _has_none = fs::remove_file(place.folder.join("serve.log"));
    let mut words: Vec<OsString> =
        ["serve", "--no-broker", "--listen", "127.0.0.1:0", "--nats", nats].map(OsString::from).to_vec();
    words.extend(["--nats-group", GROUP, "--lease-seconds", LEASE_S, "--data"].map(OsString::from));
    words.push(place.folder.join("ledger").into());
    let process = place.start("serve", &words)?;
    let deadline = Instant::now() + START_LIMIT;
    loop {
        if let Some((port, once)) = shown_address(&process.log()) {
            return Ok((process, port, once));
        }
        let is_over = process.has_ended() || Instant::now() > deadline;
        ensure!(!is_over, "hakobu serve does not start: {}", process.log());
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Returns the port and the token that a control plane shows.
fn shown_address(log: &str) -> Option<(u16, String)> {
    let (_, rest) = log.split_once("open http://127.0.0.1:")?;
    let (port, rest) = rest.split_once("/#/sign-in?token=")?;
    let (token, _) = rest.split_once(|end: char| end.is_whitespace())?;
    Some((port.parse().ok()?, token.to_owned()))
}
