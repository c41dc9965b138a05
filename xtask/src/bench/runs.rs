//! One run of one method: the far end starts to listen, then the clock runs until both ends have ended.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hakobu_endpoints::block::inspect::inspect_device;
use hakobu_measure::process::MeasuredCommand;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;

use super::ground::Paths;
use super::workshop::Workshop;
use super::world::World;

/// The time after which a run counts as failed. The slowest method takes half a minute on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(240);
/// The time that a far end has to start listening, and to end after the near one.
const FAR_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The reason why there is no time.
#[derive(Debug)]
pub enum Failure {
    /// The user interrupted.
    Interrupted,
    /// The method failed, with its own message.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// The command lines of both ends.
#[derive(Debug, Clone)]
pub struct Lines {
    pub near: String,
    pub far: Option<String>,
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub seconds: f64,
    /// The kernel's counters over the run.
    pub counted: Counted,
}

/// The kernel's counters over one run, including what other programs caused.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Counted {
    /// Bytes that crossed the network.
    pub travelled_bytes: u64,
    /// Bytes read from the source's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_read_bytes: Option<u64>,
    /// Bytes read from the target's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_read_bytes: Option<u64>,
    /// If the run was killed and repeated, the part before the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<Killed>,
}

/// A run up to its kill.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Killed {
    pub seconds: f64,
    pub source_read_bytes: u64,
}

impl Counted {
    /// Returns the current state of the counters.
    pub fn now(world: &World, paths: Paths<'_>) -> Result<Self> {
        Ok(Self {
            travelled_bytes: world.travelled_bytes()?,
            source_read_bytes: paths.source.read_bytes()?,
            target_read_bytes: paths.target.read_bytes()?,
            killed: None,
        })
    }

    /// Returns the difference to an earlier state.
    pub fn since(self, before: Self) -> Self {
        let less = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        Self {
            travelled_bytes: self.travelled_bytes.saturating_sub(before.travelled_bytes),
            source_read_bytes: less(self.source_read_bytes, before.source_read_bytes),
            target_read_bytes: less(self.target_read_bytes, before.target_read_bytes),
            killed: self.killed,
        }
    }
}

/// Runs a method once, from its start until both ends have ended.
pub fn once(shop: &Workshop, world: &World, lines: &Lines, paths: Paths<'_>) -> Result<Timing, Failure> {
    let port = world.free_port()?;
    let far = match &lines.far {
        Some(line) => {
            let process = Process::start(shop, complete(world.far(line), paths, port), "far.log")?;
            process.wait_until_listening(port)?;
            Some(process)
        }
        None => None,
    };
    let mut command = complete(world.near(&lines.near), paths, port);
    if let Some(url) = world.url(paths.target.path()) {
        command.env("URL", url);
    }
    let before = Counted::now(world, paths)?;
    let started = Instant::now();
    let near = Process::start(shop, command, "near.log")?;
    near.finish(shop, LIMIT)?;
    if let Some(far) = far {
        far.finish(shop, FAR_LIMIT)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Timing { seconds, counted: Counted::now(world, paths)?.since(before) })
}

/// Adds the paths, the port and the ID of the target's disk, which commands need for consent, to a command of an end.
/// The time for inspecting that disk is not measured.
pub fn complete(mut command: Command, paths: Paths<'_>, port: u16) -> Command {
    command.env("SOURCE", paths.source.path()).env("TARGET", paths.target.path());
    if let Ok(facts) = inspect_device(paths.target.path()) {
        command.env("ID", facts.identity.id);
    }
    command.env("BYTES", paths.kind.bytes().to_string()).env("PORT", port.to_string());
    command
}

/// A shell and everything that it has started. All of it is killed when this is dropped before its end.
#[derive(Debug)]
pub struct Process {
    running: Option<MeasuredCommand>,
    group: Option<Pid>,
    log: PathBuf,
}

impl Process {
    /// Starts a complete command.
    pub fn start(shop: &Workshop, mut command: Command, log: &str) -> Result<Self> {
        let log = shop.tools().join(log);
        let file = File::create(&log)?;
        // A process group of its own, so that all of a pipeline can be killed.
        command.stdout(Stdio::from(file.try_clone()?)).stderr(file).process_group(0);
        let running = MeasuredCommand::start(&mut command)?;
        let group = i32::try_from(running.pid()).ok().and_then(Pid::from_raw);
        Ok(Self { running: Some(running), group, log })
    }

    /// Returns the shell's process ID, or `None` once it has been waited for.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(MeasuredCommand::pid)
    }

    /// Waits for the end, with any exit status.
    pub fn wait_for_end(&self) -> Result<()> {
        let Some(running) = &self.running else { return Ok(()) };
        ensure!(
            running.ended_within(FAR_LIMIT)?,
            "still running {} s after it was killed",
            FAR_LIMIT.as_secs()
        );
        Ok(())
    }

    /// Returns true if the shell has ended.
    pub fn ended(&self) -> Result<bool> {
        self.running.as_ref().map_or(Ok(true), |running| Ok(running.ended_within(Duration::ZERO)?))
    }

    fn wait_until_listening(&self, port: u16) -> Result<(), Failure> {
        let Some(running) = &self.running else { return Ok(()) };
        let deadline = Instant::now() + FAR_LIMIT;
        while !listens(running.pid(), port) {
            if running.ended_within(Duration::from_millis(5))? || Instant::now() > deadline {
                return Err(Failure::Failed(format!("the far end does not listen: {}", self.last_words())));
            }
        }
        Ok(())
    }

    /// Waits for the end, and fails unless the exit status is 0.
    pub fn finish(mut self, shop: &Workshop, limit: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + limit;
        while let Some(running) = &self.running {
            if running.ended_within(LOOK_EVERY)? {
                break;
            }
            if shop.interrupted() {
                return Err(Failure::Interrupted);
            }
            if Instant::now() > deadline {
                let words = self.last_words();
                return Err(Failure::Failed(format!("still running after {} s {words}", limit.as_secs())));
            }
        }
        let Some(running) = self.running.take() else { return Ok(()) };
        let status = running.finish()?.status;
        // Ctrl-C may have killed the child, which is no failure of the method.
        if shop.interrupted() {
            return Err(Failure::Interrupted);
        }
        if status.success() {
            return Ok(());
        }
        Err(Failure::Failed(shop.scrub(&format!("{status}: {}", self.last_words()))))
    }

    pub fn last_words(&self) -> String {
        let log = String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned();
        let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let (Some(_), Some(group)) = (&self.running, self.group) {
            let _ = kill_process_group(group, Signal::TERM);
            sleep(LOOK_EVERY);
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Returns true if anything listens on the port in the process's network namespace. Does not connect, since most of the
/// tools serve only the first connection.
fn listens(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        has_listener(&text, port)
    })
}

fn has_listener(table: &str, port: u16) -> bool {
    let end = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&end) && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_is_found_in_the_kernels_table() {
        let table = "\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1451 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1
   1: 0100007F:1452 0100007F:A001 01 00000000:00000000 00:00000000 00000000     0        0 2 1
";
        assert!(has_listener(table, 0x1451));
        assert!(!has_listener(table, 0x1452), "a connection is no listener");
        assert!(!has_listener(table, 0xA001));
        assert!(!has_listener("", 1));
    }

    #[test]
    fn our_own_listener_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        drop(socket);
        assert!(!listens(std::process::id(), port));
    }
}
