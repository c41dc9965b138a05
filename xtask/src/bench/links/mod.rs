//! `cargo xtask bench links`: compares `hakobu copy` with default settings against the best of a grid of fixed
//! settings, over a grid of emulated links.

mod cell;
mod changes;
mod grid;
mod page;
mod results;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use hakobu_measure::generate::{self, FileSpec, SizeDistribution, TreeSpec, available_threads};

use super::machine::Machine;
use super::preparation::{Preparation, write};
use super::session::say;
use super::sources::GIB;
use cell::{CellContext, CellResult, measure};
use changes::ChangeResults;
use grid::Cell;
use results::LinksResults;

const KEY: &str = "links";
const SCHEMA: &str = "hakobu.bench-links/1";
/// The size of the large file in bytes: more than a link of 1 Gbit/s transfers in 15 s at this compression.
const FILE_BYTES: u64 = 4 * GIB;
const SMALL_FILES: u64 = 10_000;
const SMALL_DIRECTORIES: u64 = 100;
const SMALL_BYTES: u64 = 8 << 10;
/// The compressibility of the data: it compresses to half.
const COMPRESSIBILITY: f64 = 0.5;

/// Measure default settings against a grid of fixed ones, over emulated links
#[derive(Debug, Args)]
pub struct LinksArgs {
    /// Only cells whose name contains this: "1000 Mbit/s, 20 ms", "cubic", "small files"; several are possible
    #[arg(long, value_name = "SUBSTRING")]
    cells: Vec<String>,
    /// No cells, but lines that lose with each further connection or change their rate (8 minutes)
    #[arg(long, conflicts_with = "cells")]
    changes: bool,
    /// When a run is ended
    #[arg(long, value_name = "SECONDS", default_value_t = 15.0)]
    seconds: f64,
    /// So many cells of 100 Mbit/s are measured at once; faster ones always alone
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    together: u8,
    /// Exit with 1 when a cell or the median is below what it must reach
    #[arg(long)]
    check: bool,
    /// Where the results go, as .json, .md and .svg; those of other cells that are there stay [default: target/bench]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Runs the subcommand. Exits with code 1 if `--check` finds a cell below the requirement.
///
/// # Errors
/// Returns an error if nothing can be measured or the user interrupts. Cells measured until then have been written.
pub fn run(args: &LinksArgs) -> Result<()> {
    let chosen: Vec<Cell> = Cell::all().into_iter().filter(|cell| is_chosen(args, cell)).collect();
    ensure!(!chosen.is_empty(), "no cell has that in its name");
    ensure!(args.seconds >= 1.0, "a run takes a second at least");
    let prepared = Preparation::new(args.program.as_deref())?;
    let scratch = &prepared.scratch;
    let output = prepared.output(args.output.as_deref(), false);
    let store = ResultStore::open(&output, prepared.machine.clone())?;
    let mut context = CellContext {
        scratch,
        program: &prepared.program,
        file: scratch.memory().join("file"),
        tree: scratch.memory().join("tree"),
        limit: Duration::from_secs_f64(args.seconds),
        together: usize::from(args.together),
    };
    make_sources(&context)?;
    let measured = if args.changes {
        changes::measure(&context, store.machine.commit.clone())
            .and_then(|changes| store.add_changes(changes))
    } else {
        let (slow, fast): (Vec<Cell>, Vec<Cell>) = chosen.into_iter().partition(Cell::is_slow);
        measure_all(&context, &slow, &store).and_then(|()| {
            context.together = 1;
            measure_all(&context, &fast, &store)
        })
    };
    let results = store.results();
    println!("{}", page::summary(&results.cells));
    prepared.say_end(&output);
    measured?;
    ensure!(!args.check || page::is_enough(&results), "a cell or the median is below what it must reach");
    Ok(())
}

fn is_chosen(args: &LinksArgs, cell: &Cell) -> bool {
    let name = cell.to_string();
    args.cells.is_empty() || args.cells.iter().any(|wanted| name.contains(wanted.as_str()))
}

fn make_sources(context: &CellContext<'_>) -> Result<()> {
    let threads = available_threads();
    // Longer runs use more of the file.
    let size_bytes = (FILE_BYTES as f64 * context.limit.as_secs_f64() / 15.0) as u64;
    let spec = FileSpec { size_bytes, seed: 1, compressibility: COMPRESSIBILITY, threads };
    generate::file(&context.file, spec).context("making the file")?;
    let spec = TreeSpec {
        files: SMALL_FILES,
        directories: SMALL_DIRECTORIES,
        fanout: SMALL_DIRECTORIES,
        size: SizeDistribution::Fixed(SMALL_BYTES),
        compressibility: COMPRESSIBILITY,
        ..TreeSpec::default()
    };
    generate::tree(&context.tree, &spec).context("making the tree")?;
    context.scratch.warm(size_bytes)
}

/// Measures cells, as many at once as requested.
fn measure_all(context: &CellContext<'_>, cells: &[Cell], store: &ResultStore) -> Result<()> {
    let waiting = Mutex::new(cells.iter());
    let next = || waiting.lock().ok().and_then(|mut cells| cells.next());
    let work = || -> Result<()> {
        while let Some(cell) = next() {
            let measured =
                measure(context, cell, store.machine.commit.clone()).with_context(|| cell.to_string())?;
            say(&format!("{cell}: {:.2} of {}", measured.ratio(), measured.best));
            store.add(measured)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..context.together.min(cells.len())).map(|_| scope.spawn(work)).collect();
        let ends = workers.into_iter().map(|worker| worker.join().unwrap_or(Ok(())));
        ends.collect::<Vec<_>>().into_iter().collect()
    })
}

/// The results, written after each cell because a grid takes long.
struct ResultStore {
    output: PathBuf,
    machine: Machine,
    measured: Mutex<(Vec<CellResult>, Option<ChangeResults>)>,
}

impl ResultStore {
    /// Loads the earlier results.
    fn open(output: &Path, machine: Machine) -> Result<Self> {
        let path = output.join(format!("{KEY}.json"));
        let measured = match fs::read(&path) {
            Err(_) => (Vec::new(), None),
            Ok(text) => {
                let before: LinksResults = serde_json::from_slice(&text)
                    .with_context(|| format!("{} is no result of this bench", path.display()))?;
                ensure!(before.schema == SCHEMA, "{} is of another version", path.display());
                (before.cells, before.changes)
            }
        };
        Ok(Self { output: output.to_owned(), machine, measured: Mutex::new(measured) })
    }

    fn add(&self, measured: CellResult) -> Result<()> {
        if let Ok(mut all) = self.measured.lock() {
            all.0.retain(|other| other.cell != measured.cell);
            all.0.push(measured);
        }
        self.write()
    }

    fn add_changes(&self, changes: ChangeResults) -> Result<()> {
        if let Ok(mut all) = self.measured.lock() {
            all.1 = Some(changes);
        }
        self.write()
    }

    fn write(&self) -> Result<()> {
        let results = self.results();
        write(&self.output, KEY, &results, &[("md", page::page(&results)), ("svg", page::chart(&results))])
    }

    fn results(&self) -> LinksResults {
        let (mut cells, changes) = self.measured.lock().map(|all| all.clone()).unwrap_or_default();
        let order = Cell::all();
        cells.sort_by_key(|measured| order.iter().position(|cell| *cell == measured.cell));
        LinksResults { schema: SCHEMA.to_owned(), machine: self.machine.clone(), cells, changes }
    }
}
