//! Measures a run that is killed half way and then repeated.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hakobu_measure::process::CommandGroup;
use hakobu_testkit::sshd::descendants;
use rustix::process::{Pid, Signal, kill_process};

use super::group_data::RunPaths;
use super::group_hosts::GroupHosts;
use super::runs::{KilledRun, LIMIT, Lines, MethodFailure, MethodTiming, RunCounters, complete, once};
use super::scratch_space::ScratchSpace;

const LOOK_EVERY: Duration = Duration::from_millis(2);
/// The time that the other processes have to end after the kill.
const END_LIMIT: Duration = Duration::from_secs(20);

/// Runs a command, kills its `program` process once half of the source has been read, and runs the command again to its
/// end. The returned time is that of the second run; the counters cover both runs.
pub fn killed(
    scratch: &ScratchSpace,
    hosts: &GroupHosts,
    program: &Path,
    lines: &Lines,
    paths: RunPaths<'_>,
) -> Result<MethodTiming, MethodFailure> {
    let command = complete(hosts.local_command(&lines.local), paths, hosts.free_port()?);
    let before = RunCounters::now(hosts, paths)?;
    let started = Instant::now();
    let near = CommandGroup::start(command, &scratch.tools().join("killed.log"))?;
    let read_bytes = half(scratch, hosts, &near, paths)?;
    let victim = find(program, near.pid()).context("the process to be killed is not there")?;
    kill_process(victim, Signal::KILL)?;
    let first = KilledRun { seconds: started.elapsed().as_secs_f64(), source_read_bytes: read_bytes };
    if !near.ended_within(END_LIMIT)? {
        return Err(MethodFailure::Failed(format!(
            "still running {} s after it was killed",
            END_LIMIT.as_secs()
        )));
    }
    drop(near);
    hosts.wait_for_sessions()?;
    let again = once(scratch, hosts, lines, paths)?;
    let mut counted = RunCounters::now(hosts, paths)?.since(before);
    counted.killed = Some(first);
    Ok(MethodTiming { seconds: again.seconds, counted })
}

/// Waits until half of the source has been read, and returns the number of bytes read by then. What has no counter counts
/// when it is sent.
fn half(
    scratch: &ScratchSpace,
    hosts: &GroupHosts,
    near: &CommandGroup,
    paths: RunPaths<'_>,
) -> Result<u64, MethodFailure> {
    let read = || paths.source.read_bytes()?.map_or_else(|| hosts.travelled_bytes(), Ok);
    let (before, deadline) = (read()?, Instant::now() + LIMIT);
    loop {
        let now = read()? - before;
        if now >= paths.kind.bytes() / 2 {
            return Ok(now);
        }
        if scratch.interrupted() {
            return Err(MethodFailure::Interrupted);
        }
        if near.ended_within(LOOK_EVERY)? || Instant::now() > deadline {
            let words = near.last_words();
            return Err(MethodFailure::Failed(format!(
                "half of the source was not read before the end: {words}"
            )));
        }
    }
}

/// Returns the process of `program` among `root` and its descendants.
fn find(program: &Path, root: u32) -> Option<Pid> {
    let mut numbers = vec![root];
    numbers.extend(descendants(root));
    let is_it = |number: &u32| fs::read_link(format!("/proc/{number}/exe")).is_ok_and(|exe| exe == program);
    let found = numbers.into_iter().find(is_it)?;
    i32::try_from(found).ok().and_then(Pid::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_program_is_found_behind_the_shell() {
        let sleep = fs::canonicalize("/bin/sleep").unwrap();
        let mut shell = Command::new("bash").args(["-c", "sleep 100; true"]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let found = loop {
            let found = find(&sleep, shell.id());
            if found.is_some() || Instant::now() > deadline {
                break found;
            }
        };
        assert!(find(Path::new("/no/such/program"), shell.id()).is_none());
        let found = found.unwrap();
        assert_ne!(found.as_raw_nonzero().get().unsigned_abs(), shell.id());
        kill_process(found, Signal::KILL).unwrap();
        shell.wait().unwrap();
    }
}
