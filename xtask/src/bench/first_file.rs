//! Measures the time until the first file is at the target, and ends the run then.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_measure::process::CommandGroup;

use super::group_data::RunPaths;
use super::group_hosts::GroupHosts;
use super::runs::{LIMIT, Lines, MethodFailure, MethodTiming, RunCounters, complete};
use super::scratch_space::ScratchSpace;

const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The time that the command has to end.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Runs a command until a file is at the target.
pub fn first_file(
    scratch: &ScratchSpace,
    hosts: &GroupHosts,
    lines: &Lines,
    paths: RunPaths<'_>,
) -> Result<MethodTiming, MethodFailure> {
    let command = complete(hosts.local_command(&lines.local), paths, hosts.free_port()?);
    let before = RunCounters::now(hosts, paths)?;
    let started = Instant::now();
    let near = CommandGroup::start(command, &scratch.tools().join("first.log"))?;
    while !has_file(paths.target.content()) {
        if scratch.interrupted() {
            return Err(MethodFailure::Interrupted);
        }
        if near.ended_within(LOOK_EVERY)? || started.elapsed() > LIMIT {
            if has_file(paths.target.content()) {
                break;
            }
            let words = near.last_words();
            return Err(MethodFailure::Failed(format!("no file is at the target: {words}")));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    near.end(END_LIMIT);
    Ok(MethodTiming { seconds, counted: RunCounters::now(hosts, paths)?.since(before) })
}

/// Returns true if there is a file below the directory. Hidden ones may be incomplete.
fn has_file(directory: &Path) -> bool {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut shown = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    shown.any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => has_file(&entry.path()),
        found => found.is_ok(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_found_below_directories() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/b")).unwrap();
        fs::write(root.path().join("a/.part"), "x").unwrap();
        assert!(!has_file(root.path()));
        fs::write(root.path().join("a/b/c"), "x").unwrap();
        assert!(has_file(root.path()));
    }
}
