//! Information about processes, from `/proc`.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal};

/// Returns the PIDs of all processes.
///
/// # Errors
/// Returns an error if `/proc` cannot be read.
pub fn all() -> std::io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Returns the process and its current descendants. Those whose parent has ended are not found.
///
/// # Errors
/// Returns an error if `/proc` cannot be read.
pub fn descendants(of: u32) -> std::io::Result<Vec<u32>> {
    let parents: Vec<(u32, u32)> =
        all()?.into_iter().filter_map(|process| Some((process, parent(process)?))).collect();
    let mut found = vec![of];
    let mut seen = HashSet::from([of]);
    let mut at = 0;
    while let Some(&next) = found.get(at) {
        at += 1;
        found.extend(
            parents
                .iter()
                .filter(|(_, parent)| *parent == next)
                .map(|(child, _)| *child)
                .filter(|child| seen.insert(*child)),
        );
    }
    Ok(found)
}

/// Returns the fields of `stat` after the name, which may contain anything. The state comes first.
fn fields(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn parent(process: u32) -> Option<u32> {
    fields(process)?.get(1)?.parse().ok()
}

/// Returns the start time of the process, in ticks since the machine's start.
#[must_use]
pub fn start(process: u32) -> Option<u64> {
    fields(process)?.get(19)?.parse().ok()
}

/// Returns true if the process has ended, even if its parent has not waited for it yet.
#[must_use]
pub fn is_zombie(process: u32) -> bool {
    fields(process).is_none_or(|fields| fields.first().is_some_and(|state| state == "Z"))
}

/// Returns true if the executable of the process has this file name.
#[must_use]
pub fn runs(process: u32, name: &str) -> bool {
    let program = fs::read_link(format!("/proc/{process}/exe"));
    program.is_ok_and(|program| program.file_name().is_some_and(|own| own == name))
}

/// Returns true if the process has this name.
#[must_use]
pub fn is_named(process: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|own| own.trim_end() == name)
}

/// Returns the command line of the process, for people.
#[must_use]
pub fn command_line(process: u32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&words).replace('\0', " ");
    format!("{process} {}", line.chars().take(200).collect::<String>())
}

/// Returns the processes with this variable in their environment. `variable` is `NAME=value`.
///
/// # Errors
/// Returns an error if `/proc` cannot be read.
pub fn with_variable(variable: &str) -> std::io::Result<Vec<u32>> {
    let has = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    Ok(all()?.into_iter().filter(has).collect())
}

/// Sends a signal. Ignores processes that have ended.
pub fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, signal);
    }
}
