//! Measuring one group: proof that each way does its work, then rounds in turn, some with baselines.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::machine::load;
use super::measured::Stand;
use super::peers::Peers;
use super::proof::{self, Digests};
use super::results::{GroupResult, WayResult};
use super::rows::{Group, Source, Target, Way};
use super::runs::{Failure, Paths, Timing, once};
use super::workshop::Workshop;
use super::world::{World, quoted};

/// The command on one byte runs so often.
const BASELINE_RUNS: usize = 3;
/// Added to what a target takes when memory is warmed: directories, sockets, the file system's own.
const WARM_SURPLUS_BYTES: u64 = 64 << 20;

/// What all groups share.
#[derive(Debug)]
pub struct Session<'a> {
    pub shop: &'a Workshop,
    pub stand: &'a Stand<'a>,
    pub peers: &'a Peers,
    pub rounds: usize,
    pub digests: &'a Digests,
}

/// One line of progress. Nobody may be listening.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// One way under measurement, and what came of it so far.
struct Runner<'a> {
    way: &'static Way,
    result: &'a mut WayResult,
}

impl Session<'_> {
    /// Measures `ways` of a group on `source`, which is the group's or smaller.
    ///
    /// # Errors
    /// When the user interrupts, or the ground gives way: no memory, no source. What goes wrong in one way is in its
    /// result.
    pub fn measure(
        &self,
        world: &World,
        group: &Group,
        ways: &[&'static Way],
        source: Source,
    ) -> Result<GroupResult> {
        say(&format!("{} ({})", group.name, world.place().title()));
        let load_before = load();
        let mut results: Vec<WayResult> = ways.iter().map(|way| WayResult::new(way, source)).collect();
        for result in &mut results {
            let tool = ways.iter().find(|way| way.name == result.name).map(|way| way.tool);
            result.absent = tool.and_then(|tool| self.peers.absent(tool)).map(str::to_owned);
        }
        let mut runners: Vec<Runner<'_>> =
            ways.iter().zip(&mut results).map(|(way, result)| Runner { way, result }).collect();
        self.prove_all(world, group, &mut runners, source)?;
        self.rounds(world, group, &mut runners, source)?;
        self.shop.clear_targets()?;
        for result in &mut results {
            result.complete(source);
        }
        Ok(GroupResult {
            name: group.name,
            extra: group.extra,
            place: world.place().title(),
            source: describe(source),
            load_before,
            link_late_most_ms: world.link_late_most().map(|late| (late.as_secs_f64() * 1e4).round() / 10.0),
            ways: results,
        })
    }

    /// Runs ours once off the clock, for its memory, its report and its result; and every way that is to find nothing
    /// to do on a target that was damaged.
    fn prove_all(
        &self,
        world: &World,
        group: &Group,
        runners: &mut [Runner<'_>],
        source: Source,
    ) -> Result<()> {
        self.shop.clear_targets()?;
        let ground = self.ground(group, source, "copy")?;
        for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
            if !runner.way.is_ours() && group.target != Target::Equal {
                continue;
            }
            if group.target == Target::Equal {
                proof::damage(&ground.target)?;
            }
            let outcome = if runner.way.is_ours() {
                self.prove_ours(world, group, runner, &ground)
            } else {
                self.run(world, group, runner.way, runner.way.near, &ground, true).map(|_| ())
            };
            self.note(runner, outcome)?;
            if group.target == Target::Equal && !runner.result.usable() {
                // What it left is no ground for the others.
                self.shop.clear_targets()?;
                self.ground(group, source, "copy")?;
            }
        }
        Ok(())
    }

    fn prove_ours(
        &self,
        world: &World,
        group: &Group,
        runner: &mut Runner<'_>,
        ground: &Ground,
    ) -> Result<(), Failure> {
        let report = self.shop.tools().join("report.json");
        let with_report = format!("hakobu copy --report {}", quoted(&report));
        let line = runner.way.near.replacen("hakobu copy", &with_report, 1);
        let far = line.contains("$HOST");
        let work = || self.run(world, group, runner.way, &line, ground, true);
        let (outcome, peaks) = self.stand.measured(far, work)?;
        outcome?;
        runner.result.peaks = Some(peaks);
        let single = group.travels.then_some(self.digests);
        proof::reported(&report, ground.paths(), group.target, single)?;
        Ok(())
    }

    /// One run of each way on one byte.
    fn baselines(
        &self,
        world: &World,
        group: &Group,
        runners: &mut [Runner<'_>],
        ground: &Ground,
    ) -> Result<()> {
        for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
            let timing = self.run(world, group, runner.way, runner.way.near, ground, false);
            if let Some(timing) = self.note(runner, timing)? {
                runner.result.baseline_seconds.push(timing.seconds);
            }
        }
        Ok(())
    }

    fn rounds(&self, world: &World, group: &Group, runners: &mut [Runner<'_>], source: Source) -> Result<()> {
        self.shop.clear_targets()?;
        let ground = self.ground(group, source, "copy")?;
        let one = self.ground(group, source.one_byte(), "one")?;
        for round in 0..self.rounds {
            self.shop.go_on()?;
            for _ in 0..baselines_in(round, self.rounds) {
                self.baselines(world, group, runners, &one)?;
            }
            if group.target == Target::Fresh {
                self.shop.warm(source.memory_bytes() + WARM_SURPLUS_BYTES)?;
            }
            let mut line = format!("  round {}:", round + 1);
            for runner in runners.iter_mut().filter(|runner| runner.result.usable()) {
                let check = round == 0 && group.target == Target::Fresh;
                let timing = self.run(world, group, runner.way, runner.way.near, &ground, check);
                let timing = timing.and_then(|timing| {
                    if group.travels {
                        proof::travelled(&timing, source.bytes())?;
                    }
                    Ok(timing)
                });
                if let Some(timing) = self.note(runner, timing)? {
                    runner.result.wall_seconds.push(timing.seconds);
                    line.push_str(&format!("  {} {:.2} s", runner.way.name, timing.seconds));
                }
            }
            say(&line);
        }
        Ok(())
    }

    /// One run with its target as it must be before and after.
    fn run(
        &self,
        world: &World,
        group: &Group,
        way: &Way,
        line: &str,
        ground: &Ground,
        check: bool,
    ) -> Result<Timing, Failure> {
        if group.target == Target::Fresh {
            self.shop.clear_targets()?;
        }
        let timing = once(self.shop, world, way, line, ground.paths())?;
        if check && group.target != Target::Discard && !way.discards {
            proof::arrived(way, ground.paths())
                .map_err(|error| Failure::Failed(self.shop.scrub(&error.to_string())))?;
        }
        if group.target == Target::Fresh {
            self.shop.clear_targets()?;
        }
        Ok(timing)
    }

    /// Keeps a failure with its way; only an interruption ends everything.
    fn note<T>(&self, runner: &mut Runner<'_>, outcome: Result<T, Failure>) -> Result<Option<T>> {
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Failure::Interrupted) => bail!("interrupted"),
            Err(Failure::Failed(why)) => {
                let why = self.shop.scrub(&why);
                say(&format!("  {} failed: {why}", runner.way.name));
                runner.result.failed = Some(why);
                Ok(None)
            }
        }
    }

    /// Source and target of a group, the target in its first state.
    fn ground(&self, group: &Group, source: Source, name: &str) -> Result<Ground> {
        self.shop.go_on()?;
        let path = self.shop.source(source)?;
        let target = self.shop.target(name);
        if group.target == Target::Equal {
            // By neither of those that are compared.
            let status = Command::new("cp").arg("-a").arg(&path).arg(&target).stdin(Stdio::null()).status();
            if !status.context("running cp")?.success() {
                bail!("cp -a cannot make the target");
            }
        }
        Ok(Ground { source: path, source_bytes: source.bytes(), target })
    }
}

/// How many runs on one byte come before a round: they are spread over the first, the middle and the last, since the
/// machine may be slower at one time than at another.
fn baselines_in(round: usize, rounds: usize) -> usize {
    (0..BASELINE_RUNS).filter(|run| run * (rounds - 1) / (BASELINE_RUNS - 1) == round).count()
}

struct Ground {
    source: PathBuf,
    source_bytes: u64,
    target: PathBuf,
}

impl Ground {
    fn paths(&self) -> Paths<'_> {
        Paths { source: &self.source, source_bytes: self.source_bytes, target: &self.target }
    }
}

fn describe(source: Source) -> String {
    match source {
        Source::File { bytes } => format!("one file of {bytes} random bytes"),
        Source::Tree { files, directories, file_bytes } => {
            format!("{files} files of {file_bytes} random bytes in {directories} directories")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn baselines_are_spread_over_the_rounds() {
        let spread = |rounds| (0..rounds).map(|round| baselines_in(round, rounds)).collect::<Vec<_>>();
        assert_eq!(spread(7), [1, 0, 0, 1, 0, 0, 1]);
        assert_eq!(spread(3), [1, 1, 1]);
        assert_eq!(spread(2), [2, 1]);
        assert_eq!(spread(1), [3]);
    }
}
