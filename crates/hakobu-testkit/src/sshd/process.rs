//! Finds processes by descent, runs them to their end, and kills them.

use std::fs;
use std::io;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The time limit for killed sessions to disappear.
const END_LIMIT: Duration = Duration::from_secs(30);
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Kills the server and every session, and waits until they are gone. Sessions lead their own process groups, so they
/// are found by descent.
pub(super) fn kill_all(child: &mut Child) {
    let sessions = descendants(child.id());
    if let Some(group) = pid(child.id()) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    for session in sessions.iter().copied().filter_map(pid) {
        let _ = kill_process(session, Signal::KILL);
    }
    let _ = child.kill();
    let _ = child.wait();
    let deadline = Instant::now() + END_LIMIT;
    while sessions.iter().any(|&session| alive(session)) && Instant::now() < deadline {
        thread::sleep(LOOK_EVERY);
    }
}

/// Returns true if the process exists and is not a zombie.
pub(super) fn alive(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}

/// Returns all descendants of a process, from `/proc`; parents come before their children.
#[must_use]
pub fn descendants(root: u32) -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // "12 (a name) S 1 …": the parent follows the state, and the name may contain any characters.
        let after_name = stat.rsplit(") ").next().unwrap_or_default();
        if let Some(Ok(parent)) = after_name.split(' ').nth(1).map(str::parse) {
            parents.push((number, parent));
        }
    }
    let mut found = vec![root];
    let mut at = 0;
    while let Some(&parent) = found.get(at) {
        let children = parents.iter().filter(|(_, of)| *of == parent);
        found.extend(children.map(|(number, _)| *number));
        at += 1;
    }
    found.split_off(1)
}

/// Runs a command to its end; the error contains its message.
pub(super) fn run(command: &mut Command) -> io::Result<()> {
    let name = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| explained(&name, &error))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{}: {}: {}", name.display(), output.status, words.trim())))
}

pub(super) fn explained(program: impl AsRef<std::ffi::OsStr>, error: &io::Error) -> io::Error {
    let text = format!("cannot run {}: {error}", program.as_ref().display());
    io::Error::new(error.kind(), text)
}
