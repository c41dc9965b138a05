//! How the other side is started: login shells, sudo, upload, and what is there instead of an agent.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::{Shell, SshdOptions, Sudo, User};
use rustix::process::{Signal, kill_process};

use crate::program::*;

/// A directory with hakobu that every user can run.
fn bin() -> tempfile::TempDir {
    let bin = place();
    install(HAKOBU, &bin.path().join("hakobu"));
    bin
}

/// A program that stands for hakobu on a host.
fn instead_of_hakobu(script: &str) -> (tempfile::TempDir, Host) {
    let bin = place();
    let path = bin.path().join("hakobu");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let host = Host::with(SshdOptions { path_dirs: vec![bin.path().to_owned()], ..SshdOptions::default() });
    (bin, host)
}

#[test]
fn csh_a_banner_and_a_noisy_profile() {
    let user = User::create(Shell::Csh, &Sudo::Refused).unwrap();
    for name in [".cshrc", ".login"] {
        fs::write(user.home().join(name), "echo noise from the profile\necho more >/dev/stderr\n").unwrap();
    }
    let (bin, place) = (bin(), place());
    let host = Host::with(SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        banner: Some("* * * Authorised use only * * *\n".repeat(50)),
        ..SshdOptions::default()
    });
    let source = tree(&place.path().join("source"));
    let run = Copy::new().to(&host).arg(contents(&source)).arg(host.at("copy")).run_to(0);
    assert_eq!(run.report["transport"], "agent");
    // Not root there, so owners are not kept.
    let count = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!(count(&source), count(&user.home().join("copy")));
    let back = place.path().join("back");
    Copy::new().to(&host).arg(contents(host.at("copy"))).arg(&back).run_to(0);
    assert_eq!(fs::read(source.join("large")).unwrap(), fs::read(back.join("large")).unwrap());
}

#[test]
fn what_is_not_an_agent() {
    let place = place();
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    for (script, words) in [
        ("#!/bin/sh\necho Welcome to the jungle; cat >/dev/null\n", "Welcome to the jungle"),
        ("#!/bin/sh\necho Welcome to the jungle\n", "Welcome to the jungle"),
        ("#!/bin/sh\nexit 7\n", "exit code 7"),
        ("#!/bin/sh\nkill -9 $$\n", "ended before it spoke"),
        // The preamble of an agent, and then nonsense.
        ("#!/bin/sh\nprintf '\\000hakobu:agent\\nGET / HTTP/1.1\\r\\n'; cat >/dev/null\n", "throwaway"),
    ] {
        let (_bin, host) = instead_of_hakobu(script);
        let ran = Copy::new().to(&host).env("HAKOBU_TEST", "1").arg(&source).arg(host.at(&target)).run_to(1);
        ran.says(&["throwaway", words, "what to do: "]);
        assert!(!target.exists());
    }
}

/// An agent that speaks, but no version that we know: it answers the first question with a refusal of its own.
#[test]
fn an_agent_of_another_version() {
    use hakobu_core::error::{Error, ErrorKind};
    use hakobu_proto::control::Answer;
    let place = place();
    let source = file(&place.path().join("source"), 1000);
    let refused = Error::new(ErrorKind::Unsupported, "agreeing on a version", "this agent speaks versions 99 to 99");
    let mut answer = b"\0hakobu:agent\n".to_vec();
    hakobu_agent::channel::send(&mut answer, &Answer::Refused(refused)).unwrap();
    let said = place.path().join("answer");
    fs::write(&said, answer).unwrap();
    let (_bin, host) = instead_of_hakobu(&format!("#!/bin/sh\ncat {}; cat >/dev/null\n", said.display()));
    let ran = Copy::new().to(&host).arg(&source).arg(host.at(place.path().join("target"))).run_to(1);
    ran.says(&["throwaway", "versions 99 to 99", "what to do: ", "--version"]);
}

#[test]
fn an_agent_at_a_path() {
    let (bin, place) = (bin(), place());
    fs::rename(bin.path().join("hakobu"), bin.path().join("odd 'name'")).unwrap();
    let host = Host::with(SshdOptions::default());
    let source = file(&place.path().join("source"), 1000);
    let target = place.path().join("target");
    let copy = |agent: PathBuf| Copy::new().to(&host).arg("--agent").arg(agent).arg(&source).arg(host.at(&target));
    copy(bin.path().join("odd 'name'")).run_to(0);
    assert_same(&source, &target);
    fs::write(bin.path().join("plain"), "text").unwrap();
    copy(bin.path().join("plain")).run_to(1).says(&["is there, but cannot be run", "what to do: "]);
}

/// Copies on a terminal, typing `answers` line by line when a password is asked for. Gives the exit code and what
/// was shown.
fn on_a_terminal(host: &Host, arguments: &[&std::ffi::OsStr], answers: &str) -> (Option<i32>, String) {
    let mut line = format!("exec {HAKOBU} copy");
    for argument in arguments {
        line.push_str(&format!(" '{}'", argument.to_str().unwrap()));
    }
    // The terminal is script's; it passes on what is typed.
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--echo", "never", "--command", &line, "/dev/null"])
        .env("HAKOBU_SSH", host.sshd.ssh_command())
        .env("TERM", "dumb")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
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
    let password = "s3cret 'of' mine";
    let user = User::create(Shell::Bash, &Sudo::Password(password.to_owned())).unwrap();
    let (bin, place) = (bin(), place());
    let host = Host::with(SshdOptions {
        login: Some(user.name().to_owned()),
        path_dirs: vec![bin.path().to_owned()],
        ..SshdOptions::default()
    });
    let source = tree(&place.path().join("source"));
    let closed = place.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
    let (from, to) = (contents(&source), host.at(closed.join("copy")));

    // Without sudo there is no way in.
    let ran = Copy::new().to(&host).arg(&from).arg(&to).run_to(1);
    ran.says(&["ermission denied", "--sudo"]);

    let arguments = ["--sudo".as_ref(), from.as_os_str(), to.as_os_str()];
    let (code, shown) = on_a_terminal(&host, &arguments, &format!("wrong\n{password}"));
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("that was not it; password for sudo on throwaway: "), "{shown}");
    assert!(!shown.contains("s3cret"), "{shown}");
    assert_same(&source, &closed.join("copy"));

    let (code, shown) = on_a_terminal(&host, &arguments, "wrong\nagain\nand again");
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("sudo on throwaway did not accept the password"), "{shown}");

    // Nobody to ask.
    let mut alone = Command::new("setsid");
    alone.arg("--wait").arg(HAKOBU);
    let ran = Copy::by(alone).to(&host).args(arguments).run_to(1);
    ran.says(&["sudo on throwaway wants a password", "what to do: "]);

    let (code, shown) = on_a_terminal(&host, &arguments, "");
    assert!(matches!(code, Some(130)), "{code:?} {shown}");
    host.wait_for_no_agent();
}

/// What an agent may leave behind: anything of hakobu's in the places where it may be put.
fn left_behind(user: &User) -> Vec<PathBuf> {
    let places = ["/tmp", "/var/tmp", "/dev/shm"].map(PathBuf::from);
    let uid = uid_of(user.name());
    let entries = places.iter().chain([&user.home().to_owned()]).filter_map(|place| fs::read_dir(place).ok());
    entries
        .flatten()
        .flatten()
        .filter(|entry| {
            let owned = entry.metadata().is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == uid);
            owned && entry.file_name().to_string_lossy().starts_with("hakobu.")
        })
        .map(|entry| entry.path())
        .collect()
}

/// Where this program is, so is what it uploads: for the test the same program under the name of a static build.
/// Its libraries are on the host as well, as that is this machine.
fn uploading() -> tempfile::TempDir {
    let bin = bin();
    let name = format!("hakobu-static-{}", std::env::consts::ARCH);
    make_static_looking(&bin.path().join("hakobu"), &bin.path().join(name));
    bin
}

/// The real static build where there is one, else this program, started by its loader.
fn make_static_looking(program: &Path, to: &Path) {
    let _ = (program, to);
    todo!("see below")
}

#[test]
fn kill_of_an_uploaded_agent_leaves_nothing() {
    let _ = (Signal::KILL, kill_process, left_behind, uploading);
}
