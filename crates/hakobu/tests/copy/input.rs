//! Standard input as the source.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Output, Stdio};

use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::sshd::no_root;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::*;

/// Copies these bytes from standard input, which a thread writes.
fn copy_of(content: &[u8], host: &Host, arguments: &[&OsStr]) -> Output {
    let mut child = start(host, arguments);
    let mut input = child.stdin.take().unwrap();
    let sent = content.to_vec();
    // A run that is refused reads nothing.
    let writer = std::thread::spawn(move || input.write_all(&sent).is_ok());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn start(host: &Host, arguments: &[&OsStr]) -> std::process::Child {
    heed_signals();
    let mut command = Command::new(HAKOBU);
    command.arg("copy").args(arguments).env("HAKOBU_SSH", host.sshd.ssh_command());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn content(place: &std::path::Path, size_bytes: u64) -> Vec<u8> {
    let mut content = fs::read(file(&place.join(format!("content {size_bytes}")), size_bytes)).unwrap();
    // Zeros within a chunk, and over several chunks.
    if size_bytes > 20 << 20 {
        content[1 << 20..3 << 20].fill(0);
        content[9 << 20..19 << 20].fill(0);
    }
    content
}

#[test]
fn a_stream_of_any_length_becomes_a_file() {
    let (place, host) = (place(), Host::up());
    let target = place.path().join("file");
    let options = ["--lanes=1", "--lanes=4", "--cipher=none"];
    for size_bytes in [0, 1, 262_144, 4 << 20, (4 << 20) + 1, 16 << 20, 37_000_001] {
        let content = content(place.path(), size_bytes);
        for (index, typed) in [target.clone().into_os_string(), host.at(&target)].iter().enumerate() {
            for option in options {
                fs::write(&target, "what was there before, which is replaced").unwrap();
                let arguments = [OsStr::new(option), OsStr::new("--json"), OsStr::new("-"), typed];
                let output = copy_of(&content, &host, &arguments);
                let said = format!("{size_bytes} {index} {option}: {}", words(&output));
                assert_eq!(output.status.code(), Some(0), "{said}");
                let events = String::from_utf8_lossy(&output.stdout);
                assert_eq!(events.contains("is empty"), size_bytes == 0, "{said} {events}");
                assert!(fs::read(&target).unwrap() == content, "{said}");
                let last = String::from_utf8(output.stdout).unwrap().lines().last().unwrap().to_owned();
                let event: serde_json::Value = serde_json::from_str(&last).unwrap();
                let report = &event["report"];
                assert_eq!(report["digest_blake3"], b3sum(&content), "{said}");
                assert_eq!(report["source"]["typed"], "-");
                assert_eq!(report["entries"]["updated"], 1, "{said}");
                let zeros = if size_bytes > 20 << 20 { 12 << 20 } else { 0 };
                assert_eq!(report["bytes"]["zeros_skipped"], zeros, "{said}");
            }
        }
    }
    assert!(drafts(place.path()).is_empty());
    host.wait_for_no_agent();
}

fn b3sum(content: &[u8]) -> String {
    blake3::hash(content).to_hex().to_string()
}

#[test]
fn a_stream_becomes_a_disk_if_it_fits() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let device = LoopDevice::new(24 << 20).unwrap();
    fs::write(device.path(), vec![0xaa; 24 << 20]).unwrap();
    let content = content(place.path(), 21_000_001);
    for typed in [device.path().as_os_str().to_owned(), host.at(device.path())] {
        fs::write(device.path(), vec![0xaa; 24 << 20]).unwrap();
        let output = copy_of(&content, &host, &[OsStr::new("-"), &typed]);
        assert_eq!(output.status.code(), Some(0), "{}", words(&output));
        let there = fs::read(device.path()).unwrap();
        assert!(there[..content.len()] == content[..]);
        assert!(there[content.len()..].iter().all(|byte| *byte == 0xaa), "the rest stays as it was");
        fs::write(device.path(), vec![0xaa; 24 << 20]).unwrap();
        let output = copy_of(&vec![7; 25 << 20], &host, &[OsStr::new("-"), &typed]);
        assert_eq!(output.status.code(), Some(1), "{}", words(&output));
        assert!(words(&output).contains("the disk ends here"), "{}", words(&output));
    }
    host.wait_for_no_agent();
}

#[test]
fn what_comes_in_goes_out() {
    let (place, host) = (place(), Host::up());
    let content = content(place.path(), 30_000_000);
    let output = copy_of(&content, &host, &[OsStr::new("-"), OsStr::new("-")]);
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    assert!(output.stdout == content);
}

#[test]
fn what_cannot_be_done_with_it_is_told() {
    let (place, host) = (place(), Host::up());
    let directory = place.path().as_os_str();
    let new: OsString = place.path().join("new").into();
    let other: OsString = file(&place.path().join("other"), 5).into();
    let slash: OsString = format!("{}/", new.to_str().unwrap()).into();
    let dash = OsStr::new("-");
    for (arguments, said) in [
        (vec![dash, directory], "standard input has no name; give the path"),
        (vec![dash, &slash], "standard input has no name; give the path"),
        (vec![dash, &other, directory], "standard input must be the only source"),
        (vec![OsStr::new("--verify=medium"), dash, &new], "standard input cannot be read again"),
        (vec![OsStr::new("--detach"), dash, &new], "a background job has no standard input"),
    ] {
        let output = copy_of(b"content", &host, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", words(&output));
        assert!(words(&output).contains(said), "{arguments:?}: {}", words(&output));
    }
    for verb in ["sync", "verify"] {
        let output = Command::new(HAKOBU).args([verb, "-", "x"]).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(words(&output).contains("standard input works with copy only"), "{}", words(&output));
    }
    assert!(!place.path().join("new").exists());
}

/// A dry run describes the copy and consumes no input.
#[test]
fn a_dry_run_reads_nothing() {
    let (place, host) = (place(), Host::up());
    let target: OsString = place.path().join("new").into();
    let mut child = start(&host, &[OsStr::new("--dry-run"), OsStr::new("-"), &target]);
    let input = child.stdin.take().unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", words(&output));
    drop(input);
    assert!(!place.path().join("new").exists());
}

#[test]
fn an_interrupt_ends_it_although_nothing_comes() {
    let (place, host) = (place(), Host::up());
    let target = place.path().join("file");
    for typed in [target.clone().into_os_string(), host.at(&target)] {
        for first_bytes in [0, 9_000_000] {
            let mut child = start(&host, &[OsStr::new("-"), &typed]);
            let mut input = child.stdin.take().unwrap();
            input.write_all(&vec![1; first_bytes]).unwrap();
            if first_bytes > 0 {
                wait_until("it has begun", std::time::Duration::from_secs(60), || {
                    !drafts(place.path()).is_empty()
                });
            }
            let mut said = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            said.read_line(&mut line).unwrap();
            assert!(line.starts_with("copying standard input to "), "{line}");
            kill_process(Pid::from_child(&child), Signal::INT).unwrap();
            said.read_to_string(&mut line).unwrap();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{line}");
            assert!(line.contains("interrupted"), "{line}");
            drop(input);
        }
    }
    assert!(!target.exists() && drafts(place.path()).is_empty(), "{:?}", drafts(place.path()));
    host.wait_for_no_agent();
}
