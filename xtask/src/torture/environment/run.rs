//! Runs hakobu once with a fault and a deadline, and leaves no process behind.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::Signal;

use super::faults::{Fault, Process, Trigger};
use super::file_system::MountedFileSystem;
use super::hosts::{TestHost, TestHosts};
use super::tree_changes::{self, DirectoryChange};
use super::{leftovers, processes};

/// The time that processes have to exit once hakobu has ended.
const GRACE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The prefix of drafts' names.
const DRAFT: &[u8] = b".hakobu.";
/// An absolute path, since it is not on a host's PATH.
const STRACE: &str = "/usr/bin/strace";
/// The variable in the environment of every process that descends from the command.
const VARIABLE: &str = "HAKOBU_TORTURE_RUN";

/// The surroundings of a run that a fault needs to know.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// A directory for output and traces.
    pub scratch: &'a Path,
    /// The hosts that take part. Only one run at a time may use them.
    pub hosts: Option<&'a TestHosts>,
    /// The source's tree as this machine sees it.
    pub source: Option<&'a Path>,
    /// The target's tree as this machine sees it. It need not exist yet.
    pub target: Option<&'a Path>,
    /// The file system of the target, for a power cut.
    pub mounted: Option<&'a mut MountedFileSystem>,
    /// The file for standard input; empty if `None`.
    pub input: Option<&'a Path>,
    /// The time after which the run counts as hung and is killed.
    pub deadline: Duration,
}

/// The result of a run.
#[derive(Debug, Default)]
pub struct FaultyRunResult {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// True if the fault took place before the end of the run.
    pub took_place: bool,
    /// The number of system calls that were made to fail.
    pub injected: usize,
    /// If the deadline passed, a description of what its threads were waiting for.
    pub hung: Option<String>,
    /// Processes that still existed [`GRACE`] after the end, and were killed.
    pub left_behind: Vec<String>,
    /// The paths in the source or the target that the fault changed, relative to it.
    pub changed: Vec<PathBuf>,
    /// The directory that symbolic links put into source or target lead to. Its content must not be copied from a
    /// source, and nothing may be written to it through a target. The caller has to remove its parent.
    pub outside: Option<PathBuf>,
    /// The duration.
    pub took: Duration,
}

/// Runs a command to its end, with or without a fault.
///
/// # Errors
/// Returns an error if the command cannot be started, or the surroundings lack what the fault needs. Errors of hakobu
/// itself are not errors here.
pub fn run_with(
    fault: Option<&Fault>,
    command: Command,
    around: &mut Surroundings<'_>,
) -> anyhow::Result<FaultyRunResult> {
    let scratch = around
        .scratch
        .canonicalize()
        .with_context(|| format!("scratch folder {}", around.scratch.display()))?;
    let folder = scratch.join(leftovers::new_name());
    fs::create_dir_all(&folder)?;
    let ran = FaultyRun::start(fault, command, around, &folder).and_then(|run| run.finish(around));
    if let (Some(Fault::Inject { process: Process::Agent(host), .. }), Some(hosts)) = (fault, around.hosts) {
        hosts.put_under(*host, &[])?;
    }
    if ran.as_ref().is_ok_and(|ran| ran.outside.is_some()) {
        for file in ["stdout", "stderr", "trace"] {
            let _ = fs::remove_file(folder.join(file));
        }
    } else {
        fs::remove_dir_all(&folder)?;
    }
    ran
}

/// An action that ends a temporary fault.
enum FaultReversal {
    Continue(Vec<u32>),
    LinkUp(TestHost),
}

struct FaultyRun<'f> {
    fault: Option<&'f Fault>,
    folder: PathBuf,
    child: Child,
    variable: String,
    begun: Instant,
    /// The number of bytes and entries below the target at the start.
    at_start: (u64, u64),
    /// The largest number of entries below the target that was seen.
    most_entries: u64,
    pending: Option<Trigger>,
    undo: Option<(Instant, FaultReversal)>,
    meddler: Option<(Arc<AtomicBool>, JoinHandle<Vec<PathBuf>>)>,
    ran: FaultyRunResult,
}

impl<'f> FaultyRun<'f> {
    fn start(
        fault: Option<&'f Fault>,
        command: Command,
        around: &Surroundings<'_>,
        folder: &Path,
    ) -> anyhow::Result<Self> {
        let mut command = command;
        if let Some(Fault::Inject { process, .. }) = fault {
            ensure!(Path::new(STRACE).exists(), "{STRACE} is missing (of the Debian package strace)");
            let before = strace(fault, around, &folder.join("trace"));
            match process {
                Process::Controller => command = put_under(&before, &command),
                Process::Agent(host) => around.hosts.context("no hosts")?.put_under(*host, &before)?,
                Process::Ssh => bail!("system calls of ssh are not made to fail"),
            }
        }
        let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        command.env(VARIABLE, &name).process_group(0);
        command.stdout(File::create(folder.join("stdout"))?).stderr(File::create(folder.join("stderr"))?);
        command.stdin(match around.input {
            Some(input) => Stdio::from(File::open(input)?),
            None => Stdio::null(),
        });
        let at_start = around.target.map(measure).unwrap_or_default();
        let child = command.spawn().with_context(|| format!("run {}", command.get_program().display()))?;
        Ok(Self {
            fault,
            folder: folder.to_owned(),
            child,
            variable: format!("{VARIABLE}={name}"),
            begun: Instant::now(),
            at_start,
            most_entries: at_start.1,
            pending: fault.and_then(Fault::trigger),
            undo: None,
            meddler: None,
            ran: FaultyRunResult::default(),
        })
    }

    fn finish(mut self, around: &mut Surroundings<'_>) -> anyhow::Result<FaultyRunResult> {
        let watched = self.watch(around);
        // In any case nothing may stay stopped, disconnected or running.
        self.take_back(around);
        if watched.is_err() {
            self.kill_all(around);
        }
        let status = self.child.wait()?;
        self.ran.took = self.begun.elapsed();
        if let Some((enough, meddler)) = self.meddler.take() {
            enough.store(true, Ordering::Relaxed);
            self.ran.changed = meddler.join().unwrap_or_default();
            self.ran.took_place = !self.ran.changed.is_empty();
        }
        self.wait_for_the_rest(around);
        watched?;
        self.tell(status)?;
        if matches!(self.fault, Some(Fault::PowerCut { .. })) && self.ran.took_place {
            around.mounted.as_mut().context("no file system to cut off")?.remount()?;
        }
        Ok(self.ran)
    }

    /// Waits for the end, and carries out the fault meanwhile.
    fn watch(&mut self, around: &mut Surroundings<'_>) -> anyhow::Result<()> {
        while self.child.try_wait()?.is_none() {
            if self.begun.elapsed() > around.deadline {
                self.ran.hung = Some(self.describe(around));
                self.take_back(around);
                self.kill_all(around);
                return Ok(());
            }
            if self.undo.as_ref().is_some_and(|(at, _)| *at <= Instant::now()) {
                self.take_back(around);
            }
            if let Some(trigger) = self.pending
                && self.fires(trigger, around)
            {
                self.pending = None;
                if let Some(fault) = self.fault {
                    self.ran.took_place = self.act(fault, around)?;
                }
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn fires(&mut self, trigger: Trigger, around: &Surroundings<'_>) -> bool {
        match (trigger, around.target) {
            (Trigger::AfterMs(ms), _) => self.begun.elapsed() >= Duration::from_millis(ms),
            (_, None) => false,
            (Trigger::DraftAppears, Some(target)) => {
                has_draft(target) || target.parent().is_some_and(draft_in)
            }
            (Trigger::BytesArrived(bytes), Some(target)) => measure(target).0 >= self.at_start.0 + bytes,
            (Trigger::EntriesArrived(entries), Some(target)) => {
                measure(target).1 >= self.at_start.1 + entries
            }
            (Trigger::EntriesLeft(entries), Some(target)) => {
                let now = measure(target).1;
                self.most_entries = self.most_entries.max(now);
                self.most_entries >= now + entries
            }
        }
    }

    /// Carries out the fault. Returns true if there was anything that it could affect.
    fn act(&mut self, fault: &Fault, around: &Surroundings<'_>) -> anyhow::Result<bool> {
        let outside = self.folder.join("outside");
        let target = || around.target.context("no target to tamper with");
        let (deed, seed) = match fault {
            Fault::Kill { process, .. } => return Ok(send(&self.of(*process, around)?, Signal::KILL)),
            Fault::Interrupt { .. } => return Ok(send(&[self.child.id()], Signal::INT)),
            Fault::KillAll { .. } => {
                self.kill_all(around);
                return Ok(true);
            }
            Fault::StopFor { process, ms, .. } => {
                let stopped = self.of(*process, around)?;
                let any = send(&stopped, Signal::STOP);
                self.undo =
                    Some((Instant::now() + Duration::from_millis(*ms), FaultReversal::Continue(stopped)));
                return Ok(any);
            }
            Fault::LinkDown { host, ms, .. } => {
                around.hosts.context("no hosts")?.link_down(*host)?;
                self.undo = Some((Instant::now() + Duration::from_millis(*ms), FaultReversal::LinkUp(*host)));
                return Ok(true);
            }
            // The harness arranges for these before the run.
            Fault::Inject { .. }
            | Fault::StoreTrouble { .. }
            | Fault::StoreKilled { .. }
            | Fault::StoreChanges { .. } => return Ok(false),
            Fault::SourceChanges { seed, .. } => {
                let source = around.source.context("no source to change")?.to_owned();
                let (enough, seed) = (Arc::new(AtomicBool::new(false)), *seed);
                self.ran.outside = Some(outside.clone());
                let told = Arc::clone(&enough);
                let meddler = thread::spawn(move || tree_changes::meddle(&source, &outside, seed, &told));
                self.meddler = Some((enough, meddler));
                return Ok(true);
            }
            Fault::PowerCut { .. } => {
                around.mounted.as_ref().context("no file system to cut off")?.cut()?;
                self.kill_all(around);
                return Ok(true);
            }
            Fault::TargetDirectorySwapped { seed, .. } => (DirectoryChange::Swap, *seed),
            Fault::TargetDirectoryRenamed { seed, .. } => (DirectoryChange::Rename, *seed),
            Fault::TargetDirectoryRemoved { seed, .. } => (DirectoryChange::Remove, *seed),
        };
        let done = tree_changes::tamper(target()?, &outside, seed, deed);
        if done.is_some() && deed == DirectoryChange::Swap {
            self.ran.outside = Some(outside);
        }
        self.ran.changed.extend(done.clone());
        Ok(done.is_some())
    }

    /// Returns the PIDs of these processes.
    fn of(&self, process: Process, around: &Surroundings<'_>) -> anyhow::Result<Vec<u32>> {
        Ok(match process {
            Process::Controller => vec![self.child.id()],
            Process::Ssh => {
                let all = processes::with_variable(&self.variable)?;
                all.into_iter().filter(|process| processes::runs(*process, "ssh")).collect()
            }
            Process::Agent(host) => {
                // By name, since an uploaded agent has no path.
                let all = around.hosts.context("no hosts")?.processes(host)?;
                all.into_iter().filter(|process| processes::is_named(*process, "hakobu")).collect()
            }
        })
    }

    /// Returns all processes of this run that have not ended.
    fn everything(&self, around: &Surroundings<'_>) -> Vec<u32> {
        let mut all = processes::with_variable(&self.variable).unwrap_or_default();
        for host in around.hosts.iter().flat_map(|hosts| TestHost::ALL.map(|host| hosts.processes(host))) {
            all.extend(host.unwrap_or_default());
        }
        all.retain(|process| !processes::is_zombie(*process));
        all
    }

    fn kill_all(&mut self, around: &Surroundings<'_>) {
        let _ = self.child.kill();
        // A process that is being started may be missed the first time.
        for _ in 0..3 {
            if !send(&self.everything(around), Signal::KILL) {
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn take_back(&mut self, around: &Surroundings<'_>) {
        match self.undo.take() {
            Some((_, FaultReversal::Continue(stopped))) => {
                send(&stopped, Signal::CONT);
            }
            Some((_, FaultReversal::LinkUp(host))) => {
                let _ = around.hosts.map(|hosts| hosts.link_up(host));
            }
            None => {}
        }
    }

    /// Waits for the remaining processes, and kills them after [`GRACE`].
    fn wait_for_the_rest(&mut self, around: &Surroundings<'_>) {
        let deadline = Instant::now() + GRACE;
        loop {
            let rest = self.everything(around);
            if rest.is_empty() {
                return;
            }
            if Instant::now() > deadline {
                self.ran.left_behind = rest.iter().map(|process| processes::command_line(*process)).collect();
                self.kill_all(around);
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Describes what all processes of the run are waiting for.
    fn describe(&self, around: &Surroundings<'_>) -> String {
        let mut text = String::new();
        for process in self.everything(around) {
            text.push_str(&processes::command_line(process));
            text.push('\n');
            for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let read = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
                text.push_str(&format!(
                    "  {} in {} {}\n",
                    read("comm").trim(),
                    read("wchan").trim(),
                    read("syscall").trim()
                ));
            }
        }
        text
    }

    fn tell(&mut self, status: ExitStatus) -> anyhow::Result<()> {
        self.ran.code = status.code();
        self.ran.signal = status.signal();
        self.ran.stdout = fs::read(self.folder.join("stdout"))?;
        self.ran.stderr = fs::read(self.folder.join("stderr"))?;
        if matches!(self.fault, Some(Fault::Inject { .. })) {
            let trace = fs::read(self.folder.join("trace")).unwrap_or_default();
            self.ran.injected = trace.windows(10).filter(|part| *part == b"(INJECTED)").count();
            self.ran.took_place = self.ran.injected > 0;
        }
        Ok(())
    }
}

/// Sends a signal to all of these processes. Returns true if there were any.
fn send(to: &[u32], signal: Signal) -> bool {
    for process in to {
        processes::signal(*process, signal);
    }
    !to.is_empty()
}

/// Returns the words before a command that make its system calls fail. All agents of a host append to one trace.
fn strace(fault: Option<&Fault>, around: &Surroundings<'_>, trace: &Path) -> Vec<OsString> {
    let Some(Fault::Inject { process, calls, errno, nth, from_then_on }) = fault else { return Vec::new() };
    let more = if *from_then_on { "+" } else { "" };
    let mut words: Vec<OsString> = [STRACE, "-f", "-qq", "-A", "-o"].map(OsString::from).to_vec();
    words.push(trace.into());
    // Do not trace the controller's ssh. strace cannot combine that with `--seccomp-bpf`, which is far faster.
    let children = around.hosts.is_some() && *process == Process::Controller;
    words.extend(if children { vec!["-b".into(), "execve".into()] } else { vec!["--seccomp-bpf".into()] });
    words.extend(["-e".into(), format!("trace={calls}").into()]);
    words.extend(["-e".into(), format!("inject={calls}:error={errno}:when={nth}{more}").into()]);
    words
}

/// Returns the command with other words before it.
fn put_under(before: &[OsString], command: &Command) -> Command {
    let mut under = Command::new(&before[0]);
    under.args(&before[1..]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => under.env(name, value),
            None => under.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        under.current_dir(directory);
    }
    under
}

/// Returns the number of bytes below a path, without space allocated in advance, and the number of entries.
fn measure(path: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let Ok(facts) = fs::symlink_metadata(path) else { return (0, 0) };
    let mut sum = (facts.len().min(facts.blocks() * 512), 1);
    if facts.is_dir() {
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let (bytes, entries) = measure(&entry.path());
            sum = (sum.0 + bytes, sum.1 + entries);
        }
    }
    sum
}

/// Returns true if there is a draft in the directory itself.
fn draft_in(directory: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| entry.file_name().as_bytes().starts_with(DRAFT))
}

/// Returns true if there is a draft anywhere below the directory.
fn has_draft(directory: &Path) -> bool {
    let below =
        |entry: fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && has_draft(&entry.path());
    draft_in(directory) || fs::read_dir(directory).into_iter().flatten().flatten().any(below)
}
