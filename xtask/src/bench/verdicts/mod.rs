//! `cargo xtask bench verdicts`: slows down one resource at a time, and checks that hakobu reports it as the limit.

mod page;
mod results;
mod stages;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

use super::preparation::{Preparation, write};
use super::session::say;
use super::slow_hosts::SlowHosts;
use super::sources::BenchSource;
use results::{VerdictsResults, VerdictsRow, VerdictsRun};
use stages::{STAGES, SlowStage};

/// The required share of correct verdicts.
const RIGHT_LEAST: f64 = 0.95;

/// The arguments of `bench verdicts`.
#[derive(Debug, Args)]
pub struct VerdictsArgs {
    /// How often each stage is slowed down
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    runs: u16,
    /// Only stages whose key contains this; the others keep the figures that are in the results
    #[arg(long, value_name = "SUBSTRING")]
    stage: Option<String>,
    /// Only one large file, or only a tree
    #[arg(long, value_name = "CONTENT", value_parser = ["file", "tree"])]
    content: Option<String>,
    /// Exit with 1 when fewer than 95 % are right
    #[arg(long)]
    check: bool,
    /// Where the results go, as .json and .md [default: docs/benchmarks with 10 runs or more, else target/bench]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to try [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Runs the bench.
///
/// # Errors
/// Returns an error if a stage cannot be set up or a run fails.
pub fn run(args: &VerdictsArgs) -> Result<()> {
    let wanted =
        |stage: &&SlowStage| args.stage.as_ref().is_none_or(|part| stage.key.contains(part.as_str()));
    let stages: Vec<_> = STAGES.iter().filter(wanted).collect();
    ensure!(!stages.is_empty(), "no stage has that in its key");
    let prepared = Preparation::new(args.program.as_deref())?;
    let output = prepared.output(args.output.as_deref(), args.runs >= 10);
    let mut results = earlier(&output)?;
    for stage in stages {
        for (name, source) in [("file", stage.file), ("tree", stage.tree)] {
            if args.content.as_ref().is_some_and(|wanted| wanted != name) {
                continue;
            }
            let row = VerdictsRow {
                key: stage.key.to_owned(),
                content: name.to_owned(),
                verdict: stage.verdict.to_owned(),
                machine: prepared.machine.clone(),
                hakobu: prepared.hakobu.clone(),
                runs: tried(&prepared, stage, source, args.runs).with_context(|| stage.title)?,
            };
            say(&format!("{} ({name}): {} of {} right", stage.title, row.right(), row.runs.len()));
            results.rows.retain(|known| known.key != row.key || known.content != row.content);
            results.rows.push(row);
            // Keep the results so far, even if a later stage fails.
            let place = |row: &VerdictsRow| STAGES.iter().position(|stage| stage.key == row.key);
            results.rows.retain(|row| place(row).is_some());
            results.rows.sort_by_key(|row| (row.content.clone(), place(row)));
            write(&output, "verdicts", &results, &[("md", page::page(&results))])?;
        }
    }
    say(&page::tables(&results));
    let (right, all) = results::right_of_all(&results.rows);
    ensure!(!args.check || right as f64 >= RIGHT_LEAST * all as f64, "{right} of {all} are right");
    Ok(())
}

/// Runs hakobu `runs` times with one resource slowed down.
fn tried(
    prepared: &Preparation,
    stage: &SlowStage,
    source: BenchSource,
    runs: u16,
) -> Result<Vec<VerdictsRun>> {
    let scratch = &prepared.scratch;
    let mut hosts = SlowHosts::up(scratch, &prepared.program, (stage.slow, stage.network), source)?;
    let mut tried = Vec::new();
    for _ in 0..runs {
        scratch.go_on()?;
        hosts.fresh()?;
        let run = read(&hosts.copy()?.report)?;
        say(&format!("  {} {:.0} %, {:.1} s", run.said, run.share * 100.0, run.seconds));
        tried.push(run);
    }
    drop(hosts);
    scratch.forget(source);
    Ok(tried)
}

/// Extracts the verdict from a report.
fn read(report: &Value) -> Result<VerdictsRun> {
    ensure!(report["outcome"] == "done", "the run failed: {}{:#}", report["error"], report["failures"]);
    let limit = &report["bottleneck"];
    let shares = |of: &Value| serde_json::from_value(of.clone()).unwrap_or_default();
    Ok(VerdictsRun {
        said: limit["stage"].as_str().context("a report without a verdict")?.to_owned(),
        share: limit["share"].as_f64().unwrap_or(0.0),
        seconds: report["seconds"]["transfer"].as_f64().unwrap_or(0.0),
        bytes_per_second: report["throughput_bytes_per_second"].as_u64().unwrap_or(0),
        resources: shares(&limit["resources"]),
        stages: shares(&limit["stages"]),
        file_server: limit.get("file_server").filter(|server| !server.is_null()).cloned(),
    })
}

/// Returns the earlier results, so that stages can be measured one at a time.
fn earlier(output: &Path) -> Result<VerdictsResults> {
    let path = output.join("verdicts.json");
    match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).with_context(|| path.display().to_string()),
        Err(_) => Ok(VerdictsResults {
            schema: "hakobu.bench/1".into(),
            bench: "verdicts".into(),
            rows: Vec::new(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bench::machine::Machine;

    fn said(said: &str) -> VerdictsRun {
        let report = json!({"outcome": "done", "bottleneck": {"stage": said, "share": 0.5, "resources": {"network": 1}},
            "seconds": {"transfer": 4.25}, "throughput_bytes_per_second": 7});
        read(&report).unwrap()
    }

    #[test]
    fn a_report_is_read_and_one_that_failed_is_none() {
        let run = said("network");
        assert_eq!(
            (run.said.as_str(), run.share, run.seconds, run.bytes_per_second),
            ("network", 0.5, 4.25, 7)
        );
        assert_eq!(run.resources["network"], 1.0);
        assert!(read(&json!({"outcome": "failed"})).is_err() && read(&json!({"outcome": "done"})).is_err());
    }

    #[test]
    fn other_verdicts_are_counted() {
        let runs = ["scan", "network", "scan", "idle"].map(said).into();
        let row = VerdictsRow {
            key: "network".into(),
            content: "tree".into(),
            verdict: "network".into(),
            machine: Machine::default(),
            hakobu: "hakobu 1".into(),
            runs,
        };
        assert_eq!((row.right(), row.seconds()), (1, 4.25));
        assert_eq!(row.otherwise(), [("idle", 1), ("scan", 2)].into());
        let page = page::page(&VerdictsResults { rows: vec![row], ..VerdictsResults::default() });
        assert!(page.contains("1 of 4") && page.contains("idle (1), scan (2)"), "{page}");
    }
}
