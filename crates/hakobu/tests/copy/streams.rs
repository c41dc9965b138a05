//! Standard output as the target.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hakobu_testkit::devices::LoopDevice;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::*;

fn copy<S: AsRef<OsStr>>(host: &Host, arguments: &[S]) -> Command {
    heed_signals();
    let mut command = Command::new(HAKOBU);
    command.arg("copy").args(arguments).env("HAKOBU_SSH", host.sshd.ssh_command());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn ran<S: AsRef<OsStr>>(host: &Host, arguments: &[S]) -> Output {
    copy(host, arguments).output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn files_and_disks_come_out_byte_for_byte() {
    let (place, host) = (place(), Host::up());
    let device = LoopDevice::new(20 << 20).unwrap();
    let content = fs::read(file(&place.path().join("content"), 9_000_001)).unwrap();
    // Zeros at the beginning, in the middle and at the end.
    let writer = fs::File::options().write(true).open(device.path()).unwrap();
    for offset in [1 << 20, 12 << 20] {
        std::os::unix::fs::FileExt::write_all_at(&writer, &content[..3_000_000], offset).unwrap();
    }
    drop(writer);
    for path in [place.path().join("content"), device.path().to_owned(), file(&place.path().join("one"), 1)] {
        let expected = fs::read(&path).unwrap();
        for (typed, options) in [
            (path.clone().into_os_string(), "--lanes=4"),
            (host.at(&path), "--quiet"),
            (host.at(&path), "--cipher=none"),
        ] {
            let output = ran(&host, &[OsStr::new(options), &typed, OsStr::new("-")]);
            assert_eq!(output.status.code(), Some(0), "{typed:?} {options}: {}", words(&output));
            assert!(output.stdout == expected, "{typed:?} {options}");
            let said = format!("copying {} to standard output\n", typed.to_str().unwrap());
            assert_eq!(words(&output).starts_with(&said), options != "--quiet", "{}", words(&output));
        }
    }
    let empty = place.path().join("empty");
    fs::write(&empty, "").unwrap();
    let output = ran(&host, &[host.at(&empty), "-".into()]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(0), 0));
}

#[test]
fn events_go_to_standard_error() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 3_000_000);
    let output = ran(&host, &[OsStr::new("--json"), path.as_os_str(), OsStr::new("-")]);
    assert!(output.stdout == fs::read(&path).unwrap());
    let said = words(&output);
    let events: Vec<serde_json::Value> =
        said.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(events.first().unwrap()["event"], "started");
    assert_eq!(events.last().unwrap()["report"]["target"]["typed"], "-");
}

#[test]
fn what_cannot_go_there_is_told_and_nothing_comes_out() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 10);
    let typed = path.to_str().unwrap();
    let tree = place.path().to_str().unwrap();
    for (arguments, code, said) in [
        (vec![tree, "-"], 2, "standard output takes the content of one file or one device"),
        (vec![typed, typed, "-"], 2, "standard output takes"),
        (vec!["--verify=medium", typed, "-"], 2, "cannot be read back"),
        (vec!["--report=-", typed, "-"], 2, "choose a file"),
        (vec!["/nonexistent/x", "-"], 1, "no such file"),
    ] {
        let output = ran(&host, &arguments);
        let err = words(&output);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{arguments:?}: {err}");
        assert!(err.contains(said), "{arguments:?}: {err}");
    }
    for verb in ["sync", "verify"] {
        let output = Command::new(HAKOBU).args([verb, typed, "-"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(words(&output).contains("standard output works with copy only"));
    }
}

/// Starts a copy and reads a little of its output, so that it is under way.
fn begin(mut command: Command) -> Child {
    let mut child = command.spawn().unwrap();
    let mut some = [0; 1000];
    child.stdout.as_mut().unwrap().read_exact(&mut some).unwrap();
    child
}

#[test]
fn a_reader_that_goes_away_ends_it() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 30_000_000);
    for typed in [path.clone().into_os_string(), host.at(&path)] {
        let mut child = begin(copy(&host, &[&typed, OsStr::new("-")]));
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        let said = "writing at standard output: broken pipe: its reader has exited";
        assert!(words(&output).contains(said), "{}", words(&output));
    }
    host.wait_for_no_agent();
}

#[test]
fn an_interrupt_ends_it_although_nobody_reads() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 30_000_000);
    for typed in [path.clone().into_os_string(), host.at(&path)] {
        let mut child = begin(copy(&host, &[&typed, OsStr::new("-")]));
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        // The pipe is full, and the reader reads no more.
        wait_until("it ends", Duration::from_secs(60), || {
            let state = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
            state.rsplit(") ").next().unwrap_or_default().starts_with('Z')
        });
        assert_eq!(child.wait().unwrap().code(), Some(130));
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert!(err.contains("interrupted") && !err.contains("to go on"), "{err}");
    }
}

#[test]
fn a_file_that_standard_output_is_appended_to_keeps_what_it_had() {
    let (place, host) = (place(), Host::up());
    let path = file(&place.path().join("file"), 500_000);
    let out = place.path().join("out");
    let mut target = fs::File::options().create(true).append(true).open(&out).unwrap();
    target.write_all(b"before").unwrap();
    let status = copy(&host, &[host.at(&path), "-".into()]).stdout(target).status().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(fs::read(&out).unwrap() == [b"before", &fs::read(&path).unwrap()[..]].concat());
}
