//! `cargo xtask bench probe`: compares the predictions of `hakobu probe` with the times of `hakobu copy`, under one
//! limit at a time.

mod limits;
mod page;
mod results;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;

use super::machine::{Machine, load};
use super::session::say;
use super::sources::Source;
use super::workshop::Workshop;
use super::world::FAR_BIN;
use super::{peers, workspace};
use limits::{LIMITS, Limit, Work};
use results::{FILE_WITHIN, Pair, Results, RowResult, TREE_WITHIN};
use stage::{Ran, Stage};

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
    let started = Instant::now();
    let (workspace, target_dir) = workspace::directories()?;
    let built = workspace::program(args.program.as_deref(), &workspace, &target_dir)?;
    let wanted = |limit: &&Limit| {
        let text = format!("{} {}", limit.key, limit.title).to_lowercase();
        args.rows.as_deref().is_none_or(|substring| text.contains(&substring.to_lowercase()))
    };
    let limits: Vec<&Limit> = LIMITS.iter().filter(wanted).collect();
    if limits.is_empty() {
        bail!("no limit has that in its key or title");
    }
    let output = args.output.clone().unwrap_or_else(|| match args.quick {
        true => target_dir.join("bench"),
        false => workspace.join("docs/benchmarks"),
    });
    let shop = Workshop::open(&target_dir)?;
    let program = shop.tools().join("hakobu-measured");
    fs::copy(&built, &program).with_context(|| format!("copying {}", built.display()))?;
    shop.link(FAR_BIN, "hakobu", &program)?;
    let machine = Machine::look(&workspace);
    let hakobu =
        peers::version(&[&program.to_string_lossy(), "--version"], Path::new("")).unwrap_or_default();
    let mut results = Results {
        schema: "hakobu.bench/1",
        bench: "probe",
        quick: args.quick,
        machine,
        hakobu,
        rows: Vec::new(),
    };
    let earlier = if args.merge { earlier(&output) } else { Vec::new() };
    for limit in limits {
        let bench = Bench { shop: &shop, program: &program, args };
        results.rows.extend(bench.measure(limit)?);
        // Write after each limit, so that nothing is lost if a later one fails.
        let known = |row: &RowResult| results.rows.iter().any(|new| new.key == row.key);
        let mut rows: Vec<RowResult> = earlier.iter().filter(|row| !known(row)).cloned().collect();
        rows.extend(results.rows.iter().cloned());
        rows.sort_by_key(|row| LIMITS.iter().position(|limit| limit.key == row.key));
        write(
            &Results { rows, machine: Machine::look(&workspace), hakobu: results.hakobu.clone(), ..results },
            &output,
        )?;
    }
    say(&format!("{:.0} s; results in {}", started.elapsed().as_secs_f64(), output.display()));
    let off: Vec<String> = results.rows.iter().filter(|row| !row.is_within()).map(page::shortfall).collect();
    off.iter().for_each(|line| say(&format!("too far off: {line}")));
    if args.check && !off.is_empty() {
        std::process::exit(1);
    }
    Ok(())
}

/// Returns the rows of the existing results.
fn earlier(output: &Path) -> Vec<RowResult> {
    let text = fs::read_to_string(output.join("probe.json")).unwrap_or_default();
    let all: Value = serde_json::from_str(&text).unwrap_or_default();
    serde_json::from_value(all["rows"].clone()).unwrap_or_default()
}

fn write(results: &Results, output: &Path) -> Result<()> {
    fs::create_dir_all(output).with_context(|| format!("making {}", output.display()))?;
    let json = serde_json::to_string_pretty(results)? + "\n";
    for (extension, text) in [("json", json), ("md", page::page(results))] {
        let path = output.join(format!("probe.{extension}"));
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

struct Bench<'a> {
    shop: &'a Workshop,
    program: &'a Path,
    args: &'a ProbeBenchArgs,
}

impl Bench<'_> {
    /// Measures all copies under one limit.
    fn measure(&self, limit: &'static Limit) -> Result<Vec<RowResult>> {
        let mut rows = Vec::new();
        for work in limit.works {
            let work = work.smaller(if self.args.quick { QUICK_DIVISOR } else { 1 });
            say(&format!("{}: {}", limit.title, work.words()));
            let mut new = match work {
                Work::File { .. } => vec![RowResult::new(limit, &work.words(), FILE_WITHIN)],
                Work::Tree { .. } => vec![
                    RowResult::new(limit, &format!("{}, first copy", work.words()), TREE_WITHIN),
                    RowResult::new(limit, &format!("{}, nothing to do", work.words()), TREE_WITHIN),
                ],
            };
            if let Err(error) = self.pairs(limit, work, &mut new) {
                self.shop.go_on()?;
                let why = self.shop.scrub(&format!("{error:#}"));
                say(&format!("  failed: {why}"));
                new.iter_mut().for_each(|row| row.failed = Some(why.clone()));
            }
            rows.extend(new);
        }
        Ok(rows)
    }

    fn pairs(&self, limit: &'static Limit, work: Work, rows: &mut [RowResult]) -> Result<()> {
        let source: Source = work.source();
        let made = self.shop.source(source)?;
        self.shop.warm(2 * source.memory_bytes())?;
        let stage = Stage::up(self.shop, self.program, limit, &made, source)?;
        for round in 0..self.args.rounds {
            self.shop.go_on()?;
            stage.fresh()?;
            let load = load();
            let probe = stage.hakobu(&["probe", "--json"])?;
            let made: Value = serde_json::from_slice(&probe.printed).context("reading the prediction")?;
            let made = &made["prediction"];
            let add = |row: &mut RowResult, span: &Value, ran: &Ran| -> Result<()> {
                let predicted_seconds = span["seconds"].as_f64().context("there is no prediction")?;
                let pair = Pair {
                    predicted_seconds,
                    came_seconds: ran.seconds,
                    predicted_limit: span["limited_by"].as_str().unwrap_or_default().to_owned(),
                    reported_limit: ran.limit.clone(),
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
            stage.cold()?;
            let copied = stage.copy()?;
            match rows {
                [file] => add(file, &made["file"]["span"], &copied)?,
                [first, again] => {
                    add(first, &made["tree"]["first_copy"], &copied)?;
                    stage.cold()?;
                    add(again, &made["tree"]["unchanged"], &stage.copy()?)?;
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
        let pair = |predicted_seconds| Pair {
            predicted_seconds,
            came_seconds: 10.0,
            predicted_limit: String::new(),
            reported_limit: None,
            probe_seconds: 1.0,
            load: 0.0,
        };
        let mut row = RowResult::new(&LIMITS[0], "work", 0.2);
        assert!(!row.is_within());
        row.pairs = [30.0, 11.9, 9.0].map(pair).to_vec();
        assert_eq!((row.median(), row.is_within()), (Some(1.19), true));
        row.pairs.push(pair(12.5));
        assert!(!row.is_within());
    }
}
