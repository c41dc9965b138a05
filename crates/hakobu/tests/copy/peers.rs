//! Hostile remote hosts that try to harm the terminal or keep the user waiting. Scripts take the place of ssh.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::*;

/// Creates a script that takes the place of ssh.
fn script(place: &Path, name: &str, lines: &str) -> PathBuf {
    let path = place.join(name);
    // The query for ssh's configuration gets no answer.
    let text = format!("#!/bin/sh\ncase \" $* \" in *' -G '*) exit 1;; esac\ntrap '' PIPE\n{lines}\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn copy(place: &Path, ssh: &Path) -> Command {
    let mut command = Command::new(HAKOBU);
    command.args(["copy", "-q", "--retry-for", "0s", "--ssh"]).arg(ssh).arg(place.join("file"));
    command.arg("peer:/nowhere/at/all").env("HAKOBU_SETTINGS", "none").env_remove("HAKOBU_SSH");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Sends a signal to a copy after a second; returns its output and how long it took to end.
fn interrupted(mut command: Command, signal: Signal) -> (Output, Duration) {
    let child = command.spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&child), signal).unwrap();
    let began = Instant::now();
    (child.wait_with_output().unwrap(), began.elapsed())
}

#[test]
fn what_the_far_side_says_is_printable_and_has_an_end() {
    let place = place();
    fs::write(place.path().join("file"), "x").unwrap();
    let lines = "printf '\\033]0;PWNED\\007\\033[2Jhakobu: done\\342\\200\\256\\n\\377\\n' >&2
        i=0; while [ $i -lt 2000 ]; do echo line >&2; i=$((i + 1)); done
        head -c 100000 /dev/zero | tr '\\0' y >&2; echo >&2";
    let output = copy(place.path(), &script(place.path(), "ssh", lines)).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!said.chars().any(|c| (c.is_control() && c != '\n') || c == '\u{202e}'), "{said:?}");
    let first = "\\u{1b}]0;PWNED\\u{7}\\u{1b}[2Jhakobu: done\\u{202e}\n\\xff\nline\n";
    assert!(said.starts_with(first), "{said}");
    assert!(said.contains("suppressed") && said.len() < 50_000, "{} bytes", said.len());
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn the_first_signal_ends_every_wait_for_a_far_side() {
    let place = place();
    fs::write(place.path().join("file"), "x").unwrap();
    let byte_by_byte = "while :; do printf x; sleep 1; done";
    // The length of a message, followed by single bytes at long intervals.
    let agent = format!("printf '\\000hakobu:agent\\n\\240\\206\\001\\000'; {byte_by_byte}");
    let deaf = "trap '' INT TERM HUP; while :; do sleep 1; done";
    let ways = [
        ("babbles", byte_by_byte, Signal::INT),
        ("agent", &agent, Signal::TERM),
        ("silent", "exec sleep 600", Signal::HUP),
        ("deaf", deaf, Signal::INT),
    ];
    std::thread::scope(|scope| {
        for (name, lines, signal) in ways {
            let place = place.path();
            scope.spawn(move || {
                let ssh = script(place, name, lines);
                let mut command = copy(place, &ssh);
                // The signal goes to the program alone, not to ssh.
                command.process_group(0);
                let (output, took) = interrupted(command, signal);
                let said = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(130), "{name}: {said}");
                assert!(took < Duration::from_secs(8), "{name}: {took:?}");
                assert!(!is_running(&ssh), "{name} is left behind");
            });
        }
    });
}

/// Returns true if a process runs this script.
fn is_running(script: &Path) -> bool {
    let name = script.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.any(|line| {
        !line.starts_with(HAKOBU.as_bytes()) && line.split(|&byte| byte == 0).any(|word| word == name)
    })
}
