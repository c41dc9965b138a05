//! The line on a terminal during a slow login.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use hakobu_testkit::sshd::no_root;

use crate::program::*;

/// Removes the rest of a line.
const CLEAR: &str = "\u{1b}[K";
const LINE: &str = "connecting to throwaway \u{2026}\r";

/// Creates an ssh that runs a script first.
fn ssh_after(host: &Host, place: &Path, first: &str) -> PathBuf {
    let path = place.join("ssh");
    let ssh = host.sshd.ssh_command();
    fs::write(&path, format!("#!/bin/sh\n{first}\nexec {ssh} \"$@\"\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Returns the program on a terminal.
fn on_terminal(ssh: &Path, arguments: &str) -> Command {
    let line = format!("exec {HAKOBU} {arguments}");
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--echo", "always", "--command", &line, "/dev/null"]);
    script.env("HAKOBU_SSH", ssh).env("HAKOBU_SETTINGS", "none").env("TERM", "xterm");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    script
}

#[track_caller]
fn shown(ssh: &Path, arguments: &str) -> String {
    let output = on_terminal(ssh, arguments).stdin(Stdio::null()).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments}: {shown}");
    shown
}

#[test]
fn a_login_that_takes_long_is_told_and_the_line_goes_again() {
    if no_root() {
        return;
    }
    let (host, place) = (Host::up(), place());
    let ssh = ssh_after(&host, place.path(), "sleep 1");
    let source = file(&place.path().join("source"), 1000);
    let (source, target) = (source.display(), place.path().join("target"));
    let far = format!("throwaway:{}", target.display());
    for (arguments, next) in [
        (format!("copy {source} {far}"), "copying "),
        (format!("copy --transport sftp {source} {far}"), "copying "),
        (format!("digest throwaway:{source}"), ""),
        ("disks throwaway".to_owned(), "ID "),
    ] {
        let shown = shown(&ssh, &arguments);
        let (before, after) = shown.split_once(LINE).unwrap_or_else(|| panic!("{arguments}: {shown}"));
        assert!(before.is_empty() && after.starts_with(CLEAR), "{arguments}: {shown:?}");
        assert!(after.contains(next), "{arguments}: {shown:?}");
    }
    for arguments in [
        format!("copy --quiet {source} {far}"),
        format!("copy --json {source} {far}"),
        "disks --json throwaway".to_owned(),
    ] {
        let shown = shown(&ssh, &arguments);
        assert!(!shown.contains("connecting"), "{arguments}: {shown}");
    }
    let mut piped = Command::new(HAKOBU);
    let output = piped.args(["disks", "throwaway"]).env("HAKOBU_SSH", &ssh).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_question_of_ssh_is_not_written_over() {
    if no_root() {
        return;
    }
    let (host, place) = (Host::up(), place());
    let ask = "[ -e asked ] || { touch asked; sleep 1; stty -echo </dev/tty; printf 'password: ' >/dev/tty; read -r it \
               </dev/tty; stty echo </dev/tty; [ \"$it\" = secret ] || exit 255; }";
    let ssh = ssh_after(&host, place.path(), ask);
    let mut script = on_terminal(&ssh, "disks throwaway");
    let mut child = script.current_dir(place.path()).spawn().unwrap();
    let mut shown = Vec::new();
    let is_asked = |shown: &[u8]| {
        let text = String::from_utf8_lossy(shown).into_owned();
        text.split_once(LINE).is_some_and(|(_, after)| after.contains(CLEAR) && after.contains("password: "))
    };
    while !is_asked(&shown) {
        let mut byte = [0];
        child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
        shown.push(byte[0]);
    }
    child.stdin.as_mut().unwrap().write_all(b"secret\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let rest = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{rest}");
    // Later output does not clear lines.
    assert!(!rest.contains(CLEAR) && rest.contains("ID "), "{rest:?}");
}
