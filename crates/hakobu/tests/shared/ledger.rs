//! The ledger of a test: it hands units to workers, and keeps the results of those that end without a fatal error.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use hakobu_core::exchange::WorkShare;
use hakobu_transfer::shared_run::boot_time_ns;
use rustix::process::{Pid, Signal, kill_process};

use crate::share_text;
use crate::worker::IS_WORKER;

/// The length of a lease.
const LEASE: Duration = Duration::from_millis(700);
/// The time between renewals.
const RENEWAL: Duration = Duration::from_millis(100);
/// The time limit of a phase.
const LIMIT: Duration = Duration::from_secs(200);

/// The copy that workers share.
#[derive(Clone, Debug)]
pub struct Shared {
    pub source: Vec<u8>,
    pub target: Vec<u8>,
    /// The ssh program with its arguments.
    pub ssh: String,
    /// The agent on the other host.
    pub agent: String,
    /// The limit of operations a second of each worker; 0 for none.
    pub operations: u32,
    pub workers: usize,
    /// The credentials of a store.
    pub environment: Vec<(&'static str, String)>,
}

/// A misfortune of a worker that is busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfortune {
    /// It is killed.
    Kill,
    /// It is stopped until after its lease, and goes on while another has its unit.
    Stop,
}

/// A line of a worker, or its end.
type Told = (usize, Option<String>);

/// The results of the units.
#[derive(Debug, Default)]
pub struct Results {
    pub units: usize,
    /// The number of slices of directories that were given away.
    pub slices: usize,
    /// The numbers of entries that were scanned, created and left unchanged in units that count.
    pub scanned: u64,
    pub created: u64,
    pub unchanged: u64,
    pub killed: usize,
    /// The results of stopped workers, which do not count.
    pub late: Vec<String>,
    pub failures: Vec<String>,
}

#[derive(Clone)]
struct WaitingUnit {
    takes_names: bool,
    completes: bool,
    shares: Option<Vec<WorkShare>>,
}

struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    unit: Option<WaitingUnit>,
    since: Instant,
    /// The moment at which it was stopped.
    stopped: Option<Instant>,
    /// True if its unit was given to another.
    is_late: bool,
    lines: Vec<String>,
}

pub struct Ledger {
    shared: Shared,
    workers: Vec<Worker>,
    told: (Sender<Told>, Receiver<Told>),
    waiting: VecDeque<WaitingUnit>,
    keys: u64,
    misfortunes: VecDeque<(usize, Misfortune)>,
    names: Vec<WorkShare>,
    ends: Vec<WorkShare>,
    pub results: Results,
}

impl Ledger {
    /// Copies everything. Each misfortune comes when that many units have ended.
    pub fn copy(shared: &Shared, misfortunes: &[(usize, Misfortune)]) -> Results {
        let mut ledger = Self {
            shared: shared.clone(),
            workers: Vec::new(),
            told: channel(),
            waiting: VecDeque::new(),
            keys: u64::from(std::process::id()) << 32,
            misfortunes: misfortunes.iter().copied().collect(),
            names: Vec::new(),
            ends: Vec::new(),
            results: Results::default(),
        };
        (0..shared.workers).for_each(|_| ledger.hire());
        ledger.offer(true, false, None);
        ledger.work();
        let mut names: Vec<_> = std::mem::take(&mut ledger.names);
        names.sort_by_key(|name| match name {
            WorkShare::Name(name) => name.inode,
            _ => unreachable!(),
        });
        let inode = |share: &WorkShare| match share {
            WorkShare::Name(name) => Some(name.inode),
            _ => None,
        };
        let groups: Vec<&[WorkShare]> = names.chunk_by(|a, b| inode(a) == inode(b)).collect();
        for pack in groups.chunks(8) {
            ledger.offer(false, false, Some(pack.concat()));
        }
        ledger.work();
        let depth = |share: &WorkShare| match share {
            WorkShare::End(end) => end.place.target.names().count(),
            _ => 0,
        };
        let mut ends = std::mem::take(&mut ledger.ends);
        ends.sort_by_key(|end| std::cmp::Reverse(depth(end)));
        for level in ends.chunk_by(|a, b| depth(a) == depth(b)) {
            for pack in level.chunks(50) {
                ledger.offer(false, pack.len() == 1 && depth(&pack[0]) == 0, Some(pack.to_vec()));
            }
            ledger.work();
        }
        assert!(ledger.misfortunes.is_empty(), "the copy was too short");
        ledger.dismiss();
        std::mem::take(&mut ledger.results)
    }

    fn offer(&mut self, takes_names: bool, completes: bool, shares: Option<Vec<WorkShare>>) {
        self.waiting.push_back(WaitingUnit { takes_names, completes, shares });
    }

    fn hire(&mut self) {
        let Shared { source, target, ssh, agent, operations, environment, .. } = &self.shared;
        let words = [source, target, ssh.as_bytes(), agent.as_bytes()].map(share_text::word);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker::worker", "--nocapture"])
            .env(IS_WORKER, format!("{} {operations}", words.join(" ")))
            .envs(environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (number, told) = (self.workers.len(), self.told.0.clone());
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok).filter(|line| line.starts_with('@')) {
                let _ = told.send((number, Some(line)));
            }
            let _ = told.send((number, None));
        });
        let input = child.stdin.take();
        let (unit, since, stopped) = (None, Instant::now(), None);
        self.workers.push(Worker { child, input, unit, since, stopped, is_late: false, lines: Vec::new() });
    }

    /// Works until nothing is left to do.
    fn work(&mut self) {
        let (began, mut renewed) = (Instant::now(), Instant::now());
        while !self.waiting.is_empty() || self.workers.iter().any(|worker| worker.unit.is_some()) {
            assert!(began.elapsed() < LIMIT, "{:?}", self.results);
            for number in 0..self.workers.len() {
                self.give_unit(number);
            }
            self.bring_misfortune();
            if renewed.elapsed() >= RENEWAL {
                renewed = Instant::now();
                self.renew();
            }
            match self.told.1.recv_timeout(Duration::from_millis(10)) {
                Ok((number, Some(line))) => self.line(number, line),
                Ok((number, None)) => self.lost(number),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!(),
            }
        }
    }

    fn give_unit(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        let is_free = worker.unit.is_none() && !worker.is_late && worker.input.is_some();
        let Some(unit) = self.waiting.pop_front_if(|_| is_free) else { return };
        self.keys += 1;
        let key = share_text::word(&self.keys.to_le_bytes());
        let end_ns = boot_time_ns() + LEASE.as_nanos() as u64;
        let count = unit.shares.as_ref().map_or("all".to_owned(), |shares| shares.len().to_string());
        let mut text = format!("unit {key} {end_ns} {} {} {count}\n", unit.takes_names, unit.completes);
        for share in unit.shares.iter().flatten() {
            text += &share_text::line(share);
            text.push('\n');
        }
        (worker.unit, worker.since) = (Some(unit), Instant::now());
        // Who has been killed meanwhile is noticed by its output.
        let _ = worker.input.as_mut().unwrap().write_all(text.as_bytes());
    }

    fn renew(&mut self) {
        let end_ns = boot_time_ns() + LEASE.as_nanos() as u64;
        for worker in &mut self.workers {
            if let (Some(input), None, true) = (&mut worker.input, worker.stopped, worker.unit.is_some()) {
                let _ = input.write_all(format!("until {end_ns}\n").as_bytes());
            }
            // The lease has ended for certain.
            let has_ended = worker.stopped.is_some_and(|stopped| stopped.elapsed() > LEASE + RENEWAL * 2);
            if let Some(unit) = worker.unit.take_if(|_| has_ended) {
                worker.is_late = true;
                worker.lines.clear();
                self.waiting.push_front(unit);
            }
        }
        // It goes on while another has its unit.
        let has_begun = self.workers.iter().filter(|worker| worker.unit.is_some()).count() > 0;
        for worker in self.workers.iter_mut().filter(|worker| worker.is_late && has_begun) {
            if worker.stopped.is_some_and(|stopped| stopped.elapsed() > LEASE + RENEWAL * 5) {
                worker.stopped = None;
                signal(&worker.child, Signal::CONT);
            }
        }
    }

    fn bring_misfortune(&mut self) {
        let Some((after, misfortune)) = self.misfortunes.front().copied() else { return };
        let is_due = |worker: &&mut Worker| {
            let is_busy = worker.unit.is_some() && worker.stopped.is_none();
            is_busy && worker.since.elapsed() > Duration::from_millis(60)
        };
        if self.results.units < after {
            return;
        }
        let Some(worker) = self.workers.iter_mut().find(is_due) else { return };
        self.misfortunes.pop_front();
        match misfortune {
            Misfortune::Kill => {
                signal(&worker.child, Signal::KILL);
                self.hire();
            }
            Misfortune::Stop => {
                signal(&worker.child, Signal::STOP);
                worker.stopped = Some(Instant::now());
            }
        }
    }

    fn line(&mut self, number: usize, line: String) {
        let worker = &mut self.workers[number];
        let is_end = line.starts_with("@done") || line.starts_with("@fatal");
        worker.lines.push(line);
        if !is_end {
            return;
        }
        let lines = std::mem::take(&mut worker.lines);
        let end = lines.last().unwrap().clone();
        if std::mem::take(&mut worker.is_late) {
            self.results.late.push(end);
            return;
        }
        let Some(unit) = worker.unit.take() else { panic!("{end}") };
        if worker.stopped.take().is_some() {
            // Its unit had ended when it was stopped. Another worker has to be.
            signal(&worker.child, Signal::CONT);
            self.misfortunes.push_front((0, Misfortune::Stop));
        }
        let Some(figures) = end.strip_prefix("@done ") else { panic!("{end}") };
        let figures: Vec<u64> = figures.split(' ').map(|figure| figure.parse().unwrap()).collect();
        self.results.units += 1;
        self.results.scanned += figures[0];
        self.results.created += figures[1];
        self.results.unchanged += figures[2];
        let mut given = Vec::new();
        for line in lines {
            match share_text::share(&line) {
                Some(share @ WorkShare::Directory(_)) => given.push(share),
                Some(share @ WorkShare::Slice(_)) => {
                    self.results.slices += 1;
                    given.push(share);
                }
                Some(share @ WorkShare::Name(_)) => self.names.push(share),
                Some(share @ WorkShare::End(_)) => self.ends.push(share),
                None if line.starts_with("@failure") => self.results.failures.push(line),
                Some(WorkShare::Entry(_) | WorkShare::Range(_) | WorkShare::File(_)) | None => {}
            }
        }
        for shares in given.chunks(3) {
            self.offer(unit.takes_names, false, Some(shares.to_vec()));
        }
    }

    /// Offers the unit of a worker that is gone to others.
    fn lost(&mut self, number: usize) {
        let worker = &mut self.workers[number];
        (worker.input, worker.stopped) = (None, None);
        self.results.killed += 1;
        worker.lines.clear();
        self.waiting.extend(worker.unit.take());
        worker.child.wait().unwrap();
    }

    /// Waits until all workers have ended.
    fn dismiss(&mut self) {
        for worker in &mut self.workers {
            if worker.stopped.is_some() {
                signal(&worker.child, Signal::CONT);
            }
            worker.input = None;
        }
        for worker in &mut self.workers {
            worker.child.wait().unwrap();
        }
        while let Ok((number, line)) = self.told.1.try_recv() {
            self.results.late.extend(line.filter(|line| {
                self.workers[number].is_late && (line.starts_with("@done") || line.starts_with("@fatal"))
            }));
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            let _ = worker.child.kill();
            let _ = worker.child.wait();
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}
