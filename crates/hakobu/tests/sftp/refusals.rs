//! Requests that SFTP cannot fulfil are refused before anything is copied.

use std::fs;

use hakobu_testkit::sshd::SshdOptions;

use crate::program::*;
use crate::{copy, server};

#[test]
fn options_that_need_an_agent_are_refused() {
    let (place, host) = (place(), server(&[]));
    let source = file(&place.path().join("a"), 1000);
    for options in ["--verify medium", "--by-name", "--sudo", "--compress zstd"] {
        let target = place.path().join("never");
        let ran = copy(&host).options(options).arg(&source).arg(host.at(&target)).run_to(2);
        assert!(ran.err.contains(options.split(' ').next().unwrap()), "{}", ran.err);
        assert!(!target.exists());
    }
    let tree = place.path().join("tree");
    fs::create_dir(&tree).unwrap();
    let pull =
        copy(&host).options("--one-file-system").arg(host.at(&tree)).arg(place.path().join("x")).run_to(2);
    assert!(pull.err.contains("file systems apart"), "{}", pull.err);
    let unseen =
        copy(&host).options("--require xattr").arg(host.at(&source)).arg(place.path().join("y")).run_to(6);
    assert!(unseen.err.contains("--require xattr"), "{}", unseen.err);
    let in_place = Copy::sync().to(&host).options("--transport sftp --in-place");
    in_place.arg(&source).arg(host.at(place.path().join("z"))).run_to(2);
}

#[test]
fn without_another_machine_there_is_no_way_to_choose() {
    let place = place();
    let source = file(&place.path().join("a"), 1000);
    for transport in ["sftp", "ssh"] {
        let target = place.path().join("never");
        let copy = Copy::new().options(&format!("--transport {transport}")).arg(&source).arg(&target);
        let ran = copy.run_to(2);
        assert!(
            ran.err.contains(&format!("--transport {transport} is for transfers between machines")),
            "{}",
            ran.err
        );
        assert!(!target.exists());
    }
}

#[test]
fn disks_are_refused() {
    let (place, host) = (place(), server(&[]));
    let ran = copy(&host).arg(host.at("/dev/loop0")).arg(place.path().join("image")).run_to(1);
    assert!(ran.err.contains("takes an agent"), "{}", ran.err);
    assert!(!place.path().join("image").exists());
}

#[test]
fn what_is_not_there_is_said() {
    let (place, host) = (place(), server(&[]));
    let missing = copy(&host).arg(host.at("/no/such/thing")).arg(place.path().join("x")).run_to(1);
    assert!(
        missing.err.contains("/no/such/thing") && missing.err.contains("no such file"),
        "{}",
        missing.err
    );
    let source = file(&place.path().join("a"), 10);
    let parent = copy(&host).arg(&source).arg(host.at("/no/such/directory/x")).run_to(1);
    assert!(parent.err.contains("create it first"), "{}", parent.err);
    let taken = place.path().join("taken");
    fs::create_dir(&taken).unwrap();
    fs::create_dir(taken.join("a")).unwrap();
    let ran = copy(&host).arg(&source).arg(host.at(&taken)).run();
    assert!(ran.code != Some(0) && ran.err.contains("directory"), "{:?} {}", ran.code, ran.err);
    assert!(taken.join("a").is_dir());
}

#[test]
fn a_server_without_sftp_says_so() {
    let place = place();
    let lines = vec!["Subsystem sftp /bin/false".to_owned()];
    let host = Host::with(&SshdOptions { config_lines: lines, ..SshdOptions::default() });
    let source = file(&place.path().join("a"), 10);
    let ran =
        copy(&host).options("--retry-for 0").arg(&source).arg(host.at(place.path().join("b"))).run_to(1);
    assert!(ran.err.contains("opening sftp on throwaway"), "{}", ran.err);
    let lines = vec!["Subsystem sftp /bin/echo hello".to_owned()];
    let host = Host::with(&SshdOptions { config_lines: lines, ..SshdOptions::default() });
    let ran =
        copy(&host).options("--retry-for 0").arg(&source).arg(host.at(place.path().join("b"))).run_to(1);
    assert!(ran.err.contains("opening sftp on throwaway"), "{}", ran.err);
}
