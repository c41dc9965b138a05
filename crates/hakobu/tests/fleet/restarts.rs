//! A control plane with a broker of its own that is asked to end in the middle of runs, and started again under load.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::control_plane::TestControlPlane;
use crate::logs_and_health::ask;
use crate::small_fleet::{OPERATIONS, entries_of};
use crate::trees;

/// The name of the broker within the control plane.
const BUILT_IN: &str = "built-in";
const RUN_LIMIT: Duration = Duration::from_secs(150);
/// The number of clients that ask all the time.
const CLIENTS: usize = 4;

/// Clients that ask the control plane all the time, wherever it is.
struct Load {
    address: Arc<Mutex<Option<std::net::SocketAddr>>>,
    is_over: Arc<AtomicBool>,
    answers: Arc<AtomicU64>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start() -> Self {
        let (address, is_over, answers) = <(Arc<Mutex<_>>, Arc<AtomicBool>, Arc<AtomicU64>)>::default();
        let client = |_| {
            let (address, is_over, answers) = (address.clone(), is_over.clone(), answers.clone());
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let at: Option<std::net::SocketAddr> = *address.lock().unwrap();
                    let status = at.map_or(0, |at| ask(at, "/readyz").0);
                    match status {
                        0 => std::thread::sleep(Duration::from_millis(5)),
                        _ => drop(answers.fetch_add(1, Ordering::Relaxed)),
                    }
                }
            })
        };
        let threads = (0..CLIENTS).map(client).collect();
        Self { address, is_over, answers, threads }
    }

    fn ask_at(&self, control: &TestControlPlane) {
        *self.address.lock().unwrap() = Some(control.address());
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.threads.drain(..).for_each(|thread| thread.join().unwrap());
    }
}

/// Makes a tree. Returns it with the place for its copy.
fn pair(place: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (source, target) = (place.join(format!("{name}.source")), place.join(format!("{name}.target")));
    fs::create_dir(&source).unwrap();
    trees::make(&source, 20, 60);
    (source, target)
}

#[test]
fn a_control_plane_that_is_asked_to_end_goes_on_when_it_is_started_again() {
    let place = TempDir::with_prefix_in("hakobu-fleet.", "/dev/shm").unwrap();
    let mut control = TestControlPlane::start(&place.path().join("control"), &["--slots", "2"]);
    let load = Load::start();
    load.ask_at(&control);
    let trees = ["one", "two"].map(|name| pair(place.path(), name));
    let runs: Vec<u64> = trees
        .iter()
        .map(|(source, target)| {
            control.limit("groups/local", Some(OPERATIONS));
            let run = control.copy("local", source, target);
            control.limit(&format!("runs/{run}"), Some(OPERATIONS));
            run
        })
        .collect();
    control.limit("groups/local", None);
    let mut begun = 0;
    for _ in 0..3 {
        for run in &runs {
            control.wait_for_run(*run, "work", |view| entries_of(view, BUILT_IN) > 0);
        }
        // Those that it told of last, and those since: at most as many as operations are allowed in a second.
        let held = |run: &u64| entries_of(&control.run(*run), BUILT_IN) + u64::from(OPERATIONS);
        begun += runs.iter().map(held).sum::<u64>();
        control.end();
        control.restart();
        load.ask_at(&control);
    }
    let mut again = 0;
    for (run, (source, target)) in runs.iter().zip(&trees) {
        control.limit(&format!("runs/{run}"), None);
        let view = control.finish(*run, RUN_LIMIT);
        assert_eq!((&view["state"], &view["failures"]), (&"complete".into(), &0.into()), "{view:#}");
        assert_eq!(view["units"]["added"], view["units"]["committed"], "{view:#}");
        trees::assert_equal(source, target);
        let count = |name: &str| view["counters"][name].as_u64().unwrap();
        let twice = ["entries_updated", "entries_unchanged", "entries_attributes_only"];
        let twice: u64 = twice.iter().map(|name| count(name)).sum();
        assert_eq!(count("entries_created") + twice, trees::paths(source).len() as u64, "{view:#}");
        again += twice;
    }
    let answers = load.answers.load(Ordering::Relaxed);
    println!("{again} entries again of at most {begun}, {answers} answers meanwhile");
    assert!(again <= begun, "{again} entries again, of at most {begun}");
    assert!(answers > 100, "{answers} answers: there was no load");
    let (code, said) = control.fleet("status");
    assert_eq!(code, 0, "{said}");
    let log: Value = control.client.get("/api/v1/runs").unwrap();
    assert_eq!(log["items"].as_array().unwrap().len(), 2, "no run was started twice");
}
