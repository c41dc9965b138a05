//! `hakobu disks`, here and over ssh.

use std::process::{Command, Output};

use hakobu_testkit::devices::{LoopDevice, mount, run};
use hakobu_testkit::sshd::no_root;
use serde_json::Value;

use crate::program::*;

fn disks(arguments: &[&str], host: Option<&Host>) -> Output {
    let mut command = Command::new(HAKOBU);
    command
        .arg("disks")
        .args(arguments)
        .env_remove("HAKOBU_SSH")
        .env("HAKOBU_SETTINGS", "none")
        .env("LC_ALL", "C");
    if let Some(host) = host {
        command.env("HAKOBU_SSH", host.sshd.ssh_command());
    }
    command.output().unwrap()
}

/// Returns the list as JSON, and the disk with this name.
#[track_caller]
fn listed(output: &Output, name: &str) -> (Value, Value) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{err}");
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["schema"], "hakobu.disks/1");
    let disks = list["disks"].as_array().unwrap();
    let found: Vec<_> = disks.iter().filter(|disk| disk["name"] == name).collect();
    assert_eq!(found.len(), 1, "{list:#}");
    (list["host"].clone(), found[0].clone())
}

#[test]
fn a_device_is_listed_the_same_here_and_over_ssh() {
    if no_root() {
        return;
    }
    let (device, place) = (LoopDevice::new(32 << 20).unwrap(), place());
    run("mkfs.ext4", &["-q", "-L", "cargo"], device.path()).unwrap();
    let _mounted = mount(device.path(), place.path(), &[]).unwrap();
    let (nobody, here) = listed(&disks(&["--json"], None), &device.name());
    assert_eq!(nobody, Value::Null);
    assert_eq!((&here["size_bytes"], &here["logical_sector_bytes"]), (&(32 << 20).into(), &512.into()));
    assert_eq!(here["contents"][0]["kind"], "ext4");
    assert_eq!(here["contents"][0]["label"], "cargo");
    assert_eq!(here["uses"][0]["use"], "mounted");
    assert_eq!(here["uses"][0]["path"], place.path().to_str().unwrap());

    let host = Host::up();
    let (name, there) = listed(&disks(&["--json", "throwaway"], Some(&host)), &device.name());
    assert_eq!(name, "throwaway");
    assert_eq!(there, here);
    host.wait_for_no_agent();

    let table = disks(&["throwaway"], Some(&host));
    let text = String::from_utf8(table.stdout).unwrap();
    let line = text.lines().find(|line| line.contains(&format!("{} ", device.path().display()))).unwrap();
    for words in [here["id"].as_str().unwrap(), "33.6 MB", "ext4 \"cargo\"", "mounted at"] {
        assert!(line.contains(words), "{words} is not in: {line}");
    }
    assert!(text.starts_with("ID ") && table.stderr.is_empty(), "{text}");
}

#[test]
fn a_host_that_cannot_be_reached_is_an_error() {
    let output = disks(&["-e", "false", "nowhere"], None);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]));
    assert!(String::from_utf8_lossy(&output.stderr).contains("starting the agent on nowhere"));
}
