//! Runs without a terminal, and `hakobu jobs`.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::changes::slow_link;
use crate::program::*;

/// Large enough for a journal, and for some seconds on a slow link.
const SIZE_BYTES: u64 = 100_000_000;
pub const LIMIT: Duration = Duration::from_secs(60);

/// The jobs of a test and their surroundings.
pub struct Desk {
    state: TempDir,
    place: TempDir,
    pub host: Option<Host>,
    link: Option<Link>,
}

impl Desk {
    pub fn here() -> Self {
        Self { state: TempDir::with_prefix("hakobu-state.").unwrap(), place: place(), host: None, link: None }
    }

    fn behind_a_slow_link() -> Self {
        let (mut desk, link) = (Self::here(), slow_link());
        desk.host = Some(Host::behind(&link));
        desk.link = Some(link);
        desk
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn command(&self) -> Command {
        let mut command =
            self.link.as_ref().map_or_else(|| Command::new(HAKOBU), |link| link.near().command(HAKOBU));
        command
            .env("HAKOBU_STATE", self.state.path())
            .env_remove("HAKOBU_SSH")
            .env("HAKOBU_SETTINGS", "none")
            .env_remove("SSH_AUTH_SOCK");
        if let Some(host) = &self.host {
            command.env("HAKOBU_SSH", host.sshd.ssh_command());
        }
        command.env("LC_ALL", "C").stdin(Stdio::null()).current_dir(self.place.path());
        command
    }

    #[track_caller]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> (i32, String, String) {
        let Output { status, stdout, stderr } = self.command().args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (status.code().unwrap(), text(stdout), text(stderr))
    }

    /// Runs `hakobu jobs`, which has to succeed.
    #[track_caller]
    pub fn jobs(&self, arguments: &str) -> (String, String) {
        let words: Vec<_> = ["jobs"].into_iter().chain(arguments.split_whitespace()).collect();
        let (code, out, err) = self.run(&words);
        assert_eq!(code, 0, "{arguments}: {out}{err}");
        (out, err)
    }

    /// Starts a job; returns its ID.
    #[track_caller]
    pub fn detach(&self, arguments: &[&OsStr]) -> String {
        // With more lanes everything would be in flight at once, and nothing done until the end.
        let words = ["copy", "--detach", "--lanes=2"].map(OsStr::new);
        let words: Vec<_> = words.into_iter().chain(arguments.iter().copied()).collect();
        let (code, out, err) = self.run(&words);
        assert_eq!(code, 0, "{out}{err}");
        let id = out.trim_end().to_owned();
        assert!(err.contains("copying ") && err.contains(&format!("hakobu jobs attach {id}")), "{err}");
        id
    }

    fn list(&self) -> Vec<Value> {
        let list: Value = serde_json::from_str(&self.jobs("list --json").0).unwrap();
        assert_eq!(list["schema"], "hakobu.jobs/1");
        list["jobs"].as_array().unwrap().clone()
    }

    pub fn shown(&self, id: &str) -> Value {
        let shown: Value = serde_json::from_str(&self.jobs(&format!("show {id} --json")).0).unwrap();
        shown["jobs"][0].clone()
    }

    pub fn state_of(&self, id: &str) -> String {
        self.shown(id)["state"].as_str().unwrap().to_owned()
    }

    #[track_caller]
    fn wait_for_progress(&self, id: &str) {
        // The line begins with the share, which includes the data in flight, but that is less than a fifth.
        let moves = |shown: &Value| {
            let line = shown["progress"].as_str().unwrap_or_default();
            let share = line.split_once(" %").and_then(|(share, _)| share.trim().parse::<u32>().ok());
            line.contains(" MB of ") && share >= Some(20)
        };
        wait_until("the job makes progress", LIMIT, || moves(&self.shown(id)));
        assert_eq!(self.state_of(id), "running");
    }

    #[track_caller]
    pub fn attach_to(&self, id: &str, code: i32) -> String {
        let (found, out, err) = self.run(&["jobs", "attach", id]);
        assert_eq!(found, code, "{out}{err}");
        out
    }

    /// Returns the processes that run jobs of this test.
    fn processes(&self) -> Vec<Pid> {
        let state = format!("HAKOBU_STATE={}", self.state.path().display());
        let is_ours = |id: &u32| {
            let read = |what: &str| fs::read(format!("/proc/{id}/{what}")).unwrap_or_default();
            let runs = read("cmdline").split(|&byte| byte == 0).any(|word| word == b"run");
            runs && read("environ").split(|&byte| byte == 0).any(|variable| variable == state.as_bytes())
        };
        let all = fs::read_dir("/proc").unwrap().flatten();
        let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        ids.filter(is_ours).filter_map(|id| Pid::from_raw(id as i32)).collect()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        for process in self.processes() {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

#[test]
fn a_job_is_listed_paused_resumed_and_watched_to_its_end() {
    if no_root() {
        return;
    }
    let desk = Desk::behind_a_slow_link();
    let source = file(&desk.path("source"), SIZE_BYTES);
    let target = desk.path("target");
    let far = desk.host.as_ref().unwrap().at(&target);
    // A relative path refers to the directory in which the job was started.
    let id = desk.detach(&[OsStr::new("source"), &far]);
    desk.wait_for_progress(&id);
    let process = desk.processes()[0];
    assert_eq!(rustix::process::getsid(Some(process)).unwrap(), process, "a session of its own");

    let (listed, _) = desk.jobs("");
    assert!(
        listed.starts_with("ID       STATE        PROGRESS ") && listed.contains("  COMMAND\n"),
        "{listed}"
    );
    let line = listed.lines().nth(1).unwrap();
    assert!(
        line.starts_with(&format!("{id}  running ")) && line.contains("copy --detach --lanes=2 source"),
        "{listed}"
    );
    assert!(desk.jobs(&format!("show {}", &id[..6])).0.contains("copying "));
    let (code, _, err) = desk.run(&["jobs", "forget", &id]);
    assert!(code == 6 && err.contains("it is running"), "{err}");
    let (code, _, err) = desk.run(&["jobs", "resume", &id]);
    assert!(code == 6 && err.contains("it is running"), "{err}");

    desk.jobs(&format!("pause {id}"));
    assert_eq!(desk.state_of(&id), "paused");
    assert!(desk.processes().is_empty() && !target.exists());
    // It stays paused until the user wants it.
    desk.jobs("resume --all");
    assert_eq!(desk.state_of(&id), "paused");
    // The ID may be omitted if there is only one job.
    let (code, out, err) = desk.run(&["jobs", "attach"]);
    assert!(code == 130 && out.contains("to go on: hakobu jobs resume"), "{out}{err}");
    assert!(desk.attach_to(&id, 130).contains(&format!("to go on: hakobu jobs resume {id}")));

    desk.jobs(&format!("resume {id}"));
    let said = desk.attach_to(&id, 0);
    assert!(said.contains("done: 1 created"), "{said}");
    assert_same(&source, &target);
    let shown = desk.shown(&id);
    assert_eq!((&shown["state"], &shown["exit_code"]), (&Value::from("done"), &Value::from(0)));
    assert_eq!(shown["report"]["resumed"], true, "{shown:#}");
    assert!(drafts(desk.place.path()).is_empty());
    desk.jobs(&format!("forget {id}"));
    assert!(desk.list().is_empty() && fs::read_dir(desk.state.path().join("jobs")).unwrap().next().is_none());
}

#[test]
fn a_job_that_was_killed_is_resumed_with_all_others() {
    if no_root() {
        return;
    }
    let desk = Desk::behind_a_slow_link();
    let source = file(&desk.path("source"), SIZE_BYTES);
    let target = desk.path("target");
    let id = desk.detach(&[source.as_os_str(), &desk.host.as_ref().unwrap().at(&target)]);
    desk.wait_for_progress(&id);
    kill_process(desk.processes()[0], Signal::KILL).unwrap();
    // The system closes its files after its command has gone from the list of processes.
    wait_until("it is gone", LIMIT, || desk.jobs("list").0.contains("interrupted"));
    let (listed, _) = desk.jobs("list");
    assert!(listed.contains("ended without a report"), "{listed}");
    let (code, _, err) = desk.run(&["jobs", "attach", &id]);
    assert!(code == 1 && err.contains(&format!("hakobu jobs resume {id}")), "{err}");
    desk.host.as_ref().unwrap().wait_for_no_agent();
    assert!(!target.exists());

    // The login does not work yet, as after a restart.
    let known_hosts = desk.host.as_ref().unwrap().sshd.known_hosts();
    let known = fs::read(&known_hosts).unwrap();
    fs::write(&known_hosts, "").unwrap();
    assert!(desk.jobs("resume --all").1.contains(&format!("job {id} continues")));
    let log = |words: &str| desk.shown(&id)["log"].to_string().contains(words);
    wait_until("it waits for a login", LIMIT, || log("no login yet"));
    fs::write(&known_hosts, known).unwrap();
    desk.link.as_ref().unwrap().change(LinkSettings { mtu: 9000, ..LinkSettings::default() }).unwrap();
    desk.attach_to(&id, 0);
    assert_same(&source, &target);
    assert_eq!(desk.shown(&id)["report"]["resumed"], true);
    // A completed job is not run again.
    assert_eq!(desk.jobs("resume --all").1, "");
    assert!(desk.jobs(&format!("resume {id}")).1.contains("is done"));
}

#[test]
fn two_jobs_at_once_and_neither_is_in_the_way_of_the_other() {
    if no_root() {
        return;
    }
    let desk = Desk::behind_a_slow_link();
    let sources = ["one", "two"].map(|name| file(&desk.path(name), SIZE_BYTES));
    let targets = ["to one", "to two"].map(|name| desk.path(name));
    let far = targets.each_ref().map(|target| desk.host.as_ref().unwrap().at(target));
    let [one, two] = [0, 1].map(|job| desk.detach(&[sources[job].as_os_str(), &far[job]]));
    assert_ne!(one, two);
    desk.wait_for_progress(&one);
    desk.wait_for_progress(&two);
    let (code, _, err) = desk.run(&["jobs", "attach"]);
    assert!(code == 2 && err.contains("2 jobs run; name one: hakobu jobs attach ID"), "{err}");
    let link = |rate_bits_per_second| {
        let settings = LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() };
        desk.link.as_ref().unwrap().change(settings).unwrap();
    };
    // The link is slow so that neither job ends while it is inspected.
    link(Some(8_000_000));
    // Jobs are listed in the order of their start.
    let listed: Vec<_> = desk.list().iter().map(|job| job["id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(listed, [one.clone(), two.clone()]);
    desk.jobs(&format!("pause {one}"));
    assert_eq!(desk.state_of(&two), "running");
    link(None);
    desk.attach_to(&two, 0);
    assert_same(&sources[1], &targets[1]);
    assert_eq!(desk.state_of(&one), "paused");
    assert!(!targets[0].exists());
    assert!(desk.jobs("forget --done").1.contains(&two));
    let (code, _, err) = desk.run(&["jobs", "show", &two]);
    assert!(code == 2 && err.contains("there is none"), "{err}");
    let forgotten = desk.jobs(&format!("forget {one}")).1;
    assert!(forgotten.contains("was not done") && forgotten.contains("to one"), "{forgotten}");
}

#[test]
fn what_fails_before_it_is_on_its_own_is_no_job() {
    let desk = Desk::here();
    let (code, out, err) = desk.run(&["copy", "--detach", "nothing-here", "target"]);
    assert!(code == 1 && out.is_empty() && err.contains("nothing-here: no such file"), "{err}");
    for line in [["--json", "a", "b"], ["--dry-run", "a", "b"], ["--lanes=0", "a", "b"]] {
        let words: Vec<_> = ["copy", "--detach"].into_iter().chain(line).collect();
        assert_eq!(desk.run(&words).0, 2, "{line:?}");
    }
    assert!(desk.list().is_empty());
    assert!(desk.jobs("").0.contains("no jobs"));
}

/// The second of two equal copies is refused, over ssh and on one machine, where the lock is taken elsewhere.
#[test]
fn a_copy_that_already_runs_is_refused_as_without_detach() {
    if no_root() {
        return;
    }
    let mut desk = Desk::here();
    desk.host = Some(Host::up());
    let source = file(&desk.path("source"), SIZE_BYTES);
    let near = desk.path("target").into_os_string();
    let far = desk.host.as_ref().unwrap().at(desk.path("far target"));
    for target in [near, far] {
        // The job pauses and holds its lock.
        let words = [OsStr::new("--bwlimit"), OsStr::new(in_a_pause()), source.as_os_str(), &target];
        let id = desk.detach(&words);
        let (copy, detach) = (OsStr::new("copy"), OsStr::new("--detach"));
        let (code, out, without) = desk.run(&[copy, source.as_os_str(), &target]);
        assert!(code == 6 && without.contains("the same copy is already running"), "{out}{without}");
        let (code, out, err) = desk.run(&[copy, detach, source.as_os_str(), &target]);
        assert!(code == 6 && out.is_empty() && !err.contains("hakobu jobs attach"), "{out}{err}");
        for line in without.lines() {
            assert!(err.contains(line), "{line:?} is not in {err}");
        }
        assert_eq!(desk.list().len(), 1, "it has never become a job");
        desk.jobs(&format!("pause {id}"));
        desk.jobs(&format!("forget {id}"));
    }
}

#[test]
fn the_directory_of_jobs_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::here();
    assert!(desk.list().is_empty());
    let jobs = desk.state.path().join("jobs");
    fs::set_permissions(&jobs, fs::Permissions::from_mode(0o777)).unwrap();
    for verb in ["list", "resume --all"] {
        let words: Vec<_> = ["jobs"].into_iter().chain(verb.split(' ')).collect();
        let (code, _, err) = desk.run(&words);
        assert!(code == 6 && err.contains("chmod 700"), "{err}");
    }
}

#[test]
fn ctrl_c_leaves_a_job_that_is_watched_running() {
    if no_root() {
        return;
    }
    let desk = Desk::behind_a_slow_link();
    let source = file(&desk.path("source"), SIZE_BYTES);
    let id = desk.detach(&[source.as_os_str(), &desk.host.as_ref().unwrap().at(desk.path("target"))]);
    let mut watching = desk.command();
    let watching = watching.args(["jobs", "attach", &id]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut watching = watching.spawn().unwrap();
    let mut byte = [0];
    std::io::Read::read_exact(watching.stdout.as_mut().unwrap(), &mut byte).unwrap();
    kill_process(Pid::from_child(&watching), Signal::INT).unwrap();
    let output = watching.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{err}");
    assert!(err.contains(&format!("job {id} continues")), "{err}");
    assert_eq!(desk.state_of(&id), "running");
    desk.jobs(&format!("pause {id}"));
}

/// A loop device that is removed at the end of the test.
struct Loop(String);

impl Loop {
    fn of(image: &Path) -> Self {
        let output = Command::new("losetup").args(["--find", "--show"]).arg(image).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(String::from_utf8(output.stdout).unwrap().trim().to_owned())
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn consent_that_was_typed_is_kept_for_later_runs() {
    if no_root() {
        return;
    }
    let desk = Desk::here();
    let source = file(&desk.path("source"), 64 << 20);
    let image = desk.path("image");
    fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
    assert!(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status().unwrap().success());
    let disk = Loop::of(&image);
    let line = format!("exec {HAKOBU} copy --detach '{}' {}", source.display(), disk.0);
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"]);
    script.env("HAKOBU_STATE", desk.state.path()).env("TERM", "dumb");
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut shown = String::new();
    while !shown.contains("type its ID to go on: ") {
        let mut byte = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        shown.push(char::from(byte[0]));
    }
    let disk_id = shown.split_whitespace().find(|word| word.starts_with("made.")).unwrap().to_owned();
    writeln!(child.stdin.as_mut().unwrap(), "{disk_id}").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{shown}{}", String::from_utf8_lossy(&output.stdout));
    let job = desk.list().remove(0);
    let argv = job["record"]["argv"].as_array().unwrap();
    assert!(argv.windows(2).any(|pair| pair == ["--confirm", &*disk_id]), "{job:#}");
    desk.attach_to(job["id"].as_str().unwrap(), 0);
    assert!(fs::read(&image).unwrap() == fs::read(&source).unwrap());
}

/// The job was the only process on its terminal, which hangs up when the program ends.
#[test]
fn a_job_outlives_its_terminal() {
    if no_root() {
        return;
    }
    let desk = Desk::behind_a_slow_link();
    let source = file(&desk.path("source"), SIZE_BYTES);
    let (host, target) = (desk.host.as_ref().unwrap(), desk.path("target"));
    let program = format!("ip netns exec {} {HAKOBU}", desk.link.as_ref().unwrap().near().name());
    let far = host.at(&target);
    let mut script = terminal(host, &program, &[OsStr::new("--detach"), source.as_os_str(), &far]);
    let output = script.env("HAKOBU_STATE", desk.state.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    let id = desk.list()[0]["id"].as_str().unwrap().to_owned();
    desk.wait_for_progress(&id);
    let said = desk.attach_to(&id, 0);
    assert!(said.contains("done: 1 created") && !said.contains("connection lost"), "{said}");
    assert_same(&source, &target);
}
