//! One run of one way: the far end listening first, then the clock, until both ends have ended.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use hakobu_measure::process::Running;
use rustix::process::{Pid, Signal, kill_process_group};

use super::rows::Way;
use super::workshop::Workshop;
use super::world::World;

/// What takes longer has failed. The slowest way takes half a minute when nothing else runs.
const LIMIT: Duration = Duration::from_secs(240);
/// How long a far end may take to listen, and to end after the near one.
const FAR_LIMIT: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Why there is no time.
#[derive(Debug)]
pub enum Failure {
    /// The user wants it to end.
    Interrupted,
    /// The way failed, in its own words.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// The paths of one run.
#[derive(Debug, Clone, Copy)]
pub struct Paths<'a> {
    pub source: &'a Path,
    pub source_bytes: u64,
    pub target: &'a Path,
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub seconds: f64,
    /// Bytes that crossed the network meanwhile, of anybody.
    pub travelled_bytes: u64,
}

/// Runs a way once; `line` is its near command line, or that with more options.
pub fn once(
    shop: &Workshop,
    world: &World,
    way: &Way,
    line: &str,
    paths: Paths<'_>,
) -> Result<Timing, Failure> {
    let port = world.free_port()?;
    let complete = |mut command: Command, log: &str| -> Result<(Command, PathBuf)> {
        let log = shop.tools().join(log);
        let file = File::create(&log)?;
        command.env("SOURCE", paths.source).env("TARGET", paths.target);
        command.env("BYTES", paths.source_bytes.to_string()).env("PORT", port.to_string());
        // A group of its own, so that all of a pipeline can be ended.
        command.stdout(Stdio::from(file.try_clone()?)).stderr(file).process_group(0);
        Ok((command, log))
    };
    let far = match way.far {
        Some(far_line) => {
            let (mut command, log) = complete(world.far(far_line), "far.log")?;
            let process = Process::start(&mut command, log)?;
            process.wait_until_listening(port)?;
            Some(process)
        }
        None => None,
    };
    let (mut command, log) = complete(world.near(line), "near.log")?;
    let before = world.travelled_bytes()?;
    let started = Instant::now();
    let near = Process::start(&mut command, log)?;
    near.finish(shop, LIMIT)?;
    if let Some(far) = far {
        far.finish(shop, FAR_LIMIT)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    Ok(Timing { seconds, travelled_bytes: world.travelled_bytes()?.saturating_sub(before) })
}

/// A shell with all it has started. Dropped before its end, all of it is killed.
#[derive(Debug)]
struct Process {
    running: Option<Running>,
    group: Option<Pid>,
    log: PathBuf,
}

impl Process {
    fn start(command: &mut Command, log: PathBuf) -> Result<Self> {
        let running = Running::start(command)?;
        let group = i32::try_from(running.pid()).ok().and_then(Pid::from_raw);
        Ok(Self { running: Some(running), group, log })
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

    /// Waits for the end, which must be a good one.
    fn finish(mut self, shop: &Workshop, limit: Duration) -> Result<(), Failure> {
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
        // A child that was killed because of the user is no failure of the way.
        if shop.interrupted() {
            return Err(Failure::Interrupted);
        }
        if status.success() {
            return Ok(());
        }
        Err(Failure::Failed(shop.scrub(&format!("{status}: {}", self.last_words()))))
    }

    fn last_words(&self) -> String {
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

/// Whether anything listens on the port in the process's network. Found out without connecting, since the first
/// connection is the one that counts for most of the tools.
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
