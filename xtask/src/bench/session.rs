//! Measures one group: first checks that each method does its work, then runs rounds in turn, some with baselines.

use std::io::{self, Write};
use std::path::Path;

use anyhow::{Result, bail};
use hakobu_core::shell::quote;

use super::first_file::first_file;
use super::group_data::GroupData;
use super::group_hosts::GroupHosts;
use super::killed_run::killed;
use super::machine::load;
use super::memory_meter::MemoryMeter;
use super::peers::Peers;
use super::proof::{self, SourceDigests};
use super::results::{GroupResult, MethodResult};
use super::rows::{BenchMethod, Group, RunMode, StoreSides, Target};
use super::runs::{Lines, MethodFailure, MethodTiming, once};
use super::scratch_space::ScratchSpace;
use super::sources::BenchSource;
use super::tuning::tune;

/// The number of baseline runs: the command on next to nothing.
const BASELINE_RUNS: usize = 3;
/// Memory to warm beyond what a target takes: for directories, sockets and the file system itself.
const WARM_SURPLUS_BYTES: u64 = 64 << 20;
/// The divisor of sizes while the best settings are looked for.
const TUNING_DIVISOR: u64 = 8;

/// The context that all groups share.
#[derive(Debug)]
pub struct Session<'a> {
    pub scratch: &'a ScratchSpace,
    pub meter: &'a MemoryMeter<'a>,
    pub peers: &'a Peers,
    pub rounds: usize,
    /// The divisor of the groups' source sizes.
    pub divisor: u64,
    pub digests: &'a SourceDigests,
}

/// Prints one line of progress to standard error. Ignores errors, as nobody may be reading.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// A method under measurement, with its results so far.
struct Runner<'a> {
    method: &'static BenchMethod,
    source: BenchSource,
    lines: Lines,
    result: &'a mut MethodResult,
}

/// One run to be done.
#[derive(Clone, Copy)]
struct MethodRun<'a> {
    method: &'static BenchMethod,
    lines: &'a Lines,
    mode: RunMode,
    source: BenchSource,
    /// True if the result is compared with the source.
    check: bool,
}

impl Runner<'_> {
    fn method_run(&self) -> MethodRun<'_> {
        MethodRun {
            method: self.method,
            lines: &self.lines,
            mode: self.method.mode,
            source: self.source,
            check: false,
        }
    }
}

impl Session<'_> {
    /// Measures `methods` of a group.
    ///
    /// # Errors
    /// Returns an error if the user interrupts, or a source or target cannot be set up. The failure of a single method
    /// is part of its result.
    pub fn measure(
        &self,
        hosts: &GroupHosts,
        group: &Group,
        methods: &[&'static BenchMethod],
    ) -> Result<GroupResult> {
        say(&format!("{} ({})", group.name, hosts.topology().title()));
        let load_before = load();
        let source_of = |method: &BenchMethod| method.source.unwrap_or(group.source).smaller(self.divisor);
        let mut results: Vec<MethodResult> =
            methods.iter().map(|method| MethodResult::new(method, source_of(method))).collect();
        let mut runners: Vec<Runner<'_>> = Vec::new();
        for (method, result) in methods.iter().zip(&mut results) {
            result.absent = self.peers.absent(method.tool).map(str::to_owned);
            let lines = Lines { local: method.local.to_owned(), remote: method.remote.map(str::to_owned) };
            runners.push(Runner { method, source: source_of(method), lines, result });
        }
        self.tune_all(hosts, group, &mut runners)?;
        self.prove_all(hosts, group, &mut runners)?;
        self.rounds(hosts, group, &mut runners)?;
        self.scratch.clear_targets()?;
        for result in &mut results {
            result.complete();
        }
        Ok(GroupResult {
            name: group.name,
            extra: group.extra,
            topology: hosts.topology().title(),
            source: group.source.smaller(self.divisor).describe(),
            load_before,
            link_late_most_ms: hosts.link_late_most().map(|late| (late.as_secs_f64() * 1e4).round() / 10.0),
            methods: results,
        })
    }

    /// Looks for the best settings of the methods that have any.
    fn tune_all(&self, hosts: &GroupHosts, group: &Group, runners: &mut [Runner<'_>]) -> Result<()> {
        let smaller = |source: BenchSource| source.smaller(TUNING_DIVISOR);
        for runner in runners.iter_mut().filter(|runner| {
            (runner.method.tuned || !runner.method.counts.is_empty()) && runner.result.usable()
        }) {
            say(&format!("  looking for the best settings of {}", runner.method.name));
            self.scratch.clear_targets()?;
            let source = smaller(runner.source);
            let data = GroupData::new(self.scratch, hosts, group, &[source], "small")?;
            let outcome = tune(runner.method, |lines| {
                let mode = RunMode::Whole;
                self.run(
                    hosts,
                    group,
                    MethodRun { method: runner.method, lines, mode, source, check: false },
                    &data,
                )
            });
            drop(data);
            self.scratch.forget(source);
            if let Some((lines, tried)) = self.note(runner, outcome)? {
                runner.lines = lines;
                runner.result.command.clone_from(&runner.lines.local);
                runner.result.far_command.clone_from(&runner.lines.remote);
                runner.result.tried = tried;
            }
        }
        Ok(())
    }

    /// Runs each of our methods once without timing, to check its memory, report and result. If the target equals the
    /// source, runs every method after damaging the target.
    fn prove_all(&self, hosts: &GroupHosts, group: &Group, runners: &mut [Runner<'_>]) -> Result<()> {
        self.scratch.clear_targets()?;
        let mut data = self.group_data(hosts, group, runners, "copy")?;
        for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
            if !runner.method.is_ours() && group.target != Target::Equal {
                continue;
            }
            if group.target == Target::Equal {
                proof::damage(data.target_content())?;
            }
            let outcome = if runner.method.is_ours() {
                self.prove_ours(hosts, group, runner, &data)
            } else {
                self.run(hosts, group, MethodRun { check: true, ..runner.method_run() }, &data).map(|_| ())
            };
            self.note(runner, outcome)?;
            if group.target == Target::Equal && !runner.result.usable() {
                // The others need an undamaged target.
                self.scratch.clear_targets()?;
                data = GroupData::new(self.scratch, hosts, group, &[runner.source], "copy")?;
            }
        }
        Ok(())
    }

    fn prove_ours(
        &self,
        hosts: &GroupHosts,
        group: &Group,
        runner: &mut Runner<'_>,
        data: &GroupData<'_>,
    ) -> Result<(), MethodFailure> {
        if runner.method.mode == RunMode::FirstFile {
            // It ends too early for a result.
            return Ok(());
        }
        let report = self.scratch.tools().join("report.json");
        let reported = with_report(&runner.lines.local, &report);
        let local = reported.clone().unwrap_or_else(|| runner.lines.local.clone());
        let lines = Lines { local, remote: runner.lines.remote.clone() };
        let method_run = MethodRun { lines: &lines, check: true, ..runner.method_run() };
        let is_remote = lines.local.contains("$HOST");
        let work = || self.run(hosts, group, method_run, data);
        let (outcome, peaks) = self.meter.measured(is_remote, work)?;
        outcome?;
        if reported.is_some() {
            runner.result.peaks = Some(peaks);
            let single = group.travels.then_some(self.digests);
            let in_store = group.store != StoreSides::None;
            proof::reported(&report, runner.method, data.paths(runner.source)?, single, in_store)?;
        }
        if group.target == Target::Equal && group.store.has_target() {
            // The damaged content is repaired; now there is nothing to do.
            self.run(hosts, group, method_run, data)?;
            runner.result.lists = Some(proof::listed(&report)?);
        }
        Ok(())
    }

    /// Runs each method once on next to nothing.
    fn baselines(
        &self,
        hosts: &GroupHosts,
        group: &Group,
        runners: &mut [Runner<'_>],
        data: &GroupData<'_>,
    ) -> Result<()> {
        for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
            let method_run =
                MethodRun { mode: RunMode::Whole, source: runner.source.least(), ..runner.method_run() };
            let timing = self.run(hosts, group, method_run, data);
            if let Some(timing) = self.note(runner, timing)? {
                runner.result.baseline_seconds.push(timing.seconds);
            }
        }
        Ok(())
    }

    fn rounds(&self, hosts: &GroupHosts, group: &Group, runners: &mut [Runner<'_>]) -> Result<()> {
        self.scratch.clear_targets()?;
        let data = self.group_data(hosts, group, runners, "copy")?;
        let least = GroupData::new(self.scratch, hosts, group, &[group.source.least()], "least")?;
        for round in 0..self.rounds {
            self.scratch.go_on()?;
            for _ in 0..baselines_in(round, self.rounds) {
                self.baselines(hosts, group, runners, &least)?;
            }
            if round > 0 {
                // The first method runs after a pause, which matters above all to disks: each is first in turn.
                runners.rotate_left(1);
            }
            let mut line = format!("  round {}:", round + 1);
            for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
                // A kill can break something else each time.
                let first =
                    round == 0 && !matches!(group.target, Target::Discard | Target::Equal | Target::Same);
                let check = first && runner.method.mode != RunMode::FirstFile
                    || runner.method.mode == RunMode::Killed;
                let timing = self.run(hosts, group, MethodRun { check, ..runner.method_run() }, &data);
                let timing = timing.and_then(|timing| {
                    if group.travels {
                        proof::travelled(&timing.counted, runner.source.data_bytes())?;
                    }
                    Ok(timing)
                });
                if let Some(timing) = self.note(runner, timing)? {
                    runner.result.wall_seconds.push(timing.seconds);
                    runner.result.counted.push(timing.counted);
                    line.push_str(&format!("  {} {:.2} s", runner.method.name, timing.seconds));
                }
            }
            say(&line);
        }
        Ok(())
    }

    /// Runs a method once, with the preparation and checks of its target.
    fn run(
        &self,
        hosts: &GroupHosts,
        group: &Group,
        method_run: MethodRun<'_>,
        data: &GroupData<'_>,
    ) -> Result<MethodTiming, MethodFailure> {
        let MethodRun { method, lines, mode, source, check } = method_run;
        data.ready(source, check)?;
        if group.target.takes_memory() {
            // Before every run, as memory that the previous run has freed is returned to the host within moments.
            self.scratch.warm(source.memory_bytes() + WARM_SURPLUS_BYTES)?;
        }
        let paths = data.paths(source)?;
        let outcome = match mode {
            RunMode::Whole => once(self.scratch, hosts, lines, paths),
            RunMode::FirstFile => first_file(self.scratch, hosts, lines, paths),
            RunMode::Killed => killed(self.scratch, hosts, self.meter.program(), lines, paths),
        };
        // Not timed: processes that the local command does not wait for must not disturb the next run.
        hosts.wait_for_sessions()?;
        let outcome = outcome.and_then(|timing| {
            if check && group.target == Target::Surplus {
                proof::gone(paths.target.content())
                    .map_err(|error| MethodFailure::Failed(self.scratch.scrub(&error.to_string())))?;
            } else if check && group.target != Target::Discard && !method.discards {
                proof::arrived(method, paths, group.store.has_target())
                    .map_err(|error| MethodFailure::Failed(self.scratch.scrub(&error.to_string())))?;
            }
            Ok(timing)
        });
        data.done(outcome.is_ok())?;
        outcome
    }

    /// Records a failure in the method's result. Only an interruption is returned as an error.
    fn note<T>(&self, runner: &mut Runner<'_>, outcome: Result<T, MethodFailure>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(MethodFailure::Interrupted) => bail!("interrupted"),
            Err(MethodFailure::Failed(why)) => {
                let why = self.scratch.scrub(&why);
                say(&format!("  {} failed: {why}", runner.method.name));
                runner.result.failed = Some(why);
                Ok(None)
            }
        }
    }

    /// Creates the sources and the target that these methods of a group need.
    fn group_data(
        &self,
        hosts: &GroupHosts,
        group: &Group,
        runners: &[Runner<'_>],
        name: &str,
    ) -> Result<GroupData<'_>> {
        let mut sources: Vec<BenchSource> = Vec::new();
        for runner in runners {
            if !sources.contains(&runner.source) {
                sources.push(runner.source);
            }
        }
        GroupData::new(self.scratch, hosts, group, &sources, name)
    }
}

/// Returns one of our command lines with `--report`, or `None` if the command writes no report.
fn with_report(line: &str, report: &Path) -> Option<String> {
    let (verb, rest) = line.strip_prefix("hakobu ")?.split_once(' ')?;
    matches!(verb, "copy" | "sync" | "verify")
        .then(|| format!("hakobu {verb} --report {} {rest}", quote(report)))
}

/// Returns the number of baseline runs before a round. They are spread over the first, the middle and the last round,
/// since the speed of the machine may change over time.
fn baselines_in(round: usize, rounds: usize) -> usize {
    (0..BASELINE_RUNS).filter(|run| run * (rounds - 1) / (BASELINE_RUNS - 1) == round).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_makes_reports_is_asked_for_one() {
        let with = |line| with_report(line, Path::new("/r"));
        assert_eq!(with("hakobu sync -q a b").unwrap(), "hakobu sync --report /r -q a b");
        assert_eq!(with("hakobu make-data disk a"), None);
        assert_eq!(with("dd if=a"), None);
    }

    #[test]
    fn baselines_are_spread_over_the_rounds() {
        let spread = |rounds| (0..rounds).map(|round| baselines_in(round, rounds)).collect::<Vec<_>>();
        assert_eq!(spread(7), [1, 0, 0, 1, 0, 0, 1]);
        assert_eq!(spread(3), [1, 1, 1]);
        assert_eq!(spread(2), [2, 1]);
        assert_eq!(spread(1), [3]);
    }
}
