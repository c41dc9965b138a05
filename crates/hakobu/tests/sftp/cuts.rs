//! Runs that are stopped, killed or cut off in the middle.

use std::fs;
use std::time::Duration;

use hakobu_measure::generate::{self, SizeDistribution, TreeSpec};
use hakobu_testkit::sshd::SshdOptions;
use rustix::process::{Pid, Signal, kill_process};

use crate::program::*;
use crate::{assert_rsync_agrees, copy, server};

/// Creates a tree that takes a while at the rate at which the program is allowed to run.
fn source(at: &std::path::Path) -> std::path::PathBuf {
    let source = tree(at);
    file(&source.join("larger"), 60_000_000);
    source
}

#[test]
fn stopped_by_the_user_it_leaves_nothing_half() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (source(&place.path().join("source")), place.path().join("target"));
    let start = || {
        Copy::by(stopped()).to(&host).options("--transport sftp").arg(contents(&source)).arg(host.at(&target))
    };
    let mut running = start().start();
    running.crawl_until_under_way();
    running.signal(Signal::INT);
    running.signal(Signal::CONT);
    let ran = running.end();
    assert_eq!(ran.code, Some(130), "{}", ran.err);
    assert!(
        !target.join("larger").exists() || fs::metadata(target.join("larger")).unwrap().len() == 60_000_000
    );
    wait_until("drafts are gone", Duration::from_secs(60), || drafts(&target).is_empty());
    wait_until("sessions end", Duration::from_secs(60), || host.sshd.processes().is_empty());
    copy(&host).arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_rsync_agrees(&source, &target, &[]);
}

#[test]
fn killed_it_leaves_nothing_half_and_goes_on() {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (source(&place.path().join("source")), place.path().join("target"));
    let start = || {
        Copy::by(stopped()).to(&host).options("--transport sftp").arg(contents(&source)).arg(host.at(&target))
    };
    let mut running = start().start();
    running.crawl_until_under_way();
    running.signal(Signal::KILL);
    let _ = running.end();
    wait_until("sessions end", Duration::from_secs(60), || host.sshd.processes().is_empty());
    // Files with their final names are complete, and all others are drafts.
    for entry in fs::read_dir(&target).unwrap().flatten().filter(|entry| entry.file_type().unwrap().is_file())
    {
        if !entry.file_name().as_encoded_bytes().starts_with(b".hakobu.") {
            assert_eq!(
                entry.metadata().unwrap().len(),
                fs::metadata(source.join(entry.file_name())).unwrap().len()
            );
        }
    }
    copy(&host).arg(contents(&source)).arg(host.at(&target)).run_to(0);
    assert_rsync_agrees(&source, &target, &[]);
    assert!(drafts(&target).is_empty());
}

/// Disconnects the server from a stopped run, which then continues to its end.
#[track_caller]
fn goes_on_when_cut(running: Running, host: &Host) {
    for id in host.sshd.processes() {
        if let Some(pid) = Pid::from_raw(id as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    running.signal(Signal::CONT);
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}\n{:#}", ran.err, ran.report);
    assert!(ran.err.contains("trying again"), "{}", ran.err);
}

#[test]
fn a_connection_that_is_cut_is_made_again() {
    let place = place();
    let host = Host::with(&SshdOptions::default());
    let (source, target) = (source(&place.path().join("source")), place.path().join("target"));
    let start = Copy::by(stopped()).to(&host).options("--transport sftp");
    let mut running = start.arg(contents(&source)).arg(host.at(&target)).start();
    running.crawl_until_under_way();
    goes_on_when_cut(running, &host);
    assert_rsync_agrees(&source, &target, &[]);
    assert!(drafts(&target).is_empty());
}

/// Disconnects the server while only small files are being copied.
fn cut_among_small_files(pulls: bool) {
    let (place, host) = (place(), server(&[]));
    let (source, target) = (place.path().join("source"), place.path().join("target"));
    let size = SizeDistribution::LogNormal { median_bytes: 1500, sigma: 0.5 };
    generate::tree(&source, &TreeSpec { files: 6000, directories: 200, size, ..TreeSpec::default() })
        .unwrap();
    let typed = match pulls {
        true => [contents(host.at(&source)), target.clone().into()],
        false => [contents(&source), host.at(&target)],
    };
    let start = Copy::by(stopped()).to(&host).options("--transport sftp --lanes 3");
    let mut running = start.args(&typed).start();
    running.crawl_until_under_way();
    goes_on_when_cut(running, &host);
    assert_rsync_agrees(&source, &target, &[]);
    assert!(drafts(&target).is_empty());
}

#[test]
fn a_push_of_small_files_that_is_cut_goes_on() {
    cut_among_small_files(false);
}

#[test]
fn a_pull_of_small_files_that_is_cut_goes_on() {
    cut_among_small_files(true);
}
