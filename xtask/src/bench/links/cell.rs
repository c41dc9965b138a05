//! One cell of the grid: its link, a server at the far end, and the runs.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use rustix::process::{Pid, Signal, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::super::workshop::Workshop;
use super::super::world::FAR_BIN;
use super::grid::{Cell, Load, Setting};

/// How often the default and the best fixed setting are run anew, in turn.
const RERUNS: usize = 2;
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a run that was told to stop, and its far side, may take for it.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Blocks that `stat` counts.
const BLOCK_BYTES: u64 = 512;

/// What all cells share.
#[derive(Debug)]
pub struct Bench<'a> {
    pub shop: &'a Workshop,
    pub program: &'a Path,
    pub file: PathBuf,
    pub tree: PathBuf,
    /// When a run is ended.
    pub limit: Duration,
    /// How many cells are measured at once.
    pub together: usize,
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Bytes of the target that were there when it ended or was ended, and after how long.
    pub bytes: u64,
    pub seconds: f64,
    /// What it told of its lanes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<String>,
}

impl Run {
    /// Bytes per second.
    pub fn goodput(&self) -> f64 {
        self.bytes as f64 / self.seconds
    }
}

/// A setting and how it did when all were tried.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Fixed {
    pub setting: Setting,
    pub run: Run,
}

/// What a cell came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    pub cell: Cell,
    pub commit: Option<String>,
    pub measured_at: String,
    /// Each fixed setting once.
    pub fixed: Vec<Fixed>,
    /// Which of them was the best, and how it did anew.
    pub best: Setting,
    pub best_runs: Vec<Run>,
    /// With nothing set; each run beside one of the best.
    pub default_runs: Vec<Run>,
    /// Of a core, what the emulator took; with several cells at once its share.
    pub emulator_cores: f64,
    /// The most that a packet came late.
    pub late_most_ms: f64,
}

impl Measured {
    /// What the default reaches of the best.
    pub fn ratio(&self) -> f64 {
        mean(&self.default_runs) / mean(&self.best_runs)
    }
}

/// The mean goodput, in bytes per second.
pub fn mean(runs: &[Run]) -> f64 {
    runs.iter().map(Run::goodput).sum::<f64>() / runs.len().max(1) as f64
}

/// Measures a cell.
///
/// # Errors
/// When the link or the server cannot be had, a run does not begin, or the user interrupts.
pub fn measure(bench: &Bench<'_>, cell: &Cell, commit: Option<String>) -> Result<Measured> {
    let place = Place::up(bench, cell.link(), &cell.congestion_control, cell.load)?;
    let (began, used) = (Instant::now(), processor_time());
    let mut fixed = Vec::new();
    for setting in Setting::fixed() {
        fixed.push(Fixed { setting, run: place.run(setting)? });
    }
    let best = fixed.iter().max_by(|one, other| one.run.goodput().total_cmp(&other.run.goodput()));
    let best = best.context("there are no settings")?.setting;
    let (mut best_runs, mut default_runs) = (Vec::new(), Vec::new());
    for _ in 0..RERUNS {
        default_runs.push(place.run(Setting::DEFAULT)?);
        best_runs.push(place.run(best)?);
    }
    let emulator = processor_time().saturating_sub(used).as_secs_f64() / began.elapsed().as_secs_f64();
    let counters = place.link.counters();
    let late = counters.near_to_far.late_most.max(counters.far_to_near.late_most);
    Ok(Measured {
        cell: cell.clone(),
        commit,
        measured_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        fixed,
        best,
        best_runs,
        default_runs,
        emulator_cores: emulator / bench.together as f64,
        late_most_ms: late.as_secs_f64() * 1e3,
    })
}

/// What this process has used of processors: emulating links is all that it does meanwhile.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Both ends of a link.
pub struct Place<'a> {
    bench: &'a Bench<'a>,
    source: &'a Path,
    targets: PathBuf,
    // In the order of removal.
    sshd: Sshd,
    pub link: Link,
}

impl<'a> Place<'a> {
    /// Brings up a link and a server at its far end.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub fn up(
        bench: &'a Bench<'a>,
        settings: LinkSettings,
        congestion_control: &str,
        load: Load,
    ) -> Result<Self> {
        let link = Link::up(settings)?;
        for end in [link.near(), link.far()] {
            end.set_congestion_control(congestion_control)?;
        }
        let sshd = Sshd::start(&SshdOptions {
            address: link.far().address().into(),
            netns: Some(link.far().name().to_owned()),
            path_dirs: vec![bench.shop.tools().join(FAR_BIN)],
            ..SshdOptions::default()
        });
        let sshd = sshd.context("starting sshd")?;
        let source = match load {
            Load::OneFile => &bench.file,
            Load::SmallFiles => &bench.tree,
        };
        let targets = bench.shop.memory().join(format!("at-{}", link.far().name()));
        Ok(Self { bench, source, targets, sshd, link })
    }

    fn run(&self, setting: Setting) -> Result<Run> {
        self.run_for(setting, self.bench.limit, |_| Ok(()))
    }

    /// Runs until it ends, or so long. Meanwhile `look` is called a few dozen times a second, with the seconds that have
    /// passed.
    ///
    /// # Errors
    /// When the run fails, nothing arrives, `look` fails or the user interrupts.
    pub fn run_for(
        &self,
        setting: Setting,
        limit: Duration,
        look: impl FnMut(f64) -> Result<()>,
    ) -> Result<Run> {
        self.bench.shop.go_on()?;
        if self.targets.exists() {
            fs::remove_dir_all(&self.targets).context("removing what arrived before")?;
        }
        fs::create_dir_all(&self.targets).context("making a target")?;
        let words = self.targets.with_extension("words");
        let mut child = self.start(setting, &words)?;
        let began = Instant::now();
        let ended = self.watch(&mut child, began, limit, look);
        let seconds = began.elapsed().as_secs_f64();
        let bytes = self.stored_bytes();
        if !matches!(ended, Ok(Some(_))) {
            stop(&mut child)?;
        }
        self.wait_for_far_side()?;
        let said = fs::read_to_string(&words).unwrap_or_default();
        ensure!(
            ended?.is_none_or(|status| status.success()) && bytes > 0,
            "{setting}: {bytes} bytes arrived within {seconds:.1} s: {said}"
        );
        let told = said.lines().filter(|line| line.starts_with("why: lanes: ")).map(str::to_owned).collect();
        Ok(Run { bytes, seconds, told })
    }

    /// How a run ended, or `None` when its time is over.
    fn watch(
        &self,
        child: &mut Child,
        began: Instant,
        limit: Duration,
        mut look: impl FnMut(f64) -> Result<()>,
    ) -> Result<Option<ExitStatus>> {
        loop {
            if let Some(status) = child.try_wait().context("waiting for hakobu")? {
                return Ok(Some(status));
            }
            self.bench.shop.go_on()?;
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Ok(None);
            }
            look(began.elapsed().as_secs_f64())?;
            sleep(LOOK_EVERY.min(left));
        }
    }

    /// What has been written at the target, which takes memory only for that.
    pub fn stored_bytes(&self) -> u64 {
        let mut bytes = 0;
        let mut waiting = vec![self.targets.clone()];
        while let Some(directory) = waiting.pop() {
            // What is there now may be renamed or gone a moment later.
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

    fn start(&self, setting: Setting, words: &Path) -> Result<Child> {
        let target = format!("{}:{}/", self.sshd.host(), self.targets.display());
        let mut command: Command = self.link.near().command(self.bench.program);
        command.args(["copy", "--why"]).args(setting.arguments()).arg(self.source).arg(target);
        command.env("HAKOBU_SSH", self.sshd.ssh_command()).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(fs::File::create(words).context("making a file for what hakobu says")?);
        command.spawn().context("starting hakobu")
    }

    /// What runs at the far end goes on for a moment when the near end has ended.
    fn wait_for_far_side(&self) -> Result<()> {
        let began = Instant::now();
        while !self.sshd.processes().is_empty() {
            ensure!(
                began.elapsed() < STOP_LIMIT,
                "the far side still runs {STOP_LIMIT:?} after the near one"
            );
            sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        // It may not have been made.
        let _ = fs::remove_dir_all(&self.targets);
    }
}

/// Asks a run to stop; one that does not is killed.
fn stop(child: &mut Child) -> Result<()> {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process without a number")?;
    kill_process(id, Signal::TERM).context("stopping hakobu")?;
    let began = Instant::now();
    while child.try_wait().context("waiting for hakobu")?.is_none() {
        if began.elapsed() > STOP_LIMIT {
            child.kill().context("killing hakobu")?;
        }
        sleep(LOOK_EVERY);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_compared_with_the_best_run_anew() {
        let run = |bytes| Run { bytes, seconds: 2.0, told: Vec::new() };
        let measured = Measured {
            cell: Cell::all().remove(0),
            commit: None,
            measured_at: String::new(),
            fixed: vec![Fixed { setting: Setting::DEFAULT, run: run(1000) }],
            best: Setting::DEFAULT,
            best_runs: vec![run(80), run(120)],
            default_runs: vec![run(80), run(100)],
            emulator_cores: 0.1,
            late_most_ms: 1.0,
        };
        assert_eq!(measured.ratio(), 0.9);
    }
}
