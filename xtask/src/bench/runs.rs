//! One run of one method: the remote host starts to listen, then the clock runs until the commands of both hosts have
//! ended.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use hakobu_endpoints::block::inspect::inspect_device;
use hakobu_measure::process::{PairedRun, RunObserver, listens};
use serde::Serialize;

use super::group_data::RunPaths;
use super::group_hosts::GroupHosts;
use super::scratch_space::ScratchSpace;

/// The time after which a run counts as failed. The slowest method takes half a minute on an idle machine.
pub const LIMIT: Duration = Duration::from_secs(240);

/// The reason why there is no time.
#[derive(Debug)]
pub enum MethodFailure {
    /// The user interrupted.
    Interrupted,
    /// The method failed, with its own message.
    Failed(String),
}

impl<E: std::fmt::Display> From<E> for MethodFailure {
    fn from(error: E) -> Self {
        Self::Failed(format!("{error:#}"))
    }
}

/// The command lines of both hosts.
#[derive(Debug, Clone)]
pub struct Lines {
    pub local: String,
    pub remote: Option<String>,
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
pub struct MethodTiming {
    pub seconds: f64,
    /// The kernel's counters over the run.
    pub counted: RunCounters,
}

/// The kernel's counters over one run, including what other programs caused.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct RunCounters {
    /// Bytes that crossed the network.
    pub travelled_bytes: u64,
    /// Bytes read from the source's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_read_bytes: Option<u64>,
    /// Bytes read from the target's disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_read_bytes: Option<u64>,
    /// The processor time of the commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_seconds: Option<f64>,
    /// If the run was killed and repeated, the part before the kill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub killed: Option<KilledRun>,
}

/// A run up to its kill.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct KilledRun {
    pub seconds: f64,
    pub source_read_bytes: u64,
}

impl RunCounters {
    /// Returns the current state of the counters.
    pub fn now(hosts: &GroupHosts, paths: RunPaths<'_>) -> Result<Self> {
        Ok(Self {
            travelled_bytes: hosts.travelled_bytes()?,
            source_read_bytes: paths.source.read_bytes()?,
            target_read_bytes: paths.target.read_bytes()?,
            cpu_seconds: None,
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
            cpu_seconds: self.cpu_seconds,
            killed: self.killed,
        }
    }
}

/// Runs a method once, from its start until the commands of both hosts have ended.
pub fn once(
    scratch: &ScratchSpace,
    hosts: &GroupHosts,
    lines: &Lines,
    paths: RunPaths<'_>,
) -> Result<MethodTiming, MethodFailure> {
    let port = hosts.free_port()?;
    let listener = lines.remote.as_ref().map(|line| complete(hosts.remote_command(line), paths, port));
    let mut near = complete(hosts.local_command(&lines.local), paths, port);
    if let Some(url) = hosts.url(paths.target.path()) {
        near.env("URL", url);
    }
    let before = RunCounters::now(hosts, paths)?;
    let log = scratch.tools().join("near.log");
    let run = PairedRun { near, listener, limit: LIMIT, log: &log };
    let cost = run.run(&mut RunWatch { scratch, port, listener: None })?;
    let mut counted = RunCounters::now(hosts, paths)?.since(before);
    counted.cpu_seconds = Some((cost.cpu.as_secs_f64() * 1e3).round() / 1e3);
    Ok(MethodTiming { seconds: cost.wall.as_secs_f64(), counted })
}

/// Ends a run when the user interrupts.
struct RunWatch<'a> {
    scratch: &'a ScratchSpace,
    port: u16,
    /// The process ID of the listening command on the remote host.
    listener: Option<u32>,
}

impl RunObserver for RunWatch<'_> {
    type Failure = MethodFailure;

    fn started(&mut self, pid: u32) {
        self.listener.get_or_insert(pid);
    }

    fn listens(&mut self) -> Result<bool, MethodFailure> {
        Ok(self.listener.is_some_and(|pid| listens(pid, self.port)))
    }

    fn look(&mut self) -> Result<(), MethodFailure> {
        if self.scratch.interrupted() { Err(MethodFailure::Interrupted) } else { Ok(()) }
    }
}

/// Adds the paths, the port and the ID of the target's disk, which commands need for consent, to a command of a host.
/// The time for inspecting that disk is not measured.
pub fn complete(mut command: Command, paths: RunPaths<'_>, port: u16) -> Command {
    command.env("SOURCE", paths.source.path()).env("TARGET", paths.target.path());
    command.env("FILES", paths.source.content());
    if let Ok(facts) = inspect_device(paths.target.path()) {
        command.env("ID", facts.identity.id);
    }
    command.env("BYTES", paths.kind.bytes().to_string()).env("PORT", port.to_string());
    command
}
