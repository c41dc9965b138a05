//! `cargo xtask torture`: runs hakobu under hostile conditions, checked by an oracle that shares no code with it.
//!
//! ```text
//! cargo build --release
//! cargo xtask torture --seconds 180                   fresh seeds for three minutes, on all processors
//! cargo xtask torture --seeds 1..500                  these seeds
//! cargo xtask torture --seed 144                      one again, and what is wrong with it
//! cargo xtask torture --replay target/torture/seed-144/history.json
//! cargo xtask torture --stores --seconds 180          with an object store in each history
//! cargo xtask torture --fleet --seconds 180           with a fleet in each history
//! cargo xtask torture --self-check --program PATH     is each planted fault found?
//! ```
//!
//! # Procedure
//!
//! A seed becomes a history ([`history`]): trees ([`generate`], in terms of [`model`]), hakobu commands ([`step`]),
//! mutations in between ([`mutate`]) and faults ([`misfortune`]). Its setting is two file systems ([`file_systems`]),
//! and the hosts and the transport between them ([`route`]). [`play`] creates the trees ([`realize`]) and inspects both
//! sides before and after each step with its own system calls ([`walk`]). The expected target is predicted from the
//! documents ([`promise`], with [`select`] for filters) and compared with the result ([`check`]). After each step come
//! a verification, which must report what the oracle finds, and a second run, which must change nothing. A run with a
//! fault may leave old or new entries under final names and nothing else, and repeating the command must repair
//! everything.
//!
//! Some runs list their changes (`--itemize`, `--json`, `--log-file`). What the lists say is compared with both
//! inspections of the target ([`itemization`]): everything that changed is listed, nothing else is, and the list of a
//! killed run tells no lie. Some histories have a target with little space ([`scarcity`]), of which a ballast takes a
//! part ([`headroom`]). The oracle sums up the space that a step needs ([`space`]): what fits must arrive, what does not
//! fit must end as the documents say and leave old files as they were, and everything must arrive once there is room.
//!
//! Some sources and targets are object stores, with `--stores` one or both of each history: versitygw (S3), Azurite and
//! fake-gcs-server, each behind a proxy that delays, refuses, spoils, loses and cuts requests and answers, and makes pages
//! of listings short ([`environment`]). The oracle reads objects and the metadata that the book describes
//! ([`object_walk`], [`object_fields`], [`key_names`]), from the files of versitygw and with requests of its own from the
//! others. Another program changes objects in between, and during runs ([`mutate_objects`]). Steps with `from_store` copy
//! the target back to a tree of this machine. In both cases the promise begins with the store as the oracle saw it: a tree
//! for a store that is the source is made as files and copied there by hakobu.
//!
//! In some histories, with `--fleet` in all, a fleet carries out most steps ([`fleet_history`], [`fleet_step`]): nats-server,
//! a control plane and three brokers with leases of two seconds. Its limits slow runs down, so that units are divided and
//! faults hit them: processes of the fleet are killed, stopped and started again, and streams deleted. The promise is that of
//! the command without a fault, and each entry is counted once. Fleets and plain commands take turns on one target.
//!
//! A history that fails is shrunk ([`shrink`]) and written to a directory as a script of plain commands
//! ([`script`]), with `history.json` for `--replay`, next to the same of the whole history (`whole-…`).
//!
//! The oracle is written from README.md, the book and the design notes only. Where they leave something open, the
//! expectation allows any result ([`unpromised::UnpromisedProperties`], `vague`, `loose`), with a comment. Violations that
//! are passed over are in [`known_violations`], each with its reason.
//!
//! # Extending it
//!
//! - **A step**, or an option of one: add a field of [`step::Step`] with `#[serde(default)]`, its arguments in
//!   `Step::options`, its probability in `step::random`, its effect on the promise in [`promise`], and a line in
//!   `plainer_steps` of [`shrink`].
//! - **A mutation**: add a variant of [`mutate::Mutation`], its effect in `mutate::apply` (nothing if its path does not
//!   fit), its probability in `mutate::random`, and its shell command in `change` of [`script`]. The oracle inspects
//!   the result, so nothing else has to know the mutation.
//! - **A fault**: see [`environment`]; then choose it in [`misfortune`].
//! - **A transport** or an endpoint: see [`route`].
//! - **A fault of a fleet**: add a variant of `FleetFault`, its effect in `act` of `environment/fleet/run.rs`, and its
//!   probability in [`fleet_step`]. An option that fleets refuse is removed in `Step::fit_fleet`.
//! - **A list of changes**: add its option in `step::choose_lists`, and the reading of its format in [`itemization`].
//! - **A store**: add a variant of `TortureStoreKind`, its names in [`object_fields`] and [`key_names`], and its name in
//!   [`file_systems`].
//! - **A file system with little space**: add it as one below, and its name to `LITTLE_SPACE` of [`file_systems`].
//! - **A file system**, or a lie of one: see [`environment`]; then add its name in [`file_systems`].
//! - **Content, names, attributes**: see [`generate`]. A new threshold of the code goes into `THRESHOLDS`.
//!
//! ## An example: the option `--min-size`
//!
//! Suppose that `copy --min-size` is new. The book says "only files of this size or more; what the limits leave out
//! stays at the target".
//!
//! 1. `step.rs`: add `pub sizes: Option<(u64, u64)>` with its comment; in `Step::options` the argument `--min-size=…B`;
//!    in `choose_what_takes_part` a probability of six percent: `step.sizes = Some((least, most))`. `as_verify` keeps
//!    the field, since `verify` has the option too.
//! 2. `select.rs`: in `takes`, a file of another size does not take part. This concerns the source only, so
//!    `may_remove` does not consult it.
//! 3. `shrink.rs`: add `|step| step.sizes = None`, so that an unrelated failure loses the option.
//! 4. `cargo xtask torture --seeds 1..300 --plain` must pass. Then break `takes` by one byte and see it fail: an oracle
//!    that cannot fail is useless.
//!
//! If a result is a violation but right according to the documents, the promise is wrong: fix it, and name the sentence
//! that it follows in a comment.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

mod abilities;
mod base64;
mod check;
mod command;
mod counts;
pub mod environment;
mod file_systems;
mod fleet_history;
mod fleet_step;
mod generate;
mod headroom;
mod history;
mod itemization;
mod key_names;
mod known_violations;
mod misfortune;
mod model;
mod mutate;
mod mutate_objects;
mod object_fields;
mod object_walk;
mod page;
mod play;
mod promise;
mod realize;
mod rng;
mod route;
mod scarcity;
mod script;
mod select;
mod self_check;
mod shell_word;
mod shrink;
mod space;
mod step;
#[cfg(test)]
mod tests;
mod unpromised;
mod walk;

use counts::Counts;
use file_systems::Pool;
use history::History;
use play::{HistoryFailure, PlayOptions};

/// Run the program under hostile conditions, and compare what it does with what it promises
#[derive(Debug, Args)]
pub struct TortureArgs {
    /// The program
    #[arg(long, value_name = "PATH", default_value = "target/release/hakobu")]
    program: PathBuf,
    /// These seeds: FIRST..LAST, both included
    #[arg(long, value_name = "RANGE")]
    seeds: Option<String>,
    /// This seed only, and say what happens
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
    /// Fresh seeds for so many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Plant known faults, one at a time, and show that each is found: the program has to be built with `--features planted-faults`
    #[arg(long)]
    self_check: bool,
    /// Only the planted faults with this in their names
    #[arg(long, value_name = "NAME", requires = "self_check")]
    only: Option<String>,
    /// Write a page of what was done
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// A history that was written down
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// So many histories at a time [default: as many as there are processors]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Go on until so many histories have failed
    #[arg(long, value_name = "N", default_value_t = 5)]
    failures: u64,
    /// Where failures are written to
    #[arg(long, value_name = "FOLDER", default_value = "target/torture")]
    folder: PathBuf,
    /// Leave the trees where they are
    #[arg(long)]
    keep: bool,
    /// Only plain folders of this machine: no mounts, no hosts, no faults
    #[arg(long)]
    plain: bool,
    /// Only histories with an object store
    #[arg(long)]
    stores: bool,
    /// Only histories with a fleet
    #[arg(long, conflicts_with_all = ["plain", "stores"])]
    fleet: bool,
    /// Do not cut failures down
    #[arg(long)]
    no_shrink: bool,
}

/// Runs the task.
pub fn run(args: &TortureArgs) -> anyhow::Result<()> {
    let program =
        args.program.canonicalize().with_context(|| format!("the program {}", args.program.display()))?;
    let options = PlayOptions { program, keep: args.keep, plant: None };
    let counts = Counts::default();
    if let Some(file) = &args.replay {
        let history: History =
            serde_json::from_slice(&std::fs::read(file)?).context("reading the history")?;
        return one(&history, &options, &counts);
    }
    if let Some(seed) = args.seed {
        return one(&of_seed(seed, args), &options, &counts);
    }
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    if args.self_check {
        if !self_check::is_prepared(&options.program) {
            bail!("build the program with: cargo build -p hakobu --features planted-faults");
        }
        return self_check::run(&options, jobs, args.only.as_deref());
    }
    let began = Instant::now();
    let (first, last) = range(args)?;
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let next = AtomicU64::new(first);
    let stop = AtomicBool::new(false);
    let talk = Mutex::new(());
    std::thread::scope(|scope| {
        for worker in 0..jobs {
            let (next, stop, talk, counts, options) = (&next, &stop, &talk, &counts, &options);
            scope.spawn(move || {
                let mut pool = match Pool::new(&worker.to_string(), &options.program) {
                    Ok(pool) => pool,
                    Err(error) => return println!("worker {worker}: {error:#}"),
                };
                while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    let history = of_seed(seed, args);
                    let outcome = match play::play(&history, options, &mut pool, counts) {
                        Ok(None) => continue,
                        Ok(Some(failure)) => failure,
                        Err(error) => {
                            // This says nothing about hakobu, so it is no violation. It is counted, since a test of
                            // nothing else would be worthless.
                            counts.set_aside.fetch_add(1, Ordering::Relaxed);
                            println!("seed {seed} is set aside: {error:#}");
                            continue;
                        }
                    };
                    let number = counts.violations.fetch_add(1, Ordering::Relaxed) + 1;
                    if number >= args.failures {
                        stop.store(true, Ordering::Relaxed);
                    }
                    let (history, failure) = if args.no_shrink {
                        (history, outcome)
                    } else {
                        // A failure that depends on timing may not recur, or look different.
                        if let Err(error) = write_down(&args.folder, "whole-", &history, &outcome) {
                            println!("seed {seed}: writing it down failed: {error:#}");
                        }
                        let scrap = Counts::default();
                        let play = |history: &History| {
                            play::play(history, options, &mut pool, &scrap).ok().flatten()
                        };
                        shrink::shrink(history, outcome, play)
                    };
                    let written = write_down(&args.folder, "", &history, &failure);
                    let _turn = talk.lock();
                    match written {
                        Ok(folder) => tell(seed, &failure, &folder),
                        Err(error) => println!("seed {seed}: writing it down failed: {error:#}"),
                    }
                }
            });
        }
    });
    println!("{}", counts.summary());
    if let Some(file) = &args.output {
        let seeds = (first, next.into_inner().saturating_sub(1).min(last));
        page::write(file, &counts, &options.program, seeds, began.elapsed())?;
    }
    let violations = counts.violations.load(Ordering::Relaxed);
    let (played, set_aside) =
        (counts.histories.load(Ordering::Relaxed), counts.set_aside.load(Ordering::Relaxed));
    if violations == 0 && (played == 0 || set_aside * 10 > played) {
        bail!(
            "{played} histories were played, and {set_aside} could not be: that says nothing of the program"
        );
    }
    if violations > 0 {
        bail!("{violations} histories failed; each is in {}", args.folder.display());
    }
    Ok(())
}

fn of_seed(seed: u64, args: &TortureArgs) -> History {
    let mut rng = rng::Rng::new(seed.rotate_left(32));
    let mut setting = file_systems::random(&mut rng, args.plain);
    if args.stores {
        setting = setting.with_stores(&mut rng);
    }
    if args.fleet || fleet_history::is_chosen(seed, &setting) {
        return fleet_history::history(seed, &setting);
    }
    history::of_seed(seed, setting)
}

fn range(args: &TortureArgs) -> anyhow::Result<(u64, u64)> {
    if let Some(text) = &args.seeds {
        let (first, last) = text.split_once("..").context("--seeds takes FIRST..LAST")?;
        return Ok((first.parse()?, last.parse()?));
    }
    if args.seconds.is_none() {
        bail!("say --seeds FIRST..LAST, --seed SEED or --seconds SECONDS");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    Ok((now.as_millis() as u64 * 1000, u64::MAX))
}

fn one(history: &History, options: &PlayOptions, counts: &Counts) -> anyhow::Result<()> {
    let mut pool = Pool::new("one", &options.program)?;
    match play::play(history, options, &mut pool, counts)? {
        None => println!("as promised: {}", counts.summary()),
        Some(failure) => {
            for violation in &failure.violations {
                println!("{violation}");
            }
            println!("{}", failure.said);
            bail!("event {} of seed {} is not as promised", failure.event, history.seed);
        }
    }
    Ok(())
}

fn write_down(
    folder: &Path,
    prefix: &str,
    history: &History,
    failure: &HistoryFailure,
) -> anyhow::Result<PathBuf> {
    let folder = folder.join(format!("seed-{}", history.seed));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(format!("{prefix}history.json")), serde_json::to_string_pretty(history)?)?;
    std::fs::write(folder.join(format!("{prefix}script.sh")), script::of(history, failure))?;
    let words: Vec<String> = failure.violations.iter().map(ToString::to_string).collect();
    std::fs::write(
        folder.join(format!("{prefix}failure.txt")),
        format!("{}\n\n{}\n", words.join("\n"), failure.said),
    )?;
    Ok(folder)
}

fn tell(seed: u64, failure: &HistoryFailure, folder: &Path) {
    println!("seed {seed}: {}", folder.join("script.sh").display());
    for violation in failure.violations.iter().take(3) {
        println!("    {}", violation.to_string().chars().take(300).collect::<String>());
    }
}
