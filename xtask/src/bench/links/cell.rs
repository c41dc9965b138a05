//! Measures one cell of the grid: its link, a server on the remote host, and the runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hakobu_measure::process::{CommandGroup, RunFailure};
use hakobu_testkit::link::LinkSettings;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::super::hosts::{BenchHosts, HostNetwork};
use super::super::scratch_space::ScratchSpace;
use super::grid::{Cell, CellLoad, CellSetting};

/// The number of repetitions of the default and of the best fixed setting, in turn.
const RERUNS: usize = 2;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The time that a run has to stop after it is told to.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// The unit of `st_blocks` in bytes.
const BLOCK_BYTES: u64 = 512;

/// The context that all cells share.
#[derive(Debug)]
pub struct CellContext<'a> {
    pub scratch: &'a ScratchSpace,
    pub program: &'a Path,
    pub file: PathBuf,
    pub tree: PathBuf,
    /// The time after which a run is stopped.
    pub limit: Duration,
    /// The number of cells that are measured at once.
    pub together: usize,
}

/// The result of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellRun {
    /// Bytes at the target when the run ended or was stopped, and the time until then.
    pub bytes: u64,
    pub seconds: f64,
    /// The messages of `--why` about its lanes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
}

impl CellRun {
    /// Returns the goodput in bytes per second.
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// A fixed setting with the result of its first run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FixedSettingRun {
    pub setting: CellSetting,
    pub run: CellRun,
}

/// The results of a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CellResult {
    pub cell: Cell,
    pub commit: Option<String>,
    pub measured_at: String,
    /// One run of each fixed setting.
    pub fixed: Vec<FixedSettingRun>,
    /// The best of the fixed settings, and its repetitions.
    pub best: CellSetting,
    pub best_runs: Vec<CellRun>,
    /// The runs with default settings, each next to one of the best setting.
    pub default_runs: Vec<CellRun>,
    /// The share of a core that the emulator took. If several cells run at once, the average per cell.
    pub emulator_cores: f64,
    /// The longest delay of a packet beyond its due time.
    pub late_most_ms: f64,
}

impl CellResult {
    /// Returns the goodput of the default relative to the best fixed setting.
    pub fn ratio(&self) -> f64 {
        mean(&self.default_runs) / mean(&self.best_runs)
    }
}

/// Returns the mean goodput in bytes per second.
pub fn mean(runs: &[CellRun]) -> f64 {
    runs.iter().map(CellRun::goodput).sum::<f64>() / runs.len().max(1) as f64
}

/// Measures a cell.
///
/// # Errors
/// Returns an error if the link or the server cannot be set up, a run fails, or the user interrupts.
pub fn measure(context: &CellContext<'_>, cell: &Cell, commit: Option<String>) -> Result<CellResult> {
    let cell_hosts = CellHosts::up(context, cell.link(), &cell.congestion_control, cell.load)?;
    let (began, used) = (Instant::now(), processor_time());
    let mut fixed = Vec::new();
    for setting in CellSetting::fixed() {
        fixed.push(FixedSettingRun { setting, run: cell_hosts.run(setting)? });
    }
    let best = fixed.iter().max_by(|one, other| one.run.goodput().total_cmp(&other.run.goodput()));
    let best = best.context("there are no settings")?.setting;
    let (mut best_runs, mut default_runs) = (Vec::new(), Vec::new());
    for _ in 0..RERUNS {
        default_runs.push(cell_hosts.run(CellSetting::DEFAULT)?);
        best_runs.push(cell_hosts.run(best)?);
    }
    let emulator = processor_time().saturating_sub(used).as_secs_f64() / began.elapsed().as_secs_f64();
    let late = cell_hosts.hosts.link_late_most().unwrap_or_default();
    Ok(CellResult {
        cell: cell.clone(),
        commit,
        measured_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        fixed,
        best,
        best_runs,
        default_runs,
        emulator_cores: emulator / context.together as f64,
        late_most_ms: late.as_secs_f64() * 1e3,
    })
}

/// Returns the processor time of this process, which does nothing but emulate links meanwhile.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The hosts of a link, and the directories of a cell's runs.
pub struct CellHosts<'a> {
    context: &'a CellContext<'a>,
    source: &'a Path,
    targets: PathBuf,
    pub hosts: BenchHosts,
}

impl<'a> CellHosts<'a> {
    /// Sets up a link and a server on its remote host.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be set up.
    pub fn up(
        context: &'a CellContext<'a>,
        settings: LinkSettings,
        congestion_control: &str,
        load: CellLoad,
    ) -> Result<Self> {
        let hosts = BenchHosts::up(context.scratch, HostNetwork::Link(settings))?;
        for end in [hosts.link()?.near(), hosts.link()?.far()] {
            end.set_congestion_control(congestion_control)?;
        }
        let source = match load {
            CellLoad::OneFile => &context.file,
            CellLoad::SmallFiles => &context.tree,
        };
        let targets = context.scratch.memory().join(format!("at-{}", hosts.link()?.far().name()));
        Ok(Self { context, source, targets, hosts })
    }

    fn run(&self, setting: CellSetting) -> Result<CellRun> {
        self.run_for(setting, self.context.limit, |_| Ok(()))
    }

    /// Runs until the end, or for `limit`. Meanwhile `look` is called a few dozen times a second with the seconds
    /// elapsed.
    ///
    /// # Errors
    /// Returns an error if the run fails, nothing arrives, `look` fails, or the user interrupts.
    pub fn run_for(
        &self,
        setting: CellSetting,
        limit: Duration,
        look: impl FnMut(f64) -> Result<()>,
    ) -> Result<CellRun> {
        self.context.scratch.go_on()?;
        if self.targets.exists() {
            fs::remove_dir_all(&self.targets).context("removing what arrived before")?;
        }
        fs::create_dir_all(&self.targets).context("making a target")?;
        let words = self.targets.with_extension("words");
        let group = CommandGroup::start(self.command(setting), &words)?;
        let began = Instant::now();
        let ended = self.watch(&group, began, limit, look);
        let (seconds, bytes) = (began.elapsed().as_secs_f64(), self.stored_bytes());
        let outcome = match ended {
            Ok(true) => group.finish::<RunFailure>(STOP_LIMIT, || Ok(())).map(drop).map_err(Into::into),
            other => {
                group.end(STOP_LIMIT);
                other.map(drop)
            }
        };
        self.hosts.wait_for_sessions()?;
        let said = fs::read_to_string(&words).unwrap_or_default();
        outcome.with_context(|| format!("{setting}, after {seconds:.1} s"))?;
        ensure!(bytes > 0, "{setting}: nothing arrived within {seconds:.1} s: {said}");
        let told = said.lines().filter(|line| line.starts_with("why: lanes: ")).map(str::to_owned).collect();
        Ok(CellRun { bytes, seconds, told })
    }

    /// Waits for the run. Returns false if `limit` has passed before its end.
    fn watch(
        &self,
        group: &CommandGroup,
        began: Instant,
        limit: Duration,
        mut look: impl FnMut(f64) -> Result<()>,
    ) -> Result<bool> {
        loop {
            let left = limit.saturating_sub(began.elapsed());
            if group.ended_within(LOOK_EVERY.min(left))? {
                return Ok(true);
            }
            self.context.scratch.go_on()?;
            if left.is_zero() {
                return Ok(false);
            }
            look(began.elapsed().as_secs_f64())?;
        }
    }

    /// Returns the bytes that have been written at the target. Counts allocated space, not file sizes.
    pub fn stored_bytes(&self) -> u64 {
        let mut bytes = 0;
        let mut waiting = vec![self.targets.clone()];
        while let Some(directory) = waiting.pop() {
            // Entries may be renamed or removed meanwhile.
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Ok(metadata) = entry.metadata() else { continue };
                match metadata.is_dir() {
                    true => waiting.push(entry.path()),
                    false => bytes += metadata.blocks() * BLOCK_BYTES,
                }
            }
        }
        bytes
    }

    fn command(&self, setting: CellSetting) -> Command {
        let mut command = self.hosts.command(self.context.program);
        command.args(["copy", "--why"]).args(setting.arguments()).arg(self.source);
        command.arg(format!("{}:{}/", self.hosts.sshd().host(), self.targets.display()));
        command
    }
}

impl Drop for CellHosts<'_> {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_dir_all(&self.targets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_compared_with_the_best_run_anew() {
        let run = |bytes| CellRun { bytes, seconds: 2.0, told: Vec::new() };
        let measured = CellResult {
            cell: Cell::all().remove(0),
            commit: None,
            measured_at: String::new(),
            fixed: vec![FixedSettingRun { setting: CellSetting::DEFAULT, run: run(1000) }],
            best: CellSetting::DEFAULT,
            best_runs: vec![run(80), run(120)],
            default_runs: vec![run(80), run(100)],
            emulator_cores: 0.1,
            late_most_ms: 1.0,
        };
        assert_eq!(measured.ratio(), 0.9);
    }
}
