//! `cargo xtask bench fleet`: brokers side by side, `serve` beside `hakobu copy`, hard links, units and calls by the second.

mod api_load;
mod beside_copy;
mod hard_links;
mod page;
mod process_meter;
mod results;
mod scaling;
mod served;
mod unit_load;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};

use super::machine::Machine;
use super::preparation::{Preparation, write};
use super::session::say;
use results::{FleetBenchResults, FleetRow};

/// The divisor of sizes and durations under `--quick`.
const QUICK_DIVISOR: u64 = 20;

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FleetPart {
    /// 1, 2, 4 and 8 brokers on a tree whose operations take long
    Brokers,
    /// One broker beside `hakobu copy`
    Copy,
    /// Files with two names each, by four brokers
    Links,
    /// Many units a second
    Units,
    /// Many calls a second
    Calls,
}

/// A fleet: its speed with more brokers, its cost, its limits (takes root, /dev/fuse, 8 GiB of memory; 1 hour)
#[derive(Debug, Args)]
pub struct FleetBenchArgs {
    /// Only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    parts: Vec<FleetPart>,
    /// How often copies are measured
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Duration of an operation at the source of the brokers, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 5)]
    delay_ms: u64,
    /// Connections of each broker, so that not the processors limit the brokers
    #[arg(long, value_name = "N", default_value_t = 8)]
    lanes: u16,
    /// Files that the brokers copy
    #[arg(long, value_name = "N", default_value_t = 200_000)]
    files: u64,
    /// Sizes and durations divided by 20: to try the bench, not to judge by
    #[arg(long)]
    quick: bool,
    /// Exit with 1 when a row is not what it must be
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// Where the results go, as fleet.json and fleet.md [default: docs/benchmarks; target/bench when not all is measured]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Runs the bench. Exits with code 1 if `--check` finds a row that is not what it must be.
///
/// # Errors
/// Returns an error if something cannot be measured, or the user interrupts.
pub fn run(args: &FleetBenchArgs) -> Result<()> {
    let prepared = Preparation::new(args.program.as_deref())?;
    let bench = FleetBench { prepared: &prepared, args };
    let output = prepared.output(args.output.as_deref(), !args.quick && args.parts.is_empty());
    let mut rows: Vec<FleetRow> = Vec::new();
    for part in FleetPart::value_variants() {
        if !args.parts.is_empty() && !args.parts.contains(part) {
            continue;
        }
        prepared.scratch.go_on()?;
        rows.extend(match part {
            FleetPart::Brokers => bench.brokers()?,
            FleetPart::Copy => bench.beside_copy()?,
            FleetPart::Links => bench.hard_links()?,
            FleetPart::Units => bench.units()?,
            FleetPart::Calls => bench.calls()?,
        });
        // After each part, so that nothing is lost if a later one fails.
        let results = FleetBenchResults {
            schema: "hakobu.bench/1",
            bench: "fleet",
            quick: args.quick,
            machine: Machine::look(&prepared.workspace),
            hakobu: prepared.hakobu.clone(),
            rows: rows.clone(),
        };
        write(&output, "fleet", &results, &[("md", page::page(&results))])?;
    }
    prepared.say_end(&output);
    let off: Vec<&FleetRow> = rows.iter().filter(|row| !row.is_met()).collect();
    off.iter().for_each(|row| say(&format!("not met: {}: {}", row.title, row.shown())));
    ensure!(!args.check || off.is_empty(), "some rows are not what they must be");
    Ok(())
}

struct FleetBench<'a> {
    prepared: &'a Preparation,
    args: &'a FleetBenchArgs,
}

impl FleetBench<'_> {
    fn sized(&self, whole: u64) -> u64 {
        if self.args.quick { whole.div_ceil(QUICK_DIVISOR) } else { whole }
    }
}
