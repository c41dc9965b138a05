//! Tests of agents started over a real OpenSSH server, by its real client. Most need root, for the users that they log
//! in as. Without root they fail, unless HAKOBU_NO_ROOT=1 skips them.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use hakobu_core::prompts::{NoPrompts, Prompts, Secret};
use hakobu_core::shell::split;
use hakobu_ssh::{AgentOrigin, RunningAgent, SshError, SshSettings, UnattendedLogin, login, start};
use hakobu_testkit::sshd::{Shell, Sshd, SshdOptions, Sudo, User, no_root};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tempfile::TempDir;

/// Returns the stand-in for hakobu. It is built here because cargo builds examples only if all tests are requested.
fn fake_agent() -> PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let build = || {
        let test = std::env::current_exe().unwrap();
        let profile_dir = test.parent().unwrap().parent().unwrap();
        let profile = match profile_dir.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut cargo = Command::new(env!("CARGO"));
        // In the workspace, the features and thus all dependencies are those of the tests and already built.
        cargo.args(["build", "--quiet", "--workspace", "--example", "fake_agent", "--profile", profile]);
        cargo.arg("--target-dir").arg(profile_dir.parent().unwrap());
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success());
        profile_dir.join("examples/fake_agent")
    };
    BUILT.get_or_init(build).clone()
}

/// Returns a directory that puts a program called hakobu on PATH.
fn on_path() -> TempDir {
    let dir = shared_dir();
    install(&dir.path().join("hakobu"));
    dir
}

/// Returns a directory that every user can read.
fn shared_dir() -> TempDir {
    let dir = TempDir::with_prefix("hakobu-bin.").unwrap();
    let status = Command::new("chmod").arg("755").arg(dir.path()).status();
    assert!(status.unwrap().success());
    dir
}

/// Copies the agent to where users can reach it. Another process does it, because a descriptor open for writing could
/// be inherited by a child of another test's thread, and the file could not be run.
fn install(to: &Path) {
    let mut copy = Command::new("install");
    copy.args(["-m", "755"]).arg(fake_agent()).arg(to);
    assert!(copy.status().unwrap().success());
}

fn settings(server: &Sshd) -> SshSettings {
    let mut settings = SshSettings::new(server.host().as_bytes().to_vec());
    settings.ssh_command = split(server.ssh_command()).unwrap();
    settings.uploads = vec![fake_agent()];
    settings
}

/// The facts that the fake agent reports about itself.
#[derive(Debug)]
struct Itself {
    pid: Pid,
    user: u32,
    exe: String,
}

/// Reads the agent's report about itself, and has a line echoed.
fn greet(started: &mut RunningAgent) -> Itself {
    let mut output = BufReader::with_capacity(1, &mut started.stdout);
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let mut parts = line.trim_end().splitn(3, ' ');
    let mut part = || parts.next().unwrap();
    let itself = Itself {
        pid: Pid::from_raw(part().parse().unwrap()).unwrap(),
        user: part().parse().unwrap(),
        exe: part().to_owned(),
    };
    started.stdin.write_all(b"echo\n").unwrap();
    line.clear();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "echo\n");
    itself
}

/// Ends the agent in order.
fn finish(started: RunningAgent) {
    let RunningAgent { stdin, mut stdout, mut ssh, .. } = started;
    drop(stdin);
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert!(ssh.end().unwrap().success());
}

fn server(options: &SshdOptions) -> Sshd {
    Sshd::start(options).unwrap()
}

/// Starts a server and creates a user that logs in.
fn with_user(shell: Shell, sudo: &Sudo, mut options: SshdOptions) -> (Sshd, User) {
    let user = User::create(shell, sudo).unwrap();
    options.login = Some(user.name().to_owned());
    (server(&options), user)
}

/// Returns the files in directories that an upload may use. Other tests use them at the same time, so only names that
/// no other test creates can be compared: those in the test's own run directory, and hakobu's anywhere, owned by the
/// test's user.
fn left_behind(user: &User, own: &Path) -> BTreeSet<OsString> {
    let mut found = BTreeSet::new();
    let list = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in list(own) {
        found.insert(entry.path().into_os_string());
    }
    for dir in ["/tmp", "/var/tmp", "/dev/shm"].map(Path::new).iter().chain([&user.home()]) {
        for entry in list(dir) {
            let name = entry.file_name();
            let owner = entry.metadata().map(|data| std::os::unix::fs::MetadataExt::uid(&data));
            let home = fs::metadata(user.home()).unwrap();
            let users = owner.is_ok_and(|owner| owner == std::os::unix::fs::MetadataExt::uid(&home));
            if users && name.to_string_lossy().starts_with("hakobu.") {
                found.insert(entry.path().into_os_string());
            }
        }
    }
    found
}

/// Creates the user's own directory for XDG_RUNTIME_DIR, the first candidate.
fn run_dir(user: &User) -> PathBuf {
    let path = user.home().join("run");
    fs::create_dir(&path).unwrap();
    let mut chown = Command::new("chown");
    assert!(chown.arg(user.name()).arg(&path).status().unwrap().success());
    path
}

fn run_dir_env(user: &User) -> (String, String) {
    let path = user.home().join("run");
    ("XDG_RUNTIME_DIR".to_owned(), path.to_str().unwrap().to_owned())
}

#[test]
fn on_path_at_a_path_and_uploaded() {
    let dir = on_path();
    let with = server(&SshdOptions { path_dirs: vec![dir.path().to_owned()], ..SshdOptions::default() });
    let mut started = start(&settings(&with), &mut NoPrompts).unwrap();
    assert_eq!(started.way, AgentOrigin::OnPath);
    let installed = dir.path().join("hakobu");
    assert_eq!(greet(&mut started).exe, installed.to_str().unwrap());
    finish(started);

    let without = server(&SshdOptions::default());
    let odd = dir.path().join("it's \"odd\"!");
    symlink(&installed, &odd).unwrap();
    let mut at_path = settings(&without);
    at_path.agent_path = Some(odd.to_str().unwrap().as_bytes().to_vec());
    let mut started = start(&at_path, &mut NoPrompts).unwrap();
    assert_eq!(started.way, AgentOrigin::AtPath);
    greet(&mut started);
    finish(started);

    let mut started = start(&settings(&without), &mut NoPrompts).unwrap();
    assert_eq!(started.way, AgentOrigin::Uploaded);
    assert!(greet(&mut started).exe.ends_with("/hakobu (deleted)"));
    finish(started);

    let mut nothing = settings(&without);
    nothing.uploads.clear();
    let error = start(&nothing, &mut NoPrompts).unwrap_err();
    assert!(matches!(error, SshError::NothingToUpload { .. }), "{error}");
}

#[test]
fn a_forced_command_is_an_agent_too() {
    let server = server(&SshdOptions {
        config_lines: vec![format!("ForceCommand {} agent", fake_agent().display())],
        ..SshdOptions::default()
    });
    let mut started = start(&settings(&server), &mut NoPrompts).unwrap();
    greet(&mut started);
    finish(started);
}

#[test]
fn banners_and_chatty_shells() {
    if no_root() {
        return;
    }
    for (shell, file) in [(Shell::Sh, None), (Shell::Bash, Some(".bashrc")), (Shell::Csh, Some(".cshrc"))] {
        let options = SshdOptions { banner: Some("Only for friends\n".to_owned()), ..SshdOptions::default() };
        let (server, user) = with_user(shell, &Sudo::Refused, options);
        if let Some(file) = file {
            fs::write(user.home().join(file), "echo Welcome back\nprintf 'and no newline'\n").unwrap();
        }
        let mut started = start(&settings(&server), &mut NoPrompts).unwrap();
        assert_eq!(started.way, AgentOrigin::Uploaded, "{shell:?}");
        assert_ne!(greet(&mut started).user, 0);
        finish(started);

        let mut nothing = settings(&server);
        nothing.uploads.clear();
        let error = start(&nothing, &mut NoPrompts).unwrap_err();
        assert!(matches!(error, SshError::NothingToUpload { .. }), "{error}");
    }
}

#[test]
fn a_shell_that_only_talks_is_no_agent() {
    if no_root() {
        return;
    }
    let (server, user) = with_user(Shell::Bash, &Sudo::Refused, SshdOptions::default());
    fs::write(user.home().join(".bashrc"), "echo This account is closed.\nexit 0\n").unwrap();
    let error = start(&settings(&server), &mut NoPrompts).unwrap_err();
    let SshError::NotAnAgent { first_line, .. } = &error else {
        panic!("{error}");
    };
    assert_eq!(first_line, "This account is closed.");
}

#[test]
fn killed_outright_it_leaves_nothing() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Bash, &Sudo::Refused).unwrap();
    let run = run_dir(&user);
    let server = server(&SshdOptions {
        login: Some(user.name().to_owned()),
        set_env: vec![run_dir_env(&user)],
        ..SshdOptions::default()
    });
    let mut started = start(&settings(&server), &mut NoPrompts).unwrap();
    let itself = greet(&mut started);
    assert!(itself.exe.starts_with(run.to_str().unwrap()), "{itself:?}");
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
    kill_process(itself.pid, Signal::KILL).unwrap();
    let mut rest = Vec::new();
    started.stdout.read_to_end(&mut rest).unwrap();
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
}

#[test]
fn dropping_ends_the_far_agent() {
    let server = server(&SshdOptions::default());
    let mut started = start(&settings(&server), &mut NoPrompts).unwrap();
    let pid = greet(&mut started).pid;
    assert!(!server.processes().is_empty());
    drop(started);
    let mut tries = 0;
    while test_kill_process(pid).is_ok() {
        tries += 1;
        assert!(tries < 1000, "the agent outlives its connection");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn directories_that_forbid_execution_are_passed_over() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
    let run = run_dir(&user);
    let server = server(&SshdOptions {
        login: Some(user.name().to_owned()),
        set_env: vec![run_dir_env(&user)],
        noexec: vec![user.home().to_owned(), run.clone()],
        ..SshdOptions::default()
    });
    let mut started = start(&settings(&server), &mut NoPrompts).unwrap();
    let itself = greet(&mut started);
    assert!(itself.exe.starts_with("/tmp/hakobu."), "{itself:?}");
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
    finish(started);
}

#[test]
fn no_directory_at_all_is_a_clear_error() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Csh, &Sudo::Refused).unwrap();
    let run = run_dir(&user);
    // The home directory is below /tmp.
    let noexec = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let server = server(&SshdOptions {
        login: Some(user.name().to_owned()),
        set_env: vec![run_dir_env(&user)],
        noexec: noexec.to_vec(),
        small: vec![(run.clone(), 16 * 1024)],
        ..SshdOptions::default()
    });
    let error = start(&settings(&server), &mut NoPrompts).unwrap_err();
    let SshError::NoPlace { tried, .. } = &error else {
        panic!("{error}");
    };
    for part in [
        "/run (no room)",
        " /tmp (forbids execution)",
        " /var/tmp (forbids execution)",
        " /dev/shm (forbids execution)",
    ] {
        assert!(tried.contains(part), "{part}: {error}");
    }
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
}

/// Prompts that answer in turn, and count.
struct Answers {
    words: Vec<&'static str>,
    asked: u32,
}

impl Answers {
    fn new(words: &[&'static str]) -> Self {
        let words = words.iter().rev().copied().collect();
        Self { words, asked: 0 }
    }
}

impl Prompts for Answers {
    fn sudo_password(&mut self, host: &str, attempt: u32) -> Option<Secret> {
        self.asked += 1;
        assert_eq!((host, attempt), ("throwaway", self.asked));
        Secret::new(self.words.pop()?.as_bytes().to_vec())
    }
}

fn sudo_settings(server: &Sshd) -> SshSettings {
    let mut settings = settings(server);
    settings.sudo = true;
    settings
}

#[test]
fn sudo_with_a_password() {
    if no_root() {
        return;
    }
    let sudo = Sudo::Password("s3cret 'of' \"mine\"".to_owned());
    let user = User::create(Shell::Bash, &sudo).unwrap();
    let run = run_dir(&user);
    let dir = on_path();
    let with_path = |path_dirs| {
        server(&SshdOptions {
            login: Some(user.name().to_owned()),
            set_env: vec![run_dir_env(&user)],
            path_dirs,
            ..SshdOptions::default()
        })
    };
    let installed = with_path(vec![dir.path().to_owned()]);
    let mut answers = Answers::new(&["s3cret 'of' \"mine\""]);
    let mut started = start(&sudo_settings(&installed), &mut answers).unwrap();
    assert_eq!((started.way, answers.asked), (AgentOrigin::OnPath, 1));
    assert_eq!(greet(&mut started).user, 0);
    finish(started);

    let bare = with_path(Vec::new());
    let mut answers = Answers::new(&["wrong", "s3cret 'of' \"mine\""]);
    let mut started = start(&sudo_settings(&bare), &mut answers).unwrap();
    assert_eq!((started.way, answers.asked), (AgentOrigin::Uploaded, 2));
    let itself = greet(&mut started);
    assert_eq!(itself.user, 0);
    assert!(itself.exe.starts_with(run.to_str().unwrap()), "{itself:?}");
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
    kill_process(itself.pid, Signal::KILL).unwrap();
    drop(started);
    assert_eq!(left_behind(&user, &run), BTreeSet::new());
}

#[test]
fn sudo_with_wrong_passwords_or_none() {
    if no_root() {
        return;
    }
    let sudo = Sudo::Password("right".to_owned());
    let (server, _user) = with_user(Shell::Csh, &sudo, SshdOptions::default());
    let mut answers = Answers::new(&["wrong", "wrong", "wrong", "right"]);
    let error = start(&sudo_settings(&server), &mut answers).unwrap_err();
    assert!(matches!(error, SshError::WrongPassword { .. }), "{error}");
    assert_eq!(answers.asked, 3);

    let error = start(&sudo_settings(&server), &mut NoPrompts).unwrap_err();
    assert!(matches!(error, SshError::NoPassword { .. }), "{error}");
}

#[test]
fn sudo_without_a_password_and_without_leave() {
    if no_root() {
        return;
    }
    let (server, _user) = with_user(Shell::Sh, &Sudo::Free, SshdOptions::default());
    let mut started = start(&sudo_settings(&server), &mut NoPrompts).unwrap();
    assert_eq!(greet(&mut started).user, 0);
    finish(started);

    let (server, _user) = with_user(Shell::Sh, &Sudo::Refused, SshdOptions::default());
    // sudo also asks users who may not use it, and refuses only afterwards.
    let error = start(&sudo_settings(&server), &mut Answers::new(&["x", "x", "x"])).unwrap_err();
    assert!(matches!(error, SshError::Sudo { .. } | SshError::WrongPassword { .. }), "{error}");
}

#[test]
fn a_host_key_that_is_unknown_or_changed_is_sshs_to_refuse() {
    let server = server(&SshdOptions::default());
    let known = fs::read_to_string(server.known_hosts()).unwrap();
    let (place, _) = known.split_once(' ').unwrap();
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";
    for hosts in [String::new(), format!("{place} {other}\n")] {
        fs::write(server.known_hosts(), &hosts).unwrap();
        // ssh's own output goes to this process's standard error; a wrapper keeps it.
        let words = server.known_hosts().with_file_name("words");
        let mut settings = settings(&server);
        let script = format!("exec {} \"$@\" 2>{}", server.ssh_command(), words.display());
        settings.ssh_command = vec!["sh".into(), "-c".into(), script.into(), "ssh".into()];
        let error = start(&settings, &mut NoPrompts).unwrap_err();
        assert!(matches!(error, SshError::Login { .. }), "{error}");
        let words = fs::read_to_string(words).unwrap();
        assert!(words.contains("Host key verification failed"), "{words}");
        assert_eq!(words.contains("IDENTIFICATION HAS CHANGED"), !hosts.is_empty());
    }
}

#[test]
fn users_and_hosts_that_cannot_be_reached() {
    let server = server(&SshdOptions::default());
    let mut nobody = settings(&server);
    nobody.user = Some(b"no-such-user".to_vec());
    let error = start(&nobody, &mut NoPrompts).unwrap_err();
    assert!(matches!(error, SshError::Login { .. }), "{error}");

    let mut closed = settings(&server);
    drop(server);
    closed.ssh_command = split("ssh -F /dev/null -o BatchMode=yes").unwrap();
    closed.host = b"127.0.0.1".to_vec();
    closed.port = Some(1);
    let error = start(&closed, &mut NoPrompts).unwrap_err();
    assert!(matches!(error, SshError::Login { .. }), "{error}");
}

#[test]
fn a_program_for_another_machine_is_refused_before_it_is_sent() {
    let server = server(&SshdOptions::default());
    let dir = shared_dir();
    let mut program = fs::read(fake_agent()).unwrap();
    program[18..20].copy_from_slice(&243_u16.to_le_bytes());
    let path = dir.path().join("program");
    fs::write(&path, program).unwrap();
    let mut wrong = settings(&server);
    wrong.uploads = vec![path.clone()];
    let error = start(&wrong, &mut NoPrompts).unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, SshError::Architecture { .. }), "{text}");
    assert!(text.contains(std::env::consts::ARCH) && text.contains("riscv64"), "{text}");

    // If both are available, the right one is sent.
    wrong.uploads = vec![path, fake_agent()];
    let mut started = start(&wrong, &mut NoPrompts).unwrap();
    greet(&mut started);
    finish(started);
}

/// A process that is killed when the test ends in any way.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One server, with a key file, with an agent that has the key, and with neither.
#[test]
fn it_is_known_beforehand_whether_a_login_would_ask() {
    let sshd = Sshd::start(&SshdOptions::default()).unwrap();
    let mut settings = SshSettings::new(sshd.host().as_bytes().to_vec());
    settings.ssh_command = split(sshd.ssh_command()).unwrap();
    assert_eq!(login(&settings), UnattendedLogin::Works);

    let place = shared_dir();
    let (socket, config) = (place.path().join("agent"), place.path().join("config"));
    let mut command = Command::new("ssh-agent");
    command.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null()).stderr(Stdio::null());
    let agent = Killed(command.spawn().unwrap());
    while !socket.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let add = Command::new("ssh-add").arg("-q").arg(sshd.identity()).env("SSH_AUTH_SOCK", &socket).status();
    assert!(add.unwrap().success());
    // The public half identifies the key; the private one is only in the agent.
    let public = place.path().join("key.pub");
    fs::copy(sshd.identity().with_extension("pub"), &public).unwrap();
    let known = fs::read_to_string(sshd.client_config()).unwrap();
    let identity = sshd.identity().display().to_string();
    let known = known.replace(&identity, &public.display().to_string());
    let own_lines = known.lines().filter(|line| !line.contains("IdentityAgent none"));
    fs::write(&config, own_lines.map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    let by_agent = format!("env SSH_AUTH_SOCK={} ssh -F {}", socket.display(), config.display());
    settings.ssh_command = split(by_agent).unwrap();
    assert_eq!(login(&settings), UnattendedLogin::WithAgent);
    drop(agent);
    assert_eq!(login(&settings), UnattendedLogin::Asks);
    settings.ssh_command = vec!["dbclient".into()];
    assert_eq!(login(&settings), UnattendedLogin::Unknown);
}
