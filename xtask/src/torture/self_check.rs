//! `--self-check`: shows that the harness can fail. Plants known faults one at a time, in a program that was built for
//! it, and requires that each is found.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::bail;

use super::counts::Counts;
use super::environment::fuse::Lies;
use super::environment::plants::{PLANTS, Plant};
use super::file_systems::{self, HistorySetting, Pool};
use super::fleet_history;
use super::history::{self, History};
use super::play::{self, PlayOptions};
use super::rng::Rng;
use super::route::Route;
use super::scarcity;

/// The time within which each fault must be found.
const TIME_MAX: Duration = Duration::from_secs(120);

/// Plants each fault in turn, and reports the number of histories until it was found. `only` selects faults by a part
/// of their name.
pub fn run(options: &PlayOptions, jobs: usize, only: Option<&str>) -> anyhow::Result<()> {
    let mut missed = Vec::new();
    for plant in PLANTS.iter().filter(|plant| only.is_none_or(|only| plant.name.contains(only))) {
        let options = PlayOptions { plant: Some(plant.name.to_owned()), ..options.clone() };
        let began = Instant::now();
        let (histories, found) = hunt(plant, &options, jobs);
        let seconds = began.elapsed().as_secs_f64();
        match found {
            Some(words) => {
                println!("{:<24} found after {histories} histories, {seconds:.1} s: {words}", plant.name);
            }
            None => {
                println!(
                    "{:<24} NOT FOUND in {histories} histories, {seconds:.1} s: {}",
                    plant.name, plant.what
                );
                missed.push(plant.name);
            }
        }
    }
    if !missed.is_empty() {
        bail!("not found: {}", missed.join(", "));
    }
    Ok(())
}

fn hunt(plant: &Plant, options: &PlayOptions, jobs: usize) -> (u64, Option<String>) {
    let (next, done) = (AtomicU64::new(1), AtomicBool::new(false));
    let counts = Counts::default();
    let found = std::sync::Mutex::new(None);
    let until = Instant::now() + TIME_MAX;
    std::thread::scope(|scope| {
        for worker in 0..jobs {
            let (next, done, counts, found) = (&next, &done, &counts, &found);
            scope.spawn(move || {
                let Ok(mut pool) = Pool::new(&format!("check{worker}"), &options.program) else { return };
                while !done.load(Ordering::Relaxed) && Instant::now() < until {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let history = of_seed(seed, plant.name);
                    let Ok(Some(failure)) = play::play(&history, options, &mut pool, counts) else {
                        continue;
                    };
                    // The finding counts only if the same history passes without the planted fault.
                    let sound = PlayOptions { plant: None, ..options.clone() };
                    if let Ok(None) = play::play(&history, &sound, &mut pool, counts) {
                        done.store(true, Ordering::Relaxed);
                        if let Ok(mut found) = found.lock() {
                            *found = failure.violations.first().map(ToString::to_string);
                        }
                    }
                }
            });
        }
    });
    (next.into_inner() - 1, found.into_inner().ok().flatten())
}

/// Returns a random history. Those on plain directories find most faults; four faults need a certain setting.
fn of_seed(seed: u64, plant: &str) -> History {
    let mut rng = Rng::new(seed.rotate_left(32));
    match plant {
        "early-end-accepted" => {
            let lies = Lies { early_eof: true, one_in: 2, ..Lies::default() };
            let source = format!("fuse:{}", serde_json::to_string(&lies).unwrap_or_default());
            history::of_seed(seed, HistorySetting { source, target: "tmpfs".to_owned(), route: Route::Local })
        }
        "resume-trusts-source" => {
            let [source, target] = ["tmpfs", "tmpfs"].map(str::to_owned);
            history::resumed(seed, HistorySetting { source, target, route: Route::Local })
        }
        "sparse-space-counted" => {
            let [source, target] = ["tmpfs", "smalltmpfs"].map(str::to_owned);
            scarcity::history(seed, &HistorySetting { source, target, route: Route::Local })
        }
        "given-units-lost" | "ranges-lost" => {
            fleet_history::history(seed, &file_systems::random(&mut rng, true))
        }
        _ => history::of_seed_within(seed, file_systems::random(&mut rng, true), 9 << 20),
    }
}

/// Returns true if a program has faults to plant.
pub fn is_prepared(program: &Path) -> bool {
    let ran =
        std::process::Command::new(program).arg("--version").env("HAKOBU_PLANT", "no such fault").output();
    ran.is_ok_and(|ran| !ran.status.success())
}
