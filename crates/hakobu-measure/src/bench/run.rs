//! Runs one row once, from an empty target to the account of the run.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::cleanup_shell::{CleanupShell, KeptProcessGroup};
use super::error::{BenchError, words_of};
use super::local_processes;
use super::processes::{ProcessSnapshot, ProcessUsage};
use super::remote_processes::{FarShell, moment_of};
use super::result::Timing;
use crate::process::MeasuredCommand;

/// The interval of looks at the processes on this machine and on the host.
const LOOK_HERE: Duration = Duration::from_millis(200);
const LOOK_THERE: Duration = Duration::from_millis(300);
/// Looks at the host may take up to a twentieth of the time. On a busy host a look takes long without using much
/// processor time, and processes may end before the next look, so the interval has an upper limit.
const SHARE_OF_LOOKS: u32 = 20;
const LOOK_THERE_AT_LEAST: Duration = Duration::from_millis(600);
/// The time that a listener may take to exit after the other end has.
const END_LIMIT: Duration = Duration::from_secs(10);
/// The time that the sessions on the host may take to disappear.
const SESSIONS_LIMIT: Duration = Duration::from_secs(2);
/// The maximum number of bytes kept of a failed command's output.
const WORDS_BYTES_MAX: i64 = 4096;

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

/// A command with all processes it has started. If it is dropped before it has ended, all of them are killed.
struct CommandTree<'a> {
    running: Option<MeasuredCommand>,
    group: Option<Pid>,
    log: File,
    _kept: KeptProcessGroup<'a>,
}

impl<'a> CommandTree<'a> {
    fn start(mut command: Command, log: &Path, keeper: &'a CleanupShell) -> Result<Self, NoTiming> {
        let words = |error: std::io::Error| NoTiming::Row(format!("{}: {}", log.display(), words_of(&error)));
        let file =
            File::options().create(true).truncate(true).read(true).write(true).open(log).map_err(words)?;
        let write = || file.try_clone().map_err(words);
        command.stdin(Stdio::null()).stdout(write()?).stderr(write()?).process_group(0);
        let running =
            MeasuredCommand::start(&mut command).map_err(|error| NoTiming::Row(error.to_string()))?;
        let group = i32::try_from(running.pid()).ok().and_then(Pid::from_raw);
        let kept = keeper.group(running.pid());
        Ok(Self { running: Some(running), group, log: file, _kept: kept })
    }

    fn ended_within(&self, wait: Duration) -> bool {
        self.running.as_ref().is_none_or(|running| running.ended_within(wait).unwrap_or(true))
    }

    /// Waits for the end and returns the processor time used in seconds. The error holds the output of a failed
    /// command.
    fn finish(mut self) -> Result<f64, String> {
        let Some(running) = self.running.take() else { return Ok(0.0) };
        let measured = running.finish().map_err(|error| error.to_string())?;
        if measured.status.success() {
            return Ok(measured.cpu().as_secs_f64());
        }
        let words = self.words();
        Err(if words.is_empty() { measured.status.to_string() } else { words })
    }

    fn words(&mut self) -> String {
        let length = self.log.seek(SeekFrom::End(0)).unwrap_or(0);
        let back = i64::try_from(length).unwrap_or(0).min(WORDS_BYTES_MAX);
        let mut bytes = Vec::new();
        if self.log.seek(SeekFrom::End(-back)).is_ok() {
            // Unreadable output is omitted.
            let _ = self.log.read_to_end(&mut bytes);
        }
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }
}

impl Drop for CommandTree<'_> {
    fn drop(&mut self) {
        if let (Some(_), Some(group)) = (&self.running, self.group) {
            // On SIGTERM ssh also ends its proxy commands.
            let _ = kill_process_group(group, Signal::TERM);
            if !self.ended_within(Duration::from_millis(300)) {
                let _ = kill_process_group(group, Signal::KILL);
            }
        }
    }
}

/// The process accounts of both ends during a run.
struct ProcessSamples<'a> {
    far: Option<&'a mut FarShell>,
    here: ProcessUsage,
    there: Option<ProcessUsage>,
    sent_again: (Option<u64>, Option<u64>),
    /// The start of the command.
    began: Instant,
    asked: Instant,
    next_here: Instant,
    next_there: Instant,
}

impl<'a> ProcessSamples<'a> {
    fn begin(mut far: Option<&'a mut FarShell>, serves: bool) -> Result<Self, NoTiming> {
        let moment = local_processes::moment();
        let server = far.as_ref().and_then(|far| far.server());
        let here = ProcessUsage::new(local_processes::roots(&moment, serves, server), &moment);
        let (mut there, mut sent_again) = (None, (moment.retransmitted, None));
        if let Some(far) = &mut far {
            let moment = far.moment()?;
            sent_again.1 = moment.retransmitted;
            let roots = far.roots();
            there = (!roots.is_empty() && !moment.processes.is_empty())
                .then(|| ProcessUsage::new(roots, &moment));
        }
        let now = Instant::now();
        let (began, asked, next_there) = (now, now, now);
        Ok(Self { far, here, there, sent_again, began, asked, next_here: now + LOOK_HERE / 4, next_there })
    }

    /// Takes all looks that are due.
    fn look(&mut self) -> Result<(), NoTiming> {
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

/// Runs a task to its end.
pub(super) fn once(
    task: BenchTask<'_>,
    far: Option<&mut FarShell>,
    stop: &dyn Fn() -> bool,
) -> Result<Timing, NoTiming> {
    let mut looks = ProcessSamples::begin(far, task.serves)?;
    let listener = match task.listener {
        None => None,
        Some(ListeningCommand { command, there, port }) => {
            let group = CommandTree::start(command, &task.log.with_extension("listener"), task.keeper)?;
            let far = if there { looks.far.as_deref_mut() } else { None };
            wait_until_listening(far, port, group, stop).map(Some)?
        }
    };
    let mut command = Command::new("sh");
    command.args(["-c", task.near]).envs(task.environment.iter().map(|(name, value)| (name, value)));
    let began = Instant::now();
    looks.began = began;
    let mut near_end = CommandTree::start(command, task.log, task.keeper)?;
    while !near_end.ended_within(Duration::from_millis(10)) {
        if stop() {
            return Err(NoTiming::Ends(BenchError::Stopped));
        }
        if began.elapsed() > task.limit {
            let words = near_end.words();
            return Err(NoTiming::Row(format!("still running after {} s. {words}", task.limit.as_secs())));
        }
        looks.look()?;
    }
    let mut wall = began.elapsed();
    let mut cpu_seconds = near_end.finish().map_err(NoTiming::Row)?;
    if let Some(listener) = listener {
        if !listener.ended_within(END_LIMIT) {
            return Err(NoTiming::Row("the end that listened has not ended after the other one".to_owned()));
        }
        wall = began.elapsed();
        cpu_seconds += listener.finish().map_err(NoTiming::Row)?;
    }
    // Sessions of this machine's servers are not children of this process, so the sum does not include them.
    looks.end(wall, if task.serves { 0.0 } else { cpu_seconds })
}

/// Waits until the port is open. It does not connect, because the listener accepts only one connection. `far` is the
/// shell of the host if it listens there.
fn wait_until_listening<'a>(
    mut far: Option<&mut FarShell>,
    port: u16,
    mut listener: CommandTree<'a>,
    stop: &dyn Fn() -> bool,
) -> Result<CommandTree<'a>, NoTiming> {
    let deadline = Instant::now() + END_LIMIT;
    loop {
        let listens = match &mut far {
            Some(far) => far.listens(port)?,
            None => local_processes::listens(port),
        };
        if listens {
            return Ok(listener);
        }
        if stop() {
            return Err(NoTiming::Ends(BenchError::Stopped));
        }
        if listener.ended_within(Duration::from_millis(20)) || Instant::now() > deadline {
            let words = listener.words();
            return Err(NoTiming::Row(format!("the end that is to listen does not. {words}")));
        }
    }
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

    #[test]
    fn a_failure_has_its_own_words() {
        let words = |script| match run(script, Duration::from_secs(100)) {
            Err(NoTiming::Row(words)) => words,
            other => panic!("{other:?}"),
        };
        assert_eq!(words("echo first; echo why >&2; exit 3"), "first / why");
        assert_eq!(words("exit 3"), "exit status: 3");
    }

    #[test]
    fn what_does_not_end_is_ended_with_all_it_started() {
        let place = tempfile::tempdir().unwrap();
        let pid = place.path().join("pid");
        let script = format!("sleep 600 & echo $! >{}; wait", pid.display());
        assert!(matches!(run(&script, Duration::from_millis(400)), Err(NoTiming::Row(_))));
        let pid = std::fs::read_to_string(pid).unwrap();
        // On a busy machine a terminated process may take a while to exit.
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
            if stat.is_empty() || stat.contains(") Z ") {
                return;
            }
            assert!(Instant::now() < deadline, "{stat}");
        }
    }
}
