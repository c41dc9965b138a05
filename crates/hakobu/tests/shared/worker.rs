//! A process that runs units: this program of tests once more, with pipes instead of a terminal.

use std::io::{Write, stdin, stdout};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hakobu_core::event::NoObserver;
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryShare, DirectorySlice, NameShare, WorkDemand, WorkExchange, WorkShare,
};
use hakobu_core::live_limits::LiveLimits;
use hakobu_core::location::Location;
use hakobu_core::outcome::RunEnvironment;
use hakobu_core::pace::RunLimits;
use hakobu_core::prompts::NoPrompts;
use hakobu_core::request::CopyRequest;
use hakobu_core::target_lease::TargetLease;
use hakobu_transfer::shared_run::{SharedRun, boot_time_ns};

use crate::share_text;

/// Names the variable that makes this test a worker.
pub const IS_WORKER: &str = "HAKOBU_TEST_WORKER";
/// The number of entries after which a unit gives the rest away.
const ENTRIES_ENOUGH: u64 = 60;

/// A unit as the ledger has sent it.
struct SentUnit {
    lease: TargetLease,
    takes_names: bool,
    completes: bool,
    shares: Option<Vec<WorkShare>>,
}

/// The exchange of one unit.
struct Unit {
    begins: Mutex<Option<Vec<WorkShare>>>,
    sent: SentUnit,
    lines: Mutex<Vec<String>>,
}

impl Unit {
    fn add(&self, shares: impl Iterator<Item = WorkShare>) {
        self.lines.lock().unwrap().extend(shares.map(|share| share_text::line(&share)));
    }
}

impl WorkExchange for Unit {
    fn begin(&self) -> Option<Vec<WorkShare>> {
        self.begins.lock().unwrap().take()
    }

    fn demand(&self, entries: u64, _bytes: u64) -> WorkDemand {
        if entries > ENTRIES_ENOUGH { WorkDemand::All } else { WorkDemand::Nothing }
    }

    fn give(&self, shares: Vec<DirectoryShare>) {
        self.add(shares.into_iter().map(WorkShare::Directory));
    }

    fn slice_demand(&self, entries: u64) -> WorkDemand {
        self.demand(entries, 0)
    }

    fn give_slices(&self, slices: Vec<DirectorySlice>) {
        self.add(slices.into_iter().map(WorkShare::Slice));
    }

    fn takes_names(&self) -> bool {
        self.sent.takes_names
    }

    fn give_names(&self, names: Vec<NameShare>) {
        self.add(names.into_iter().map(WorkShare::Name));
    }

    fn leave_open(&self, directories: Vec<DirectoryEnd>) {
        self.add(directories.into_iter().map(WorkShare::End));
    }

    fn lease(&self) -> &TargetLease {
        &self.sent.lease
    }

    fn completes(&self) -> bool {
        self.sent.completes
    }
}

/// Reads units, and prolongs leases meanwhile.
fn read_units() -> Receiver<SentUnit> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut lines = stdin().lines().map_while(Result::ok);
        let mut current: Option<TargetLease> = None;
        while let Some(line) = lines.next() {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["until", end_ns] => {
                    current.iter().for_each(|lease| lease.prolong(end_ns.parse().unwrap()));
                }
                ["unit", key, end_ns, takes_names, completes, shares] => {
                    let key = share_text::bytes(key).try_into().unwrap();
                    let lease = TargetLease::new(key, boot_time_ns, end_ns.parse().unwrap());
                    current = Some(lease.clone());
                    let shares = (shares != "all").then(|| {
                        let count: usize = shares.parse().unwrap();
                        (0..count).map(|_| share_text::share(&lines.next().unwrap()).unwrap()).collect()
                    });
                    let is = |word: &str| word == "true";
                    let (takes_names, completes) = (is(takes_names), is(completes));
                    sender.send(SentUnit { lease, takes_names, completes, shares }).unwrap();
                }
                _ => panic!("{line}"),
            }
        }
    });
    receiver
}

/// Runs units until standard input ends, if it is a worker.
#[test]
fn worker() {
    let Ok(setting) = std::env::var(IS_WORKER) else { return };
    let words: Vec<&str> = setting.split(' ').collect();
    let [source, target, ssh, agent, operations] = words[..] else { panic!("{setting}") };
    let location = |word: &str| Location::parse(&share_text::bytes(word)).unwrap();
    let text = |word: &str| String::from_utf8(share_text::bytes(word)).unwrap();
    let request = CopyRequest {
        sources: vec![location(source)],
        target: location(target),
        ssh: text(ssh).split(' ').map(Into::into).collect(),
        agent: Some(text(agent).into()).filter(|agent: &std::path::PathBuf| !agent.as_os_str().is_empty()),
        ..CopyRequest::default()
    };
    let mut run = SharedRun::new(request).unwrap();
    let limits = RunLimits {
        operations_per_second: operations.parse().ok().filter(|n| *n > 0),
        ..RunLimits::default()
    };
    let mut environment = RunEnvironment {
        prompts: &mut NoPrompts,
        observer: &NoObserver,
        cancel: Arc::default(),
        limits: Arc::new(LiveLimits::new(limits, Instant::now)),
    };
    for mut sent in read_units() {
        let begins = Mutex::new(sent.shares.take());
        let unit = Unit { begins, sent, lines: Mutex::default() };
        let transfer = run.run(&unit, &mut environment);
        let summary = transfer.summary;
        let mut lines = unit.lines.into_inner().unwrap();
        for failure in &summary.failures {
            lines.push(format!("@failure {} {}", String::from_utf8_lossy(&failure.path), failure.error));
        }
        let counters = &summary.counters;
        lines.push(match summary.fatal {
            Some(error) => format!("@fatal {:?} {error}", error.kind),
            None => format!(
                "@done {} {} {}",
                counters.entries_scanned, counters.entries_created, counters.entries_unchanged
            ),
        });
        let text = lines.join("\n") + "\n";
        stdout().write_all(text.as_bytes()).and_then(|()| stdout().flush()).unwrap();
    }
}
