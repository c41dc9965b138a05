//! `cargo xtask bench large`: measures processor time and memory per entry, and the time until the first file, in trees
//! of ten thousand to five million entries on ext4.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hakobu_measure::generate::{self, SizeDistribution, TreeSpec};
use hakobu_measure::process::{MeasuredCommand, peak_rss_bytes};
use hakobu_measure::statistics::median;
use serde::Serialize;

use super::ext4_disk::Ext4Disk;
use super::machine::Machine;
use super::markdown::machine_line;
use super::preparation::{Preparation, write};
use super::scratch_space::{ScratchSpace, remove};
use super::session::say;
use crate::table::MarkdownTable;

/// The number of inodes of the file system, and its size in bytes, little of which is used.
const INODES: u64 = 12_500_000;
const IMAGE_BYTES: u64 = 14 << 30;
/// The requirements.
const MEMORY_MAX_MIB: f64 = 300.0;
const MEMORY_GROWTH_MAX: f64 = 1.1;
const FIRST_MAX_SECONDS: f64 = 1.0;
const PROCESSOR_GROWTH_MAX: f64 = 1.2;
/// The divisor of the trees' sizes under `--quick`.
const QUICK_DIVISOR: u64 = 50;

/// A tree of empty files.
struct LargeTree {
    key: &'static str,
    files: u64,
    directories: u64,
    second_names: u64,
    rounds: usize,
}

const TREES: [LargeTree; 4] = [
    LargeTree { key: "small", files: 10_000, directories: 100, second_names: 200, rounds: 11 },
    LargeTree { key: "million", files: 1_000_000, directories: 10_000, second_names: 20_000, rounds: 3 },
    LargeTree { key: "flat", files: 1_000_000, directories: 0, second_names: 0, rounds: 3 },
    LargeTree { key: "large", files: 5_000_000, directories: 50_000, second_names: 100_000, rounds: 3 },
];

/// The arguments of `bench large`.
#[derive(Debug, Args)]
pub struct LargeArgs {
    /// Exit with 1 when something is not as it must be
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// Trees a fiftieth as large: to try the bench, not to judge by
    #[arg(long)]
    quick: bool,
    /// Where the results go, as large.json and large.md [default: docs/benchmarks; with --quick target/bench]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// All results of the bench.
#[derive(Debug, Serialize)]
struct LargeResults {
    schema: &'static str,
    quick: bool,
    machine: Machine,
    trees: Vec<LargeTreeResult>,
}

#[derive(Debug, Serialize)]
struct LargeTreeResult {
    key: &'static str,
    files: u64,
    directories: u64,
    second_names: u64,
    copies: Vec<LargeRun>,
    /// A `sync` of the unchanged tree after each copy.
    again: Vec<LargeRun>,
}

/// The kernel's measurements of one run.
#[derive(Debug, Clone, Copy, Serialize)]
struct LargeRun {
    seconds: f64,
    /// Processor time of all threads per entry, in microseconds.
    processor_us: f64,
    memory_mib: f64,
    /// The time until the first file appeared at the target, if one was noticed. Not measured for `sync`.
    first_seconds: Option<f64>,
}

/// A requirement and the measured value.
struct LimitCheck {
    what: &'static str,
    found: f64,
    at_most: f64,
    unit: &'static str,
}

/// Runs the bench.
///
/// # Errors
/// Returns an error without root, enough memory or the tools of ext4, if a run fails, or if the user interrupts.
pub fn run(args: &LargeArgs) -> Result<()> {
    let prepared = Preparation::new(args.program.as_deref())?;
    let (scratch, program) = (&prepared.scratch, &prepared.program);
    let inodes = INODES.to_string();
    let disk = Ext4Disk::new(scratch, "large", IMAGE_BYTES, &["-m", "0", "-N", &inodes])?;
    let divisor = if args.quick { QUICK_DIVISOR } else { 1 };
    let mut trees = Vec::new();
    for tree in &TREES {
        trees.push(measure(scratch, disk.at(), program, tree, divisor)?);
    }
    drop(disk);
    let machine = prepared.machine.clone();
    let results = LargeResults { schema: "hakobu.bench.large/1", quick: args.quick, machine, trees };
    let demands = results.demands()?;
    let output = prepared.output(args.output.as_deref(), !args.quick);
    write(&output, "large", &results, &[("md", results.page(&demands, &prepared.hakobu))])?;
    println!("{}", table(&demands));
    ensure!(!args.check || demands.iter().all(LimitCheck::is_met), "not all is as it must be");
    Ok(())
}

fn measure(
    scratch: &ScratchSpace,
    at: &Path,
    program: &Path,
    tree: &LargeTree,
    divisor: u64,
) -> Result<LargeTreeResult> {
    let [files, directories, second_names] =
        [tree.files, tree.directories, tree.second_names].map(|count| count / divisor);
    say(&format!("{}: {files} files", tree.key));
    let [source, target] = ["source", "target"].map(|name| at.join(name));
    let size = SizeDistribution::Fixed(0);
    let spec = TreeSpec { files, directories, size, hard_links: second_names, ..TreeSpec::default() };
    generate::tree(&source, &spec).context("making the tree")?;
    let entries = files + directories + second_names;
    let (mut copies, mut again) = (Vec::new(), Vec::new());
    for round in 0..tree.rounds {
        scratch.go_on()?;
        remove(&target);
        settle()?;
        copies.push(once(program, "copy", &source, &target, entries)?);
        settle()?;
        again.push(once(program, "sync", &source, &target, entries)?);
        let (copy, again) = (copies[round], again[round]);
        say(&format!("  {:.2} s, {:.2} us; again {:.2} s", copy.seconds, copy.processor_us, again.seconds));
    }
    let same =
        Command::new(program).args(["verify", "-q"]).args([slashed(&source), slashed(&target)]).status()?;
    ensure!(same.success(), "the target is not as the source, {same}");
    remove(&source);
    remove(&target);
    Ok(LargeTreeResult { key: tree.key, files, directories, second_names, copies, again })
}

/// Writes out dirty data and drops the kernel's cache of names and inodes. The cache could not hold those of the large
/// tree, so a small tree that stays cached would not be comparable.
fn settle() -> Result<()> {
    const NAMES_AND_INODES: &str = "2";
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", NAMES_AND_INODES).context("having the kernel forget inodes")
}

fn once(program: &Path, verb: &str, source: &Path, target: &Path, entries: u64) -> Result<LargeRun> {
    let mut command = Command::new(program);
    command.args([verb, "-q"]).args([slashed(source), slashed(target)]).stdin(Stdio::null());
    let copies = verb == "copy";
    let (started, mut first_seconds, mut memory_bytes) = (Instant::now(), None, 0);
    let running = MeasuredCommand::start(&mut command)?;
    loop {
        let looks = copies && first_seconds.is_none();
        let pause = Duration::from_millis(if looks { 2 } else { 20 });
        if running.ended_within(pause)? {
            break;
        }
        // The figure that the kernel returns at exit includes the memory of this process before `exec`.
        memory_bytes = memory_bytes.max(peak_rss_bytes(running.pid()).unwrap_or(0));
        if looks && has_file(target) {
            first_seconds = Some(started.elapsed().as_secs_f64());
        }
    }
    let measured = running.finish()?;
    ensure!(measured.status.success(), "hakobu {verb} failed, {}", measured.status);
    Ok(LargeRun {
        seconds: measured.wall.as_secs_f64(),
        processor_us: measured.cpu().as_secs_f64() * 1e6 / entries as f64,
        memory_mib: memory_bytes as f64 / f64::from(1 << 20),
        first_seconds,
    })
}

/// Returns true if there is a file anywhere below a directory. Drafts do not count.
fn has_file(directory: &Path) -> bool {
    let mut below = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => below.push(entry.path()),
            Ok(kind) if kind.is_file() => {
                let is_draft = entry.file_name().as_encoded_bytes().starts_with(b".hakobu.");
                if !is_draft {
                    return true;
                }
            }
            _ => {}
        }
    }
    below.iter().any(|path| has_file(path))
}

fn slashed(path: &Path) -> PathBuf {
    path.join("")
}

impl LimitCheck {
    fn is_met(&self) -> bool {
        self.found <= self.at_most
    }
}

impl LargeTreeResult {
    fn medians(&self, of: impl Fn(&LargeRun) -> f64) -> [f64; 2] {
        [&self.copies, &self.again]
            .map(|runs| median(&runs.iter().map(&of).collect::<Vec<_>>()).unwrap_or(f64::NAN))
    }

    fn most(&self, of: impl Fn(&LargeRun) -> f64) -> f64 {
        self.copies.iter().chain(&self.again).map(of).fold(0.0, f64::max)
    }

    fn first_seconds(&self) -> f64 {
        // If no file was noticed, the run had already ended.
        let all: Vec<f64> = self.copies.iter().map(|run| run.first_seconds.unwrap_or(run.seconds)).collect();
        median(&all).unwrap_or(f64::NAN)
    }
}

impl LargeResults {
    fn demands(&self) -> Result<Vec<LimitCheck>> {
        let tree = |key| self.trees.iter().find(|tree| tree.key == key);
        let (Some(small), Some(million), Some(large)) = (tree("small"), tree("million"), tree("large"))
        else {
            bail!("a tree was not measured");
        };
        let most =
            |measure: &dyn Fn(&LargeTreeResult) -> f64| self.trees.iter().map(measure).fold(0.0, f64::max);
        let memory = |run: &LargeRun| run.memory_mib;
        let [small, larger] = [small, large].map(|tree| tree.medians(|run| run.processor_us));
        let (growth, at_most) = (|index: usize| larger[index] / small[index], PROCESSOR_GROWTH_MAX);
        Ok(vec![
            LimitCheck {
                what: "the most memory",
                found: most(&|tree| tree.most(memory)),
                at_most: MEMORY_MAX_MIB,
                unit: "MiB",
            },
            LimitCheck {
                what: "memory of the large tree, against the one of a million",
                found: large.most(memory) / million.most(memory),
                at_most: MEMORY_GROWTH_MAX,
                unit: "times",
            },
            LimitCheck {
                what: "until the first file is at the target, the longest",
                found: most(&LargeTreeResult::first_seconds),
                at_most: FIRST_MAX_SECONDS,
                unit: "s",
            },
            LimitCheck {
                what: "processor time for each entry of the large tree, against the small one: first copy",
                found: growth(0),
                at_most,
                unit: "times",
            },
            LimitCheck { what: "the same, nothing changed", found: growth(1), at_most, unit: "times" },
        ])
    }

    fn page(&self, demands: &[LimitCheck], hakobu: &str) -> String {
        let mut trees = MarkdownTable::new([
            "files",
            "directories",
            "second names",
            "rounds",
            "first copy",
            "for each entry",
            "first file after",
            "again",
            "for each entry",
            "memory",
        ]);
        for tree in &self.trees {
            let ([copy, again], [copy_us, again_us]) =
                (tree.medians(|run| run.seconds), tree.medians(|run| run.processor_us));
            let counts = [tree.files, tree.directories, tree.second_names, tree.copies.len() as u64];
            let figures = [
                format!("{copy:.2} s"),
                format!("{copy_us:.1} us"),
                format!("{:.3} s", tree.first_seconds()),
                format!("{again:.2} s"),
                format!("{again_us:.1} us"),
                format!("{:.1} MiB", tree.most(|run| run.memory_mib)),
            ];
            trees.push(counts.map(|count| count.to_string()).into_iter().chain(figures));
        }
        format!(
            "# Trees of many entries\n\nMade by `cargo xtask bench large`; it writes all rounds to `large.json`.\n\n\
             {}\n{}\n## How it is measured\n\n{METHOD}\n{trees}",
            machine_line(&self.machine, hakobu),
            table(demands)
        )
    }
}

const METHOD: &str = "\
Empty files, from and to one ext4 in memory. A tree is copied to where nothing is, and brought up to date when nothing has
changed; before each run the kernel writes what it has to and forgets names and inodes, as it could not keep those of the large
tree. Processor time is of all threads, the kernel's included,
and divided by all entries; a figure is the median of the rounds, memory the most of any (`VmHWM`). At the end all of it is
compared.
";

fn table(demands: &[LimitCheck]) -> MarkdownTable {
    let mut table = MarkdownTable::new(["what", "found", "at most", "verdict"]);
    for demand in demands {
        let LimitCheck { what, found, at_most, unit } = demand;
        let verdict = if demand.is_met() { "met" } else { "**missed**" };
        table.push([
            (*what).to_owned(),
            format!("{found:.2} {unit}"),
            format!("{at_most} {unit}"),
            verdict.to_owned(),
        ]);
    }
    table
}
