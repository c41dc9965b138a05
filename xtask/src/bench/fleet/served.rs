//! `hakobu serve` and brokers as processes of the bench, and the interface.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hakobu_fleet::client::FleetClient;
use hakobu_fleet::secret_bytes::SecretBytes;
use serde_json::{Value, json};

use crate::bench::scratch_space::{ScratchSpace, remove};

/// The time in which a process is there.
const START_LIMIT: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A process that ends with this value.
#[derive(Debug)]
pub(super) struct FleetProcess {
    child: Child,
    log: PathBuf,
}

impl FleetProcess {
    /// Starts a command whose output goes to a file.
    pub(super) fn start(mut command: Command, log: PathBuf) -> Result<Self> {
        let file = File::create(&log).with_context(|| format!("making {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = command.spawn().context("starting a process of the fleet")?;
        Ok(Self { child, log })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }
}

impl Drop for FleetProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A control plane with a new folder in memory. Dropping it removes both.
pub(super) struct ServedFleet {
    process: FleetProcess,
    folder: PathBuf,
    program: PathBuf,
    url: String,
    token: String,
    pub(super) client: FleetClient,
}

impl ServedFleet {
    /// Starts a control plane.
    pub(super) fn start(scratch: &ScratchSpace, program: &Path, arguments: &[&str]) -> Result<Self> {
        let folder = scratch.memory().join("control");
        remove(&folder);
        let mut command = Command::new(program);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&folder).args(arguments);
        command.env("HAKOBU_SETTINGS", "none");
        let mut process = FleetProcess::start(command, scratch.tools().join("serve.log"))?;
        let deadline = Instant::now() + START_LIMIT;
        let (url, once) = loop {
            if let Some(shown) = shown_address(&process.log()) {
                break shown;
            }
            let is_over = process.child.try_wait()?.is_some() || Instant::now() > deadline;
            ensure!(!is_over, "hakobu serve does not start: {}", process.log());
            sleep(LOOK_EVERY);
        };
        let client = client_of(&url, &once)?;
        let input = json!({ "label": "bench", "role": "admin" });
        let made: Value = client.send("POST", "/api/v1/tokens", &input)?;
        let token = made["secret"].as_str().context("there is no token in the answer")?.to_owned();
        let client = client_of(&url, &token)?;
        Ok(Self { process, folder, program: program.to_owned(), url, token, client })
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Returns one more client.
    pub(super) fn another_client(&self) -> Result<FleetClient> {
        client_of(&self.url, &self.token)
    }

    /// Waits until so many brokers are there.
    pub(super) fn wait_for_brokers(&self, count: usize) -> Result<()> {
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let brokers: Vec<Value> = self.client.list("/api/v1/brokers", &[], 1000)?;
            if brokers.iter().filter(|broker| broker["state"] != "away").count() >= count {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the brokers are not there");
            sleep(LOOK_EVERY);
        }
    }

    /// Starts a copy of what a folder has. Returns the number of the run.
    pub(super) fn copy(&self, group: &str, source: &Path, target: &Path, arguments: &[&str]) -> Result<u64> {
        let source = format!("{}/", source.display());
        let target = target.display().to_string();
        let request = json!({ "sources": [source], "target": target, "arguments": arguments });
        let input = json!({ "group": group, "request": request });
        let started: Value = self.client.send("POST", "/api/v1/runs", &input)?;
        started["run"].as_u64().context("there is no number of a run in the answer")
    }

    /// Waits for the end of a run. Returns its time in seconds.
    pub(super) fn finish(&self, scratch: &ScratchSpace, run: u64, files: u64) -> Result<f64> {
        loop {
            scratch.go_on()?;
            let view: Value = self.client.get(&format!("/api/v1/runs/{run}"))?;
            match view["state"].as_str() {
                Some("running") => sleep(LOOK_EVERY),
                Some("complete") => {
                    let created = view["counters"]["entries_created"].as_u64().unwrap_or(0);
                    ensure!(created >= files, "{created} entries were made, not {files}");
                    let moment = |name: &str| view[name].as_u64().context("there is no moment");
                    return Ok((moment("ended_ms")? - moment("started_ms")?) as f64 / 1000.0);
                }
                _ => bail!("the run has failed: {view:#}"),
            }
        }
    }

    /// Writes a backup, and returns its size in bytes.
    pub(super) fn compact_bytes(&self) -> Result<u64> {
        let to = self.folder.with_extension("backup");
        remove(&to);
        let arguments =
            [OsStr::new("serve"), OsStr::new("--data"), self.folder.as_os_str(), OsStr::new("--backup")];
        let status = Command::new(&self.program).args(arguments).arg(&to).status().context("backing up")?;
        ensure!(status.success(), "the backup failed, {status}");
        let bytes = fs::metadata(&to)?.len();
        remove(&to);
        Ok(bytes)
    }
}

impl Drop for ServedFleet {
    fn drop(&mut self) {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        remove(&self.folder);
    }
}

fn client_of(url: &str, token: &str) -> Result<FleetClient> {
    Ok(FleetClient::new(url, SecretBytes::new(token.as_bytes().to_vec()), None)?)
}

/// Returns the address and the token in what a control plane shows at its start.
fn shown_address(log: &str) -> Option<(String, String)> {
    let (url, rest) = log.split_once("open ")?.1.split_once("/#/sign-in?token=")?;
    Some((url.to_owned(), rest.split_once(' ')?.0.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read_from_what_is_shown() {
        let log = "note: open http://127.0.0.1:8420/#/sign-in?token=hkb_x (it signs in once)\n";
        assert_eq!(shown_address(log), Some(("http://127.0.0.1:8420".to_owned(), "hkb_x".to_owned())));
        assert_eq!(shown_address("note: open http://127.0.0.1:8420/#/sign-in?token=hk"), None);
    }
}
