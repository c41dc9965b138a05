//! `cargo xtask torture`: plays a hostile world against the real program, with an oracle that shares no code with it.
//!
//! **What happens.** A seed becomes a [`history`]: trees ([`generate`]), steps of hakobu ([`step`]) and mutations in between
//! ([`mutate`]), in a setting ([`place`]). [`play`] makes the trees real ([`realize`]), and looks at both sides before and after each
//! step with system calls of its own ([`walk`]). What the target has to be then is predicted from the documents ([`promise`], with
//! [`select`] for filters), and compared ([`check`]). A history that fails is cut down ([`shrink`]) and written as a script of plain
//! commands ([`script`]).

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;

mod check;
mod command;
mod counts;
mod generate;
pub mod ground;
mod history;
mod known;
mod model;
mod mutate;
mod place;
mod play;
mod promise;
mod realize;
mod rng;
mod script;
mod select;
mod shrink;
mod step;
mod walk;

use counts::Counts;
use history::History;
use play::{Failure, Stage};

/// Play a hostile world against the program, and compare what it does with what it promises
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
    /// Do not cut failures down
    #[arg(long)]
    no_shrink: bool,
}

/// Runs the task.
pub fn run(args: &TortureArgs) -> anyhow::Result<()> {
    let program =
        args.program.canonicalize().with_context(|| format!("the program {}", args.program.display()))?;
    let stage = Stage { program, keep: args.keep, plant: None };
    let counts = Counts::default();
    if let Some(file) = &args.replay {
        let history: History =
            serde_json::from_slice(&std::fs::read(file)?).context("reading the history")?;
        return one(&history, &stage, &counts);
    }
    if let Some(seed) = args.seed {
        return one(&of_seed(seed), &stage, &counts);
    }
    let (first, last) = range(args)?;
    let until = args.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let next = AtomicU64::new(first);
    let stop = AtomicBool::new(false);
    let talk = Mutex::new(());
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    std::thread::scope(|scope| {
        for worker in 0..jobs {
            let (next, stop, talk, counts, stage) = (&next, &stop, &talk, &counts, &stage);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed > last {
                        return;
                    }
                    let history = of_seed(seed);
                    let outcome = play::play(&history, stage, &worker.to_string(), counts);
                    let Some(outcome) = outcome.transpose() else { continue };
                    let number = counts.violations.fetch_add(1, Ordering::Relaxed) + 1;
                    if number >= args.failures {
                        stop.store(true, Ordering::Relaxed);
                    }
                    let told = outcome.and_then(|failure| {
                        let scrap = Counts::default();
                        let play = |history: &History| {
                            play::play(history, stage, &worker.to_string(), &scrap).ok().flatten()
                        };
                        let (history, failure) = if args.no_shrink {
                            (history, failure)
                        } else {
                            shrink::shrink(history, failure, play)
                        };
                        let folder = write_down(&args.folder, &history, &failure)?;
                        Ok((failure, folder))
                    });
                    let _turn = talk.lock();
                    match told {
                        Ok((failure, folder)) => tell(seed, &failure, &folder),
                        Err(error) => println!("seed {seed}: the harness failed: {error:#}"),
                    }
                }
            });
        }
    });
    println!("{}", counts.summary());
    let violations = counts.violations.load(Ordering::Relaxed);
    if violations > 0 {
        bail!("{violations} histories failed; each is in {}", args.folder.display());
    }
    Ok(())
}

fn of_seed(seed: u64) -> History {
    history::of_seed(seed, place::random(&mut rng::Rng::new(seed.rotate_left(32))))
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

fn one(history: &History, stage: &Stage, counts: &Counts) -> anyhow::Result<()> {
    match play::play(history, stage, "one", counts)? {
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

fn write_down(folder: &Path, history: &History, failure: &Failure) -> anyhow::Result<PathBuf> {
    let folder = folder.join(format!("seed-{}", history.seed));
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("history.json"), serde_json::to_string_pretty(history)?)?;
    std::fs::write(folder.join("script.sh"), script::of(history, failure))?;
    let words: Vec<String> = failure.violations.iter().map(ToString::to_string).collect();
    std::fs::write(folder.join("failure.txt"), format!("{}\n\n{}\n", words.join("\n"), failure.said))?;
    Ok(folder)
}

fn tell(seed: u64, failure: &Failure, folder: &Path) {
    println!("seed {seed}: {}", folder.join("script.sh").display());
    for violation in failure.violations.iter().take(3) {
        println!("    {}", violation.to_string().chars().take(300).collect::<String>());
    }
}
