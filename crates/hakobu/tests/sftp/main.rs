//! The real program with a real OpenSSH server on which no agent runs.
//!
//! Root is needed for servers and users. Without it these tests fail, unless HAKOBU_NO_ROOT=1 leaves them out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod accounts;
mod cuts;
#[path = "../program/mod.rs"]
mod program;
mod refusals;
mod ways;

use std::path::Path;
use std::process::Command;

use hakobu_testkit::sshd::{SshdOptions, sftp_server};

use crate::program::*;

/// Starts a server without hakobu on its PATH. Only `--transport sftp` keeps hakobu from being uploaded.
fn server(lines: &[&str]) -> Host {
    let config_lines = lines.iter().map(|line| (*line).to_owned()).collect();
    Host::with(&SshdOptions { config_lines, ..SshdOptions::default() })
}

/// Starts a server that knows version 3 of SFTP without extensions, as the oldest servers do.
fn old_server() -> Host {
    let refused =
        "posix-rename,statvfs,fstatvfs,hardlink,fsync,lsetstat,limits,expand-path,copy-data,home-directory";
    let subsystem = format!("Subsystem sftp {} -P {refused},users-groups-by-id", sftp_server().display());
    server(&[&subsystem])
}

fn copy(host: &Host) -> Copy {
    Copy::new().to(host).options("--transport sftp")
}

/// Fails unless rsync finds no difference between two trees: names, kinds, content, modes, owners, hard links, and
/// times to the second.
#[track_caller]
fn assert_rsync_agrees(source: &Path, target: &Path, more: &[&str]) {
    let mut rsync = Command::new("rsync");
    rsync.args(["-aHnc", "--delete", "--modify-window=1", "--itemize-changes"]).args(more);
    let ran = rsync.arg(source.join("")).arg(target.join("")).output().unwrap();
    let said = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success() && said.is_empty(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
}
