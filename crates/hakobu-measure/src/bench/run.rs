//! Runs one row once, from an empty target to the account of the run.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::cleanup_shell::{CleanupShell, KeptProcessGroup};
use super::error::BenchError;
use super::local_processes;
use super::processes::{ProcessSnapshot, ProcessUsage};
use super::remote_processes::{FarShell, moment_of};
use super::result::Timing;
use crate::process::{PairedRun, RunFailure, RunObserver, listens};

/// The interval of looks at the processes on this machine and on the host.
const LOOK_HERE: Duration = Duration::from_millis(200);
const LOOK_THERE: Duration = Duration::from_millis(300);
/// Looks at the host may take up to a twentieth of the time. On a busy host a look takes long without using much
/// processor time, and processes may end before the next look, so the interval has an upper limit.
const SHARE_OF_LOOKS: u32 = 20;
const LOOK_THERE_AT_LEAST: Duration = Duration::from_millis(600);
/// The time that the sessions on the host may take to disappear.
const SESSIONS_LIMIT: Duration = Duration::from_secs(2);

/// The reason why there is no timing.
#[derive(Debug)]
pub(super) enum NoTiming {
    /// An error that ends the bench.
    Ends(BenchError),
    /// The failure of this row, as text.
    Row(String),
}

impl From<BenchError> for NoTiming {
    fn from(error: BenchError) -> Self {
        Self::Ends(error)
    }
}

impl From<RunFailure> for NoTiming {
    fn from(failure: RunFailure) -> Self {
        Self::Row(failure.0)
    }
}

/// A run to execute.
pub(super) struct BenchTask<'a> {
    /// The script for this machine.
    pub near: &'a str,
    /// The environment of the script.
    pub environment: &'a [(&'a str, String)],
    /// The command that runs first, and the port on which it then listens.
    pub listener: Option<ListeningCommand>,
    /// True if the ssh servers of this machine serve the run.
    pub serves: bool,
    /// The time limit for the run.
    pub limit: Duration,
    /// The file for the output of the commands.
    pub log: &'a Path,
    /// Ends all commands if this process cannot.
    pub keeper: &'a CleanupShell,
}

/// A command that waits for a connection.
pub(super) struct ListeningCommand {
    /// The command on this machine. For a listener on the host it is ssh.
    pub command: Command,
    /// True if it listens on the host.
    pub there: bool,
    pub port: u16,
}

/// The process accounts of both ends during a run.
struct ProcessSamples<'a> {
    far: Option<&'a mut FarShell>,
    stop: &'a dyn Fn() -> bool,
    /// Ends all commands if this process cannot.
    keeper: &'a CleanupShell,
    kept: Vec<KeptProcessGroup<'a>>,
    /// True if the listener is on the host, and its port.
    listens_at: (bool, u16),
    here: ProcessUsage,
    there: Option<ProcessUsage>,
    sent_again: (Option<u64>, Option<u64>),
    /// The start of the command, if it has started.
    began: Instant,
    is_running: bool,
    asked: Instant,
    next_here: Instant,
    next_there: Instant,
}

impl<'a> ProcessSamples<'a> {
    fn begin(
        task: &BenchTask<'a>,
        mut far: Option<&'a mut FarShell>,
        stop: &'a dyn Fn() -> bool,
    ) -> Result<Self, NoTiming> {
        let moment = local_processes::moment();
        let server = far.as_ref().and_then(|far| far.server());
        let here = ProcessUsage::new(local_processes::roots(&moment, task.serves, server), &moment);
        let (mut there, mut sent_again) = (None, (moment.retransmitted, None));
        if let Some(far) = &mut far {
            let moment = far.moment()?;
            sent_again.1 = moment.retransmitted;
            let roots = far.roots();
            there = (!roots.is_empty() && !moment.processes.is_empty())
                .then(|| ProcessUsage::new(roots, &moment));
        }
        let now = Instant::now();
        Ok(Self {
            far,
            stop,
            keeper: task.keeper,
            kept: Vec::new(),
            listens_at: task.listener.as_ref().map_or((false, 0), |listener| (listener.there, listener.port)),
            here,
            there,
            sent_again,
            began: now,
            is_running: false,
            asked: now,
            next_here: now + LOOK_HERE / 4,
            next_there: now,
        })
    }

    /// Takes all looks that are due.
    fn take_looks(&mut self) -> Result<(), NoTiming> {
        let now = Instant::now();
        if now >= self.next_here {
            self.here.look(&local_processes::moment(), self.since_began(now));
            self.next_here = now + LOOK_HERE;
        }
        let (Some(far), Some(_)) = (&mut self.far, &self.there) else { return Ok(()) };
        if far.is_asked() {
            if let Some(lines) = far.poll(Duration::ZERO)? {
                self.told(&lines, f64::INFINITY);
                let sparing = self.asked.elapsed() * SHARE_OF_LOOKS;
                self.next_there = Instant::now() + sparing.clamp(LOOK_THERE, LOOK_THERE_AT_LEAST);
            }
        } else if now >= self.next_there {
            far.begin("look")?;
            self.asked = now;
        }
        Ok(())
    }

    /// Records the answer to the last look at the host. Its time is estimated as the middle between question and
    /// answer, but not later than `latest_s`.
    fn told(&mut self, lines: &[String], latest_s: f64) {
        let at_s = self.since_began(self.asked + self.asked.elapsed() / 2).min(latest_s);
        if let Some(there) = &mut self.there {
            there.look(&moment_of(lines), at_s);
        }
    }

    fn since_began(&self, at: Instant) -> f64 {
        at.saturating_duration_since(self.began).as_secs_f64()
    }

    /// Takes the last looks, once the sessions on the host are gone.
    fn end(mut self, wall: Duration, cpu_seconds: f64) -> Result<Timing, NoTiming> {
        let (moment, run_s) = (local_processes::moment(), wall.as_secs_f64());
        // A pending look is the most informative one.
        if let Some(far) = self.far.as_mut().filter(|far| far.is_asked())
            && let Some(lines) = far.poll(SESSIONS_LIMIT)?
        {
            self.told(&lines, run_s);
        }
        let looks_there_seconds =
            self.there.as_ref().map(|there| there.looks_s().to_vec()).unwrap_or_default();
        // Processes that exist now existed until the end of the run.
        self.here.look(&moment, run_s);
        let again = |now: Option<u64>, before: Option<u64>| Some(now?.saturating_sub(before?));
        let mut timing = Timing {
            wall_seconds: run_s,
            here: Vec::new(),
            there: None,
            looks_there_seconds,
            retransmitted_here: again(moment.retransmitted, self.sent_again.0),
            retransmitted_there: None,
        };
        if let Some(far) = self.far.take() {
            let deadline = Instant::now() + SESSIONS_LIMIT;
            let moment: ProcessSnapshot = loop {
                let moment = far.moment()?;
                let Some(there) = &mut self.there else { break moment };
                there.look(&moment, run_s);
                if there.is_over(&moment) || Instant::now() > deadline {
                    break moment;
                }
                std::thread::sleep(Duration::from_millis(20));
            };
            timing.retransmitted_there = again(moment.retransmitted, self.sent_again.1);
            timing.there =
                self.there.map(|there| there.costs(run_s, None, local_processes::ticks_per_second()));
        }
        let known = (cpu_seconds > 0.0).then_some(cpu_seconds);
        timing.here = self.here.costs(run_s, known, local_processes::ticks_per_second());
        Ok(timing)
    }
}

impl RunObserver for ProcessSamples<'_> {
    type Failure = NoTiming;

    fn started(&mut self, pid: u32) {
        self.kept.push(self.keeper.group(pid));
    }

    fn listens(&mut self) -> Result<bool, NoTiming> {
        Ok(match (self.listens_at, &mut self.far) {
            ((true, port), Some(far)) => far.listens(port)?,
            ((_, port), _) => listens(std::process::id(), port),
        })
    }

    fn clock_starts(&mut self, at: Instant) {
        (self.began, self.is_running) = (at, true);
    }

    fn look(&mut self) -> Result<(), NoTiming> {
        match (self.stop)() {
            true => Err(NoTiming::Ends(BenchError::Stopped)),
            false if self.is_running => self.take_looks(),
            false => Ok(()),
        }
    }
}

/// Runs a task to its end.
pub(super) fn once(
    task: BenchTask<'_>,
    far: Option<&mut FarShell>,
    stop: &dyn Fn() -> bool,
) -> Result<Timing, NoTiming> {
    let mut looks = ProcessSamples::begin(&task, far, stop)?;
    let mut near = Command::new("sh");
    near.args(["-c", task.near]).envs(task.environment.iter().map(|(name, value)| (name, value)));
    let listener = task.listener.map(|listener| listener.command);
    let mut run = PairedRun { near, listener, limit: task.limit, log: task.log };
    for command in std::iter::once(&mut run.near).chain(&mut run.listener) {
        command.stdin(Stdio::null());
    }
    let cost = run.run(&mut looks)?;
    // Sessions of this machine's servers are not children of this process, so the sum does not include them.
    looks.end(cost.wall, if task.serves { 0.0 } else { cost.cpu.as_secs_f64() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str, limit: Duration) -> Result<Timing, NoTiming> {
        let place = tempfile::tempdir().unwrap();
        let environment = [("X", "a b".to_owned())];
        let log = place.path().join("log");
        let (near, environment, keeper) = (script, environment.as_slice(), &CleanupShell::start().unwrap());
        let task = BenchTask { near, environment, listener: None, serves: false, limit, log: &log, keeper };
        once(task, None, &|| false)
    }

    #[test]
    fn a_run_has_an_account_of_its_processes() {
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done; test \"$X\" = 'a b'";
        let timing = run(script, Duration::from_secs(100)).unwrap();
        assert!(timing.wall_seconds > 0.0 && timing.there.is_none());
        let cpu: f64 = timing.here.iter().map(|cost| cost.cpu_seconds).sum();
        assert!(cpu > 0.0, "{timing:?}");
    }
}
