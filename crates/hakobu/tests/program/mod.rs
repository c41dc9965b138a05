//! The program under test, a host to copy to, and data: what the end-to-end tests of trees and of disks share.

#![allow(dead_code, reason = "each of these tests uses some of it")]

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use hakobu_measure::generate::{self, FileSpec, SizeDistribution, TreeSpec};
use hakobu_testkit::link::Link;
use hakobu_testkit::sshd::{Sshd, SshdOptions};
use hakobu_testkit::tree_difference::compare;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// No run of these tests may take longer.
const RUN_LIMIT: Duration = Duration::from_secs(200);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The program that was built for this test.
pub const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");

/// A place of its own for a test, in memory.
pub fn place() -> TempDir {
    let place = TempDir::with_prefix_in("hakobu-test.", "/dev/shm").unwrap();
    open_to_all(place.path());
    place
}

/// A timetable in whose pause it is, hours from the beginning and from the end.
pub fn in_a_pause() -> &'static str {
    match jiff::Zoned::now().hour() {
        3..16 => "01:00,pause 20:00,off",
        _ => "09:00,off 12:00,pause",
    }
}

/// A small file system, mounted for the time of a test.
pub struct Small(pub PathBuf);

impl Small {
    pub fn mount(at: &Path, options: &str) -> Self {
        std::fs::create_dir_all(at).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(at);
        assert!(mount.status().unwrap().success(), "mounting needs root");
        Self(at.to_owned())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Lets every user in.
pub fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Puts a program to where every user can run it. By another process: a descriptor that is open for writing could
/// leak into a child of another test's thread, and the file could not be run.
pub fn install(program: impl AsRef<Path>, to: &Path) {
    let mut install = Command::new("install");
    install.args(["-m", "755"]).arg(program.as_ref()).arg(to);
    assert!(install.status().unwrap().success());
}

/// A new file of this size, of random content.
pub fn file(path: &Path, size_bytes: u64) -> PathBuf {
    let seed = path.as_os_str().len() as u64 + size_bytes;
    generate::file(path, FileSpec { size_bytes, seed, compressibility: 0.0, threads: 2 }).unwrap();
    path.to_owned()
}

/// A new tree with everything that trees have: nasty names, links, empty directories, files of many sizes.
pub fn tree(path: &Path) -> PathBuf {
    let spec = TreeSpec {
        files: 300,
        directories: 24,
        empty_directories: 5,
        fanout: 3,
        size: SizeDistribution::LogNormal { median_bytes: 4000, sigma: 2.5 },
        nasty_names: true,
        links: true,
        ..TreeSpec::default()
    };
    generate::tree(path, &spec).unwrap();
    std::fs::write(path.join("empty file"), "").unwrap();
    file(&path.join("large"), 5_000_001);
    path.to_owned()
}

/// Fails unless both are alike in all that a copy keeps.
#[track_caller]
pub fn assert_same(source: &Path, target: &Path) {
    let differences = compare(source, target).unwrap();
    let shown: Vec<_> = differences.iter().take(9).map(ToString::to_string).collect();
    assert!(differences.is_empty(), "{} differences: {shown:#?}", differences.len());
}

/// Every draft anywhere below a directory.
pub fn drafts(below: &Path) -> Vec<PathBuf> {
    let (mut found, mut open) = (Vec::new(), vec![below.to_owned()]);
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => open.push(entry.path()),
                _ if entry.file_name().as_encoded_bytes().starts_with(b".hakobu.") => {
                    found.push(entry.path());
                }
                _ => {}
            }
        }
    }
    found
}

/// Waits until something holds.
#[track_caller]
pub fn wait_until(what: &str, limit: Duration, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + limit;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {limit:?}: {what}");
        sleep(LOOK_EVERY);
    }
}

/// A host with a real OpenSSH server. It goes by two names, `throwaway` and `another`.
pub struct Host {
    pub sshd: Sshd,
    /// In the environment of what it runs.
    mark: String,
}

impl Host {
    /// On loopback, with hakobu on the PATH.
    pub fn up() -> Self {
        Self::with(&SshdOptions { path_dirs: vec![program_dir()], ..SshdOptions::default() })
    }

    /// How many logins there were.
    pub fn logins(&self) -> usize {
        self.sshd.log().lines().filter(|line| line.contains("Accepted p")).count()
    }

    /// As wished; nothing is on the PATH by itself.
    pub fn with(options: &SshdOptions) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (name, number) = ("HAKOBU_TEST_HOST", NUMBER.fetch_add(1, Relaxed));
        let value = format!("{}-{number}", std::process::id());
        let mut options = options.clone();
        options.set_env.push((name.to_owned(), value.clone()));
        let sshd = Sshd::start(&options).unwrap();
        let config = std::fs::read_to_string(sshd.client_config()).unwrap();
        let both = config.replace("Host throwaway\n", "Host throwaway another\n");
        std::fs::write(sshd.client_config(), both).unwrap();
        Self { sshd, mark: format!("{name}={value}") }
    }

    /// At the far end of a link, with hakobu on the PATH.
    pub fn behind(link: &Link) -> Self {
        Self::with(&SshdOptions {
            path_dirs: vec![program_dir()],
            netns: Some(link.far().name().to_owned()),
            address: IpAddr::V4(link.far().address()),
            ..SshdOptions::default()
        })
    }

    /// A path on this host as it is typed.
    pub fn at(&self, path: impl AsRef<OsStr>) -> OsString {
        remote("throwaway", path)
    }

    /// Returns a location on the host by its other name.
    pub fn at_another(&self, path: impl AsRef<OsStr>) -> OsString {
        remote("another", path)
    }

    /// The agents that it runs, also those that have lost their login.
    pub fn agents(&self) -> Vec<Pid> {
        let ours = self.sshd.processes();
        let is_agent = |id: &u32| {
            let read = |what: &str| std::fs::read(format!("/proc/{id}/{what}")).unwrap_or_default();
            let words = read("cmdline");
            let agent = is_agent_of(&words) && !words.starts_with(b"sh\0") && !words.starts_with(b"sudo\0");
            let marked =
                || read("environ").split(|&byte| byte == 0).any(|variable| variable == self.mark.as_bytes());
            agent && (ours.contains(id) || marked())
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(is_agent).filter_map(|id| Pid::from_raw(id as i32)).collect()
    }

    /// Waits until no agent is left.
    #[track_caller]
    pub fn wait_for_no_agent(&self) {
        wait_until("the agent is gone", Duration::from_secs(60), || self.agents().is_empty());
    }
}

/// Returns true if the command line of a process is that of an agent, restricted to a directory or not.
fn is_agent_of(words: &[u8]) -> bool {
    const FOR_ONE: &[u8] = b"\0agent\0--restrict\0";
    words.ends_with(b"\0agent\0") || words.windows(FOR_ONE.len()).any(|part| part == FOR_ONE)
}

fn program_dir() -> PathBuf {
    Path::new(HAKOBU).parent().unwrap().to_owned()
}

fn remote(host: &str, path: impl AsRef<OsStr>) -> OsString {
    let mut typed = OsString::from(host);
    typed.push(":");
    typed.push(path);
    typed
}

/// A path with a slash behind it: the contents of a directory.
pub fn contents(path: impl AsRef<OsStr>) -> OsString {
    let mut typed = path.as_ref().to_owned();
    typed.push("/");
    typed
}

/// Lets signals end what is started from now on, however the tests were started.
pub fn heed_signals() {
    hakobu_sys::signal::heed_all().unwrap();
}

/// `hakobu copy`, or another verb that moves data, before it runs.
pub struct Copy {
    command: Command,
    report: TempDir,
}

impl Copy {
    pub fn new() -> Self {
        Self::by(Command::new(HAKOBU))
    }

    /// `hakobu sync`.
    pub fn sync() -> Self {
        Self::verb(Command::new(HAKOBU), "sync")
    }

    /// `hakobu verify`.
    pub fn verify() -> Self {
        Self::verb(Command::new(HAKOBU), "verify")
    }

    /// Run by another command, of which hakobu's path is the last word.
    pub fn by(command: Command) -> Self {
        Self::verb(command, "copy")
    }

    /// Prepares a run of another verb.
    pub fn verb(mut command: Command, verb: &str) -> Self {
        heed_signals();
        let report = TempDir::with_prefix("hakobu-report.").unwrap();
        command.args([verb, "--json", "--report"]).arg(report.path().join("report.json"));
        command
            .env_remove("HAKOBU_SSH")
            .env("HAKOBU_SETTINGS", "none")
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        Self { command, report }
    }

    /// From the near end of a link.
    pub fn across(link: &Link) -> Self {
        Self::by(link.near().command(HAKOBU))
    }

    /// As another user of this machine; `program` is one that this user can run.
    pub fn as_user(user: &str, program: &Path) -> Self {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", user, "--regid", "nogroup", "--clear-groups"]).arg(program);
        let copy = Self::by(command);
        std::os::unix::fs::chown(copy.report.path(), Some(uid_of(user)), None).unwrap();
        copy
    }

    /// With the ssh that knows this host.
    pub fn to(mut self, host: &Host) -> Self {
        self.command.env("HAKOBU_SSH", host.sshd.ssh_command());
        self
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args<A: AsRef<OsStr>>(mut self, arguments: impl IntoIterator<Item = A>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Options, divided by blanks.
    pub fn options(mut self, options: &str) -> Self {
        self.command.args(options.split_whitespace());
        self
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let mut child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let (out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let heard = Arc::clone(&events);
        let out = std::thread::spawn(move || {
            for line in BufReader::new(out).lines() {
                let line = line.unwrap();
                let event = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
                heard.lock().unwrap().push(event);
            }
        });
        let err = std::thread::spawn(move || {
            let mut text = Vec::new();
            err.read_to_end(&mut text).unwrap();
            String::from_utf8(text).expect("only UTF-8 is printed")
        });
        Running { child, events, readers: Some((out, err)), report: self.report, ended: None }
    }

    /// Starts it as a process group of its own, to which the ssh processes belong that it starts.
    pub fn start_group(mut self) -> Running {
        std::os::unix::process::CommandExt::process_group(&mut self.command, 0);
        self.start()
    }

    /// Runs it slowly from when the machines have met until so many logins were seen, then to its end; it may end before. At first
    /// it is left alone: how far away the other machine is shows in how soon an answer is there.
    #[track_caller]
    pub fn crawl_until_logins(self, host: &Host, count: usize) -> Ran {
        let mut running = self.start();
        let has_started =
            |running: &Running| running.events().iter().any(|event| event["event"] == "started");
        running.wait_while_unfinished(has_started, || sleep(Duration::from_millis(1)));
        while host.logins() < count && running.child.try_wait().unwrap().is_none() {
            crawl(running.id());
        }
        if running.child.try_wait().unwrap().is_none() {
            running.signal(Signal::CONT);
        }
        running.end()
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(self) -> Ran {
        self.start().end()
    }

    /// Runs it to its end, which has to be this exit code.
    #[track_caller]
    pub fn run_to(self, code: i32) -> Ran {
        let ran = self.run();
        assert_eq!(ran.code, Some(code), "{}\n{:#}", ran.err, ran.report);
        ran
    }
}

/// The program, which stands still until it is let crawl: a busy machine may run it to its end before a test looks.
pub fn stopped() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "kill -STOP $$; exec \"$@\"", "sh", HAKOBU]);
    command
}

/// `hakobu copy` on a terminal. What is written to the command's standard input is typed there, what is shown comes out
/// of its standard output.
pub fn terminal(host: &Host, program: &str, arguments: &[&OsStr]) -> Command {
    let mut line = format!("exec {program} copy");
    for argument in arguments {
        line.push_str(&format!(" '{}'", argument.to_str().unwrap()));
    }
    let mut script = Command::new("script");
    script
        .args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"])
        .env("HAKOBU_SSH", host.sshd.ssh_command())
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    script
}

/// Lets a process that stands still run for a short moment.
fn crawl(process: Pid) {
    let began = Instant::now();
    kill_process(process, Signal::CONT).unwrap();
    sleep(Duration::from_millis(2));
    kill_process(process, Signal::STOP).unwrap();
    // Progress is told once in a second; in the meantime it must not come far, also where the machine is busy and a short
    // moment became a long one.
    sleep(began.elapsed() * 20);
}

/// A copy under way.
pub struct Running {
    child: Child,
    events: Arc<Mutex<Vec<Value>>>,
    readers: Option<(JoinHandle<()>, JoinHandle<String>)>,
    report: TempDir,
    ended: Option<ExitStatus>,
}

impl Running {
    pub fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub fn events(&self) -> Vec<Value> {
        self.events.lock().unwrap().clone()
    }

    /// Waits until a progress event says that data has moved, and that more is to come.
    #[track_caller]
    pub fn wait_until_under_way(&mut self) {
        self.wait_while_unfinished(Self::is_under_way, || sleep(LOOK_EVERY));
    }

    /// Slows the run by the processor alone: the process runs for a short moment now and then, is stopped while it is
    /// inspected, and stays stopped.
    #[track_caller]
    pub fn crawl_until_under_way(&mut self) {
        self.crawl_until(Self::is_under_way);
    }

    #[track_caller]
    pub fn crawl_until(&mut self, holds: impl Fn(&Self) -> bool) {
        let id = self.id();
        self.wait_while_unfinished(holds, || crawl(id));
    }

    fn is_under_way(&self) -> bool {
        self.events().iter().any(|event| {
            let done = event["bytes_done"].as_u64().unwrap_or(0);
            event["event"] == "progress" && done > 0 && Some(done) < event["bytes_scanned"].as_u64()
        })
    }

    #[track_caller]
    fn wait_while_unfinished(&mut self, holds: impl Fn(&Self) -> bool, wait: impl Fn()) {
        let deadline = Instant::now() + RUN_LIMIT;
        while !holds(self) {
            assert!(Instant::now() < deadline, "no progress: {:?}", self.events());
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "it ended before it was seen under way: {:?}", self.events());
            wait();
        }
        self.assert_unfinished();
    }

    #[track_caller]
    pub fn assert_unfinished(&self) {
        assert!(!self.events().iter().any(|event| event["event"] == "finished"), "{:?}", self.events());
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.id(), signal).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn end(mut self) -> Ran {
        let deadline = Instant::now() + RUN_LIMIT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it does not end: {:?}", self.events());
            sleep(LOOK_EVERY);
        };
        self.ended = Some(status);
        let (out, err) = self.readers.take().unwrap();
        out.join().unwrap();
        let err = err.join().unwrap();
        let written = std::fs::read(self.report.path().join("report.json")).unwrap_or_default();
        let report = serde_json::from_slice(&written).unwrap_or(Value::Null);
        Ran { code: status.code(), err, report, events: self.events() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// A copy that has ended.
pub struct Ran {
    /// The exit code; none where a signal ended it.
    pub code: Option<i32>,
    /// The standard error of the run.
    pub err: String,
    pub report: Value,
    pub events: Vec<Value>,
}

impl Ran {
    /// A count of entries.
    pub fn entries(&self, name: &str) -> u64 {
        self.report["entries"][name].as_u64().unwrap()
    }

    /// The changes of `--itemize`, each with its action and path, in order of paths.
    pub fn changes(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let changed = self.events.iter().filter(|event| event["event"] == "changed");
        let mut all: Vec<_> = changed.map(|event| (text(&event["action"]), text(&event["path"]))).collect();
        all.sort_by(|one, other| one.1.cmp(&other.1));
        all
    }

    /// How many of what was lost.
    pub fn lost(&self, what: &str) -> u64 {
        let losses = self.report["losses"].as_array().unwrap();
        losses.iter().find(|loss| loss["what"] == what).map_or(0, |loss| loss["count"].as_u64().unwrap())
    }

    /// The paths that failed, with why.
    pub fn failures(&self) -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let failures = self.report["failures"].as_array().unwrap().iter();
        failures.map(|failure| (text(&failure["path"]), text(&failure["error"]))).collect()
    }

    /// Fails unless the error says all of this.
    #[track_caller]
    pub fn says(&self, words: &[&str]) -> &Self {
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in: {}", self.err);
        }
        self
    }
}

/// The user's number.
pub fn uid_of(user: &str) -> u32 {
    let output = Command::new("id").args(["-u", user]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}
