//! `cargo xtask bench`: measures hakobu side by side with the tools people use today.
//!
//! The net time of a run is the wall-clock time of the whole process less that of the same command on next to nothing.
//! A row's value is the median of the ratios within each round. The methods of a group take turns within a round.

mod content;
mod doctor;
mod earlier_build;
mod ext4_disk;
mod first_file;
mod fleet;
mod goal_quantity;
mod group_data;
mod group_hosts;
mod groups;
mod hosts;
mod judge;
mod killed_run;
mod large;
mod links;
mod load;
mod loops;
mod machine;
mod markdown;
mod memory_meter;
mod own_loopback;
mod peers;
mod preparation;
mod probe;
mod proof;
mod ratios;
mod results;
mod rows;
mod runs;
mod scratch_space;
mod session;
mod slow_hosts;
mod sources;
mod store_server;
mod svg;
mod tuning;
mod verdicts;
mod veth;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};

use group_hosts::GroupHosts;
use judge::RowResult;
use memory_meter::MemoryMeter;
use peers::Peers;
use preparation::{Preparation, write};
use proof::SourceDigests;
use results::{GroupResult, TableResults};
use rows::{BenchMethod, Goal, Group, MEMORY_KEY, MEMORY_TITLE, OURS, Table, TableRow};
use scratch_space::ScratchSpace;
use session::{Session, say};
use sources::BenchSource;

/// The divisor of sizes under `--quick`.
const QUICK_DIVISOR: u64 = 8;
/// The rounds of `--quick` and of groups that are only for information.
const FEW_ROUNDS: usize = 3;
/// The fewest rounds that `--check` accepts.
const CHECK_ROUNDS_LEAST: usize = 7;

/// Measure hakobu beside the tools people use today
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// `hakobu copy` between two hosts on this machine (takes root; 15 minutes)
    Copy(TableArgs),
    /// hakobu and block devices: copies, changes, zeros, interruptions (takes root, 16 GiB of memory; 15 minutes)
    Disks(TableArgs),
    /// hakobu and trees: second runs, changes, removal, attributes, verification (takes root; 15 minutes)
    Trees(TableArgs),
    /// Cost of an entry in trees of up to five million (takes root, 20 GiB of memory; 8 minutes)
    Large(large::LargeArgs),
    /// Where only ssh gets through, or no agent can run: data through ssh, SFTP (takes root; 25 minutes)
    Ways(TableArgs),
    /// To an rsync daemon, over a link that caps each connection (takes root, 10 GiB of memory; 20 minutes)
    Rsync(TableArgs),
    /// hakobu and object stores, beside s5cmd and rclone (takes root, 16 GiB of memory, Go, Python; 40 minutes)
    Stores(TableArgs),
    /// Default settings against a grid of fixed ones, over emulated links (takes root, 12 GiB of memory; 3 hours)
    Links(links::LinksArgs),
    /// One thing made slow at a time: is what hakobu says limits it right? (takes root; 20 minutes)
    Verdicts(verdicts::VerdictsArgs),
    Probe(probe::ProbeBenchArgs),
    /// Predictions of `hakobu doctor` for badly configured hosts, and the measured results (takes root, iperf3; 15
    /// minutes)
    Doctor(doctor::DoctorArgs),
    Fleet(fleet::FleetBenchArgs),
    #[command(hide = true)]
    Load(load::LoadArgs),
    #[command(hide = true)]
    Measured(memory_meter::MeasuredArgs),
}

/// The arguments that every table takes.
#[derive(Debug, Args)]
struct TableArgs {
    /// Exit with 1 when a row is below what it must reach
    #[arg(long, conflicts_with = "quick")]
    check: bool,
    /// Only rows whose key or title contains this
    #[arg(long, value_name = "SUBSTRING")]
    rows: Option<String>,
    /// How often each method is measured
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Sizes divided by 8 and 3 rounds: to try the bench, not to judge by
    #[arg(long)]
    quick: bool,
    /// Also what is never checked: veth, cubic, more tools and settings
    #[arg(long)]
    extra: bool,
    /// Where the results go, as .json, .md and .svg [default: docs/benchmarks; target/bench when not all was
    /// measured]
    #[arg(long, value_name = "DIRECTORY")]
    output: Option<PathBuf>,
    /// The program to measure [default: built from here, release]
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// An earlier build to measure beside it, in the place of all other tools
    #[arg(long, value_name = "PATH", conflicts_with = "extra")]
    before: Option<PathBuf>,
}

/// Runs the subcommand. Exits with code 1 if `--check` finds rows that do not meet their requirements.
///
/// # Errors
/// Returns an error if nothing can be measured or the user interrupts. A method's failure is part of the results.
pub fn run(args: BenchArgs) -> Result<()> {
    match args.command {
        BenchCommand::Copy(args) => table(&groups::copy::TABLE, &args),
        BenchCommand::Disks(args) => table(&groups::disks::TABLE, &args),
        BenchCommand::Trees(args) => table(&groups::trees::TABLE, &args),
        BenchCommand::Large(args) => large::run(&args),
        BenchCommand::Ways(args) => table(&groups::ways::TABLE, &args),
        BenchCommand::Rsync(args) => table(&groups::rsync::TABLE, &args),
        BenchCommand::Stores(args) => table(&groups::stores::TABLE, &args),
        BenchCommand::Links(args) => links::run(&args),
        BenchCommand::Verdicts(args) => verdicts::run(&args),
        BenchCommand::Probe(args) => probe::run(&args),
        BenchCommand::Doctor(args) => doctor::run(&args),
        BenchCommand::Fleet(args) => fleet::run(&args),
        BenchCommand::Load(args) => load::run(&args),
        BenchCommand::Measured(args) => memory_meter::run(&args),
    }
}

/// A group, and the methods and rows of it that were selected.
struct GroupSelection {
    group: &'static Group,
    methods: Vec<&'static BenchMethod>,
    rows: Vec<(&'static TableRow, Vec<Goal>)>,
}

fn table(table: &'static Table, args: &TableArgs) -> Result<()> {
    let rounds = if args.quick { FEW_ROUNDS } else { usize::from(args.rounds) };
    ensure!(!args.check || rounds >= CHECK_ROUNDS_LEAST, "--check takes {CHECK_ROUNDS_LEAST} rounds or more");
    let mut chosen = choose(table, args.rows.as_deref(), args.extra);
    ensure!(!chosen.is_empty(), "no row has that in its key or title");
    let prepared = Preparation::new(args.program.as_deref())?;
    let scratch = &prepared.scratch;
    if let Some(earlier) = &args.before {
        chosen = earlier_build::beside(&chosen, &scratch.take(earlier, "hakobu-before")?);
    }
    let tools = chosen
        .iter()
        .flat_map(|chosen| &chosen.methods)
        .map(|method| method.tool)
        .filter(|tool| *tool != OURS);
    let stores = chosen.iter().filter_map(|chosen| chosen.group.topology.store());
    let tools = tools.chain(stores.map(rows::StoreKind::tool));
    let peers = Peers::ensure(tools.collect::<BTreeSet<_>>(), scratch.installed());
    let meter = MemoryMeter::new(scratch, &prepared.program)?;
    let groups = measure_all(scratch, &meter, &peers, &chosen, args.quick, rounds)?;
    let mut rows: Vec<RowResult> = Vec::new();
    for (chosen, measured) in chosen.iter().zip(&groups) {
        let judged =
            chosen.rows.iter().map(|(row, goals)| judge::row(chosen.group, row, goals, &measured.methods));
        rows.extend(judged);
    }
    rows.push(judge::memory(MEMORY_KEY, MEMORY_TITLE, &groups));
    let results = TableResults {
        schema: "hakobu.bench/1",
        bench: table.key,
        table,
        quick: args.quick,
        machine: prepared.machine.clone(),
        hakobu: prepared.hakobu.clone(),
        tools: peers,
        rows,
        groups,
    };
    let whole = !args.quick && args.rows.is_none() && args.before.is_none() && rounds >= CHECK_ROUNDS_LEAST;
    let output = prepared.output(args.output.as_deref(), whole);
    let texts = [("md", markdown::page(&results)), ("svg", svg::of_results(&results))];
    write(&output, table.key, &results, &texts)?;
    prepared.say_end(&output);
    println!("{}", markdown::table(&results));
    let shortfalls = results.shortfalls();
    shortfalls.iter().for_each(|line| say(&format!("below: {line}")));
    ensure!(!args.check || shortfalls.is_empty(), "some rows are below what they must reach");
    Ok(())
}

/// Returns the selected rows and the methods that they need.
fn choose(table: &Table, substring: Option<&str>, extra: bool) -> Vec<GroupSelection> {
    let wanted = |row: &TableRow| {
        let text = format!("{} {}", row.key, row.title).to_lowercase();
        substring.is_none_or(|substring| text.contains(&substring.to_lowercase()))
    };
    let mut chosen = Vec::new();
    for group in table.groups.iter().filter(|group| extra || !group.extra) {
        let available = |goal: &Goal| match goal.peer {
            Some(peer) => group.method(peer).is_some_and(|method| extra || !method.extra),
            None => true,
        };
        let mut rows: Vec<(&'static TableRow, Vec<Goal>)> = Vec::new();
        for row in group.rows.iter().filter(|row| wanted(row)) {
            let goals: Vec<Goal> = row.goals.iter().copied().filter(available).collect();
            if !goals.is_empty() {
                rows.push((row, goals));
            }
        }
        let mut names: BTreeSet<&str> = BTreeSet::new();
        for (row, goals) in &rows {
            names.insert(row.method);
            names.extend(goals.iter().filter_map(|goal| goal.peer));
        }
        let methods: Vec<&'static BenchMethod> =
            group.methods.iter().filter(|method| names.contains(method.name)).collect();
        if !methods.is_empty() {
            chosen.push(GroupSelection { group, methods, rows });
        }
    }
    chosen
}

/// Measures group after group, and sets up new hosts when their topology differs from that of the last group.
fn measure_all(
    scratch: &ScratchSpace,
    meter: &MemoryMeter<'_>,
    peers: &Peers,
    chosen: &[GroupSelection],
    quick: bool,
    rounds: usize,
) -> Result<Vec<GroupResult>> {
    let mut hosts: Option<GroupHosts> = None;
    let digests = SourceDigests::default();
    let mut measured = Vec::new();
    for (index, GroupSelection { group, methods, .. }) in chosen.iter().enumerate() {
        if hosts.as_ref().is_none_or(|hosts| hosts.topology() != group.topology) {
            // Drop the old one first: both write the same tools.
            drop(hosts.take());
            let up = GroupHosts::up(group.topology, scratch);
            hosts = Some(up.with_context(|| format!("bringing up: {}", group.topology.title()))?);
        }
        let Some(hosts) = &hosts else { bail!("no hosts") };
        let divisor = if quick { QUICK_DIVISOR } else { 1 };
        let rounds = if group.extra { rounds.min(FEW_ROUNDS) } else { rounds };
        let session = Session { scratch, meter, peers, rounds, divisor, digests: &digests };
        measured.push(session.measure(hosts, group, methods)?);
        let next = chosen.get(index + 1).map(|next| next.group.sources()).unwrap_or_default();
        let over = group.sources().into_iter().filter(|source| !next.contains(source));
        over.map(|source| source.smaller(divisor)).for_each(|source: BenchSource| scratch.forget(source));
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::groups::{copy, disks};
    use super::*;

    #[test]
    fn without_a_wish_all_checked_rows_are_there() {
        let rows = |table, extra| {
            let chosen = choose(table, None, extra);
            chosen.iter().flat_map(|chosen| &chosen.rows).map(|(row, _)| row.key).collect::<Vec<_>>()
        };
        let plain = [
            "push",
            "plain",
            "pull",
            "file",
            "tree-ssh",
            "tree-local",
            "again-local",
            "again-all",
            "again-ssh",
            "link-file",
            "link-tree",
        ];
        assert_eq!(rows(&copy::TABLE, false), plain);
        let all = rows(&copy::TABLE, true);
        assert!(all.contains(&"variants") && all.contains(&"cubic-tree"));
        let plain = [
            "push",
            "plain",
            "medium",
            "resume",
            "delta",
            "delta-read",
            "zeros",
            "zeros-over-data",
            "zeros-image",
            "sparse",
            "own-disk",
            "make-data",
        ];
        assert_eq!(rows(&disks::TABLE, false), plain);
    }

    #[test]
    fn a_row_selects_its_methods_and_no_others() {
        let names = |substring, extra| {
            let chosen = choose(&copy::TABLE, Some(substring), extra);
            chosen.iter().flat_map(|chosen| &chosen.methods).map(|method| method.name).collect::<Vec<_>>()
        };
        assert_eq!(names("pull", false), ["hakobu", "hakobu pull"]);
        assert_eq!(names("tree-local", false), ["hakobu", "tar | tar", "cp -a", "rsync -a"]);
        assert_eq!(names("Tree-LOCAL", true), ["hakobu", "tar | tar", "cp -a", "rsync -a", "rclone", "rcp"]);
        assert!(choose(&copy::TABLE, Some("no such row"), true).is_empty());
    }
}
