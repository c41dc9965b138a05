//! Starting the agent: login shells, sudo, uploads, and other programs in the place of an agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use hakobu_testkit::sshd::{Shell, SshdOptions, Sudo, User, no_root};
use rustix::process::{Signal, kill_process};

use crate::program::*;

/// Creates a directory with hakobu that every user can run.
pub fn bin() -> tempfile::TempDir {
    let bin = place();
    install(HAKOBU, &bin.path().join("hakobu"));
    bin
}

/// Starts a host on which a script takes the place of hakobu.
fn instead_of_hakobu(script: &str) -> (tempfile::TempDir, Host) {
    let bin = place();
    let path = bin.path().join("hakobu");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let host = Host::with(&SshdOptions { path_dirs: vec![bin.path().to_owned()], ..SshdOptions::default() });
    (bin, host)
}

#[test]
fn csh_a_banner_and_a_noisy_profile() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Csh, &Sudo::Refused).unwrap();
    for name in [".cshrc", ".login"] {
        fs::write(user.home().join(name), "echo noise from the profile\necho more >/dev/stderr\n").unwrap();
    }
    let (bin, place) = (bin(), place());
    let host = Host::with(&SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        banner: Some("* * * Authorised use only * * *\n".repeat(50)),
        ..SshdOptions::default()
    });
    let source = tree(&place.path().join("source"));
    let run = Copy::new().to(&host).arg(contents(&source)).arg(host.at("copy")).run_to(0);
    assert_eq!(run.report["transport"], "agent");
    // The user is not root there, so owners are not preserved.
    let count = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!(count(&source), count(&user.home().join("copy")));
    let back = place.path().join("back");
    Copy::new().to(&host).arg(contents(host.at("copy"))).arg(&back).run_to(0);
    assert_eq!(fs::read(source.join("large")).unwrap(), fs::read(back.join("large")).unwrap());
}

/// Prepares a copy by a hakobu without a static build beside it, which cannot upload itself.
fn alone(bin: &tempfile::TempDir) -> Copy {
    Copy::by(Command::new(bin.path().join("hakobu")))
}

#[test]
fn what_is_not_an_agent() {
    let (place, own) = (place(), bin());
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    for (script, words) in [
        (
            "#!/bin/sh\necho Welcome to the jungle\n",
            ["it says \"Welcome to the jungle\"", "install hakobu there"],
        ),
        ("#!/bin/sh\nexit 7\n", ["exit code 7", "hakobu --version"]),
        // The preamble of an agent, followed by nonsense.
        (
            "#!/bin/sh\nprintf '\\000hakobu:agent\\nGET / HTTP/1.1\\r\\n'; cat >/dev/null\n",
            ["longer than any message", "hint: "],
        ),
    ] {
        let (_bin, host) = instead_of_hakobu(script);
        let ran =
            alone(&own).to(&host).options("--transport agent").arg(&source).arg(host.at(&target)).run_to(1);
        ran.says(&["throwaway"]).says(&words);
        assert!(!target.exists());
    }
}

/// An agent of an unknown protocol version refuses the first request.
#[test]
fn an_agent_of_another_version() {
    use hakobu_core::error::{Error, ErrorKind};
    use hakobu_proto::control::AgentMessage;
    let (place, own) = (place(), bin());
    let source = file(&place.path().join("source"), 1000);
    let words = "no common protocol version: this host speaks 1 to 1, the other host 99 to 99; bring hakobu up to \
                 date on this host";
    let refused = Error::new(ErrorKind::Unsupported, "agreeing on a protocol version", words);
    let (mut answer, mut message) = (b"\0hakobu:agent\n".to_vec(), Vec::new());
    hakobu_proto::data::encode(&AgentMessage::Refused(refused), &mut message).unwrap();
    answer.extend((message.len() as u32).to_le_bytes());
    answer.extend(message);
    let said = place.path().join("answer");
    fs::write(&said, answer).unwrap();
    let (_bin, host) = instead_of_hakobu(&format!("#!/bin/sh\ncat {}; cat >/dev/null\n", said.display()));
    let target = place.path().join("target");
    let ran = alone(&own).to(&host).arg(&source).arg(host.at(&target)).run_to(1);
    ran.says(&[
        "agreeing on a protocol version with throwaway: no common protocol version",
        "bring hakobu up to date",
    ]);
    assert!(!target.exists());

    // A hakobu that can upload itself does so.
    let uploading = place.path().join("hakobu");
    install(static_program(), &uploading);
    let copy = Copy::by(Command::new(&uploading)).to(&host).arg("--why").arg(&source).arg(host.at(&target));
    copy.run_to(0).says(&["uploaded, as the one there is of another version"]);
    assert_same(&source, &target);
}

#[test]
fn an_agent_at_a_path() {
    let (bin, place) = (bin(), place());
    fs::rename(bin.path().join("hakobu"), bin.path().join("odd 'name'")).unwrap();
    let host = Host::with(&SshdOptions::default());
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    let copy =
        |agent: PathBuf| Copy::new().to(&host).arg("--agent").arg(agent).arg(&source).arg(host.at(&target));
    copy(bin.path().join("odd 'name'")).run_to(0);
    assert_same(&source, &target);
    fs::write(bin.path().join("plain"), "text").unwrap();
    copy(bin.path().join("plain")).run_to(1).says(&["is there, but cannot be run", "--agent PATH"]);
}

/// Copies on a terminal and types `answers`, a line for each password prompt. Returns the exit code and the output.
fn on_a_terminal(host: &Host, arguments: &[&std::ffi::OsStr], answers: &str) -> (Option<i32>, String) {
    typed_on_a_terminal(terminal(host, HAKOBU, arguments), answers)
}

fn typed_on_a_terminal(mut command: Command, answers: &str) -> (Option<i32>, String) {
    let mut child = command.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = child.stdout.take().unwrap();
    let (mut shown, mut asked) = (String::new(), 0);
    let mut answers = answers.lines();
    let mut some = [0; 4096];
    loop {
        use std::io::{Read, Write};
        let count = output.read(&mut some).unwrap_or(0);
        if count == 0 {
            break;
        }
        shown.push_str(&String::from_utf8_lossy(&some[..count]));
        while shown.matches("password for sudo on throwaway: ").count() > asked {
            asked += 1;
            match answers.next() {
                Some(answer) => writeln!(input, "{answer}").unwrap(),
                // Ctrl-C
                None => input.write_all(b"\x03").unwrap(),
            }
        }
    }
    drop(input);
    (child.wait().unwrap().code(), shown)
}

#[test]
fn sudo_with_a_password() {
    if no_root() {
        return;
    }
    let password = "s3cret 'of' mine";
    let user = User::create(Shell::Bash, &Sudo::Password(password.to_owned())).unwrap();
    let (bin, place) = (bin(), place());
    let host = Host::with(&SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        ..SshdOptions::default()
    });
    let source = tree(&place.path().join("source"));
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let (from, to) = (contents(&source), host.at(closed.join("copy")));

    // Without sudo the user has no access.
    let ran = Copy::new().to(&host).arg(&from).arg(&to).run_to(1);
    ran.says(&["ermission denied", "--sudo"]);

    let arguments = ["--sudo".as_ref(), from.as_os_str(), to.as_os_str()];
    let (code, shown) = on_a_terminal(&host, &arguments, &format!("wrong\n{password}"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("wrong password; password for sudo on throwaway: "), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert_same(&source, &closed.join("copy"));

    let (code, shown) = on_a_terminal(&host, &arguments, "wrong\nagain\nand again");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("sudo on throwaway did not accept the password"), "{shown}");

    // A job asks for the password before it leaves the terminal, and warns that it cannot do so later.
    let state = place.path().join("state");
    let second = host.at(closed.join("second"));
    let words = ["--detach".as_ref(), "--sudo".as_ref(), from.as_os_str(), second.as_os_str()];
    let mut detached = terminal(&host, HAKOBU, &words);
    detached.env("HAKOBU_STATE", &state);
    let (code, shown) = typed_on_a_terminal(detached, password);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("NOPASSWD") && shown.contains("hakobu jobs attach"), "{shown}");
    let id = fs::read_dir(state.join("jobs")).unwrap().next().unwrap().unwrap().file_name();
    let mut attach = Command::new(HAKOBU);
    let attach = attach.args(["jobs", "attach"]).arg(id).env("HAKOBU_STATE", &state).output().unwrap();
    assert!(attach.status.success(), "{attach:?}");
    assert!(!String::from_utf8_lossy(&attach.stdout).contains("s3cret"));
    assert_same(&source, &closed.join("second"));

    // There is no terminal to ask on.
    let mut alone = Command::new("setsid");
    alone.arg("--wait").arg(HAKOBU);
    let ran = Copy::by(alone).to(&host).args(arguments).run_to(1);
    ran.says(&["sudo on throwaway wants a password", "on a terminal"]);

    let (code, shown) = on_a_terminal(&host, &arguments, "");
    assert!(matches!(code, Some(130)), "{code:?} {shown}");
    host.wait_for_no_agent();
}

/// Returns the files that an agent left behind in the directories that it may be uploaded to.
fn left_behind(user: &User) -> Vec<PathBuf> {
    let places = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let uid = uid_of(user.name());
    let home = user.home().to_owned();
    let entries = places.iter().chain([&home]).filter_map(|place| fs::read_dir(place).ok());
    entries
        .flatten()
        .flatten()
        .filter(|entry| {
            let owned =
                entry.metadata().is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == uid);
            owned && entry.file_name().to_string_lossy().starts_with("hakobu.")
        })
        .map(|entry| entry.path())
        .collect()
}

/// Returns a static build of this program, which can upload itself. Cargo has already built most of it.
fn static_program() -> PathBuf {
    static LINKED: OnceLock<PathBuf> = OnceLock::new();
    let link = || {
        let profile_dir = Path::new(HAKOBU).parent().unwrap();
        let profile = match profile_dir.file_name().unwrap().to_str().unwrap() {
            "debug" => "dev",
            other => other,
        };
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "rustc",
            "--quiet",
            "--package",
            "hakobu",
            "--example",
            "static_hakobu",
            "--profile",
            profile,
        ]);
        cargo.arg("--target-dir").arg(profile_dir.parent().unwrap());
        cargo.args(["--", "-C", "target-feature=+crt-static"]).current_dir(env!("CARGO_MANIFEST_DIR"));
        assert!(cargo.status().unwrap().success());
        profile_dir.join("examples/static_hakobu")
    };
    LINKED.get_or_init(link).clone()
}

/// Directories besides their homes to which users can write.
const RUN_PLACES: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

#[test]
fn where_hakobu_is_not_installed_it_uploads_itself_and_leaves_nothing() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
    let (bin, place) = (place(), place());
    let program = bin.path().join("hakobu");
    install(static_program(), &program);
    let host = Host::with(&SshdOptions { login: Some(user.name().to_owned()), ..SshdOptions::default() });
    let source = tree(&place.path().join("source"));
    let before = left_behind(&user);
    let copy = || {
        Copy::by(Command::new(&program)).to(&host).arg("--why").arg(contents(&source)).arg(host.at("copy"))
    };
    let ran = copy().run_to(0);
    ran.says(&["why: agent on throwaway: uploaded, as none was found there"]);
    assert_eq!(fs::read(source.join("large")).unwrap(), fs::read(user.home().join("copy/large")).unwrap());
    host.wait_for_no_agent();
    assert_eq!(left_behind(&user), before);

    // An uploaded agent that is killed leaves nothing behind either.
    let running = copy().options("--retry-for 0s").start();
    wait_until("an agent runs", Duration::from_secs(60), || !host.agents().is_empty());
    for agent in host.agents() {
        let _ = kill_process(agent, Signal::KILL);
    }
    let _ = running.end();
    host.wait_for_no_agent();
    assert_eq!(left_behind(&user), before);
}

#[test]
fn homes_that_forbid_execution_and_hosts_without_room() {
    if no_root() {
        return;
    }
    let user = User::create(Shell::Sh, &Sudo::Refused).unwrap();
    let (bin, place) = (place(), place());
    let program = bin.path().join("hakobu");
    install(static_program(), &program);
    let source = file(&place.path().join("source"), 1000);
    let all = || RUN_PLACES.map(PathBuf::from).into_iter().chain([user.home().to_owned()]);
    let with = |noexec: Vec<PathBuf>, small: Vec<(PathBuf, u64)>| {
        Host::with(&SshdOptions {
            login: Some(user.name().to_owned()),
            noexec,
            small,
            ..SshdOptions::default()
        })
    };
    let copy = |host: &Host| {
        Copy::by(Command::new(&program))
            .to(host)
            .options("--transport agent")
            .arg(&source)
            .arg(host.at("copy"))
            .run()
    };

    // One usable directory is enough.
    let host = with(vec![PathBuf::from("/tmp"), user.home().to_owned()], Vec::new());
    let ran = copy(&host);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert_eq!(fs::read(&source).unwrap(), fs::read(user.home().join("copy")).unwrap());

    let host = with(all().collect(), Vec::new());
    let ran = copy(&host);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    ran.says(&["throwaway has no directory", "/tmp (forbids execution)", "install hakobu on throwaway, or"]);

    let without_one = all().filter(|path| !path.ends_with("var/tmp")).collect();
    let host = with(without_one, vec![("/var/tmp".into(), 100_000)]);
    let ran = copy(&host);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    ran.says(&["throwaway has no directory", "/var/tmp (no room)", "--agent PATH"]);
}

#[test]
fn where_nothing_can_be_uploaded_that_is_said() {
    let place = place();
    let host = Host::with(&SshdOptions::default());
    let source = file(&place.path().join("source"), 1000);
    // This build is not static, and there is no static one beside it.
    let bin = bin();
    let ran = Copy::by(Command::new(bin.path().join("hakobu")))
        .to(&host)
        .options("--transport agent")
        .arg(&source)
        .arg(host.at(place.path().join("target")))
        .run_to(1);
    ran.says(&["hakobu is not on the PATH of throwaway", "install hakobu on throwaway", "--agent PATH"]);
}
