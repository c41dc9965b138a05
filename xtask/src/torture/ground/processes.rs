//! Processes as `/proc` shows them.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal};

/// The numbers of all processes.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn all() -> std::io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// The process and all that descend from it now. Those whose parent has ended are not found.
///
/// # Errors
/// Where `/proc` cannot be read.
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

/// The fields of `stat` behind the name, which may hold anything: the state comes first.
fn fields(process: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.split_whitespace().map(str::to_owned).collect())
}

fn parent(process: u32) -> Option<u32> {
    fields(process)?.get(1)?.parse().ok()
}

/// When it began, in ticks since the machine did.
#[must_use]
pub fn start(process: u32) -> Option<u64> {
    fields(process)?.get(19)?.parse().ok()
}

/// True where it has ended, but nobody has asked how.
#[must_use]
pub fn is_zombie(process: u32) -> bool {
    fields(process).is_none_or(|fields| fields.first().is_some_and(|state| state == "Z"))
}

/// True where its program has this file name.
#[must_use]
pub fn runs(process: u32, name: &str) -> bool {
    let program = fs::read_link(format!("/proc/{process}/exe"));
    program.is_ok_and(|program| program.file_name().is_some_and(|own| own == name))
}

/// True where it calls itself so.
#[must_use]
pub fn is_named(process: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|own| own.trim_end() == name)
}

/// Its command line, for people.
#[must_use]
pub fn command_line(process: u32) -> String {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let line = String::from_utf8_lossy(&words).replace('\0', " ");
    format!("{process} {}", line.chars().take(200).collect::<String>())
}

/// The processes that have this variable in their environment, as `NAME=value`.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn with_variable(variable: &str) -> std::io::Result<Vec<u32>> {
    let has = |process: &u32| {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == variable.as_bytes())
    };
    Ok(all()?.into_iter().filter(has).collect())
}

/// Sends a signal; one that has ended gets none.
pub fn signal(process: u32, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(process, signal);
    }
}
