//! `cargo xtask bench probe`: compares the predictions of `hakobu probe` with the times of `hakobu copy`, under one
//! limit at a time.

mod limits;
mod page;
mod results;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::machine::{Machine, load};
use super::preparation::{Preparation, write};
use super::session::say;
use super::slow_hosts::{SlowHosts, SlowRun};
use super::sources::BenchSource;
use limits::{LIMITS, ProbeLimit, words};
use results::{FILE_WITHIN, ProbeBenchResults, ProbeRow, TREE_WITHIN, TimeComparison};

/// The divisor of sizes under `--quick`.
const QUICK_DIVISOR: u64 = 8;

/// hakobu probe: predicted and came, one limit at a time (takes root, 8 GiB of memory, sshfs; 25 minutes)
#[derive(Debug, Args)]
pub struct ProbeBenchArgs {
    /// Only limits whose key or title contains this
    #[arg(long, value_name = "SUBSTRING")]
    rows: Option<String>,
    /// How often each pair is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Sizes divided by 8: to try the bench, not to judge by
    #[arg(long)]
    quick: bool,
    /// Exit with 1 when the median of a row is off by more than it may
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// Keep what the results there hold of limits that are not measured now
    #[arg(long)]
    merge: bool,
    /// Where the results go, as probe.json and probe.md [default: docs/benchmarks; target/bench when quick]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Runs the bench. Exits with code 1 if `--check` finds a row that is too far off.
///
/// # Errors
/// Returns an error if nothing can be measured or the user interrupts. A limit's failure is part of the results.
pub fn run(args: &ProbeBenchArgs) -> Result<()> {
    let wanted = |limit: &&ProbeLimit| {
        let text = format!("{} {}", limit.key, limit.title).to_lowercase();
        args.rows.as_deref().is_none_or(|substring| text.contains(&substring.to_lowercase()))
    };
    let limits: Vec<&ProbeLimit> = LIMITS.iter().filter(wanted).collect();
    ensure!(!limits.is_empty(), "no limit has that in its key or title");
    let bench = ProbeBench { prepared: &Preparation::new(args.program.as_deref())?, args };
    let output = bench.prepared.output(args.output.as_deref(), !args.quick);
    let earlier = if args.merge { earlier(&output) } else { Vec::new() };
    let mut measured: Vec<ProbeRow> = Vec::new();
    for limit in limits {
        measured.extend(bench.measure(limit)?);
        // Write after each limit, so that nothing is lost if a later one fails.
        let known = |row: &ProbeRow| measured.iter().any(|new| new.key == row.key);
        let mut rows: Vec<ProbeRow> = earlier.iter().filter(|row| !known(row)).cloned().collect();
        rows.extend(measured.iter().cloned());
        rows.sort_by_key(|row| LIMITS.iter().position(|limit| limit.key == row.key));
        let results = ProbeBenchResults {
            schema: "hakobu.bench/1",
            bench: "probe",
            quick: args.quick,
            machine: Machine::look(&bench.prepared.workspace),
            hakobu: bench.prepared.hakobu.clone(),
            rows,
        };
        write(&output, "probe", &results, &[("md", page::page(&results))])?;
    }
    bench.prepared.say_end(&output);
    let off: Vec<String> = measured.iter().filter(|row| !row.is_within()).map(page::shortfall).collect();
    off.iter().for_each(|line| say(&format!("too far off: {line}")));
    ensure!(!args.check || off.is_empty(), "some predictions are too far off");
    Ok(())
}

/// Returns the rows of the existing results.
fn earlier(output: &Path) -> Vec<ProbeRow> {
    let text = fs::read_to_string(output.join("probe.json")).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_default();
    serde_json::from_value(all["rows"].clone()).unwrap_or_default()
}

struct ProbeBench<'a> {
    prepared: &'a Preparation,
    args: &'a ProbeBenchArgs,
}

impl ProbeBench<'_> {
    /// Measures all copies under one limit.
    fn measure(&self, limit: &'static ProbeLimit) -> Result<Vec<ProbeRow>> {
        let mut rows = Vec::new();
        let scratch = &self.prepared.scratch;
        for source in limit.sources {
            let source = source.smaller(if self.args.quick { QUICK_DIVISOR } else { 1 });
            let words = words(source);
            say(&format!("{}: {words}", limit.title));
            let mut new = match source.is_tree() {
                false => vec![ProbeRow::new(limit, &words, FILE_WITHIN)],
                true => vec![
                    ProbeRow::new(limit, &format!("{words}, first copy"), TREE_WITHIN),
                    ProbeRow::new(limit, &format!("{words}, nothing to do"), TREE_WITHIN),
                ],
            };
            if let Err(error) = self.pairs(limit, source, &mut new) {
                scratch.go_on()?;
                let why = scratch.scrub(&format!("{error:#}"));
                say(&format!("  failed: {why}"));
                new.iter_mut().for_each(|row| row.failed = Some(why.clone()));
            }
            rows.extend(new);
        }
        Ok(rows)
    }

    fn pairs(&self, limit: &'static ProbeLimit, source: BenchSource, rows: &mut [ProbeRow]) -> Result<()> {
        let scratch = &self.prepared.scratch;
        let mut hosts = SlowHosts::up(scratch, &self.prepared.program, (limit.slow, limit.network), source)?;
        scratch.warm(2 * source.memory_bytes())?;
        for round in 0..self.args.rounds {
            scratch.go_on()?;
            hosts.fresh()?;
            let load = load();
            let probe = hosts.probe()?;
            let made = &probe.report["prediction"];
            let add = |row: &mut ProbeRow, span: &Value, ran: &SlowRun| -> Result<()> {
                let predicted_seconds = span["seconds"].as_f64().context("there is no prediction")?;
                let pair = TimeComparison {
                    predicted_seconds,
                    came_seconds: ran.seconds,
                    predicted_limit: span["limited_by"].as_str().unwrap_or_default().to_owned(),
                    reported_limit: ran.report["bottleneck"]["stage"].as_str().map(str::to_owned),
                    probe_seconds: probe.seconds,
                    load,
                };
                say(&format!(
                    "  {} of {}: {predicted_seconds:.2} s predicted, {:.2} s came, {:.2}",
                    round + 1,
                    row.work,
                    ran.seconds,
                    pair.ratio()
                ));
                row.pairs.push(pair);
                Ok(())
            };
            hosts.cold()?;
            let copied = hosts.copy()?;
            match rows {
                [file] => add(file, &made["file"]["span"], &copied)?,
                [first, again] => {
                    add(first, &made["tree"]["first_copy"], &copied)?;
                    hosts.cold()?;
                    add(again, &made["tree"]["unchanged"], &hosts.copy()?)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_judged_by_its_middle_ratio() {
        let pair = |predicted_seconds| TimeComparison {
            predicted_seconds,
            came_seconds: 10.0,
            predicted_limit: String::new(),
            reported_limit: None,
            probe_seconds: 1.0,
            load: 0.0,
        };
        let mut row = ProbeRow::new(&LIMITS[0], "work", 0.2);
        assert!(!row.is_within());
        row.pairs = [30.0, 11.9, 9.0].map(pair).to_vec();
        assert_eq!((row.median(), row.is_within()), (Some(1.19), true));
        row.pairs.push(pair(12.5));
        assert!(!row.is_within());
    }
}
