//! Accounts for processor time by process, from the kernel's figures for each process of a run while it lives.
//!
//! A process counts if it began during the run and descends from the command here, or from a new session of the sshd
//! on the host. Processor time between the last look and the end of a process is not seen. The total is still known,
//! because the kernel reports it to the process that waits for the others, so the difference is distributed in
//! proportion. The kernel reports no such total for time spent waiting for a processor, so waiting is assumed to
//! continue at the observed rate. The kernel counts a wait only when it has ended. A wait that lasts, as with an
//! exhausted quota, is recognised by a process that is runnable but makes no progress from one look to the next.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The maximum number of threads of a process up to which each thread is looked at. Processes that are measured here
/// have fewer.
pub const THREADS_MAX: u32 = 256;

/// The minimum interval between two looks in seconds for estimating a rate.
const APART_MIN_S: f64 = 0.1;

/// A process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedProcess {
    /// The process ID.
    pub pid: u32,
    /// The process ID of the parent.
    pub parent: u32,
    /// The name in the kernel.
    pub name: String,
    /// True if the process, or the first of its threads, runs or is ready to run.
    pub is_runnable: bool,
    /// Its own processor time, in ticks.
    pub ticks: u64,
    /// The processor time of the descendants it has waited for, in ticks.
    pub child_ticks: u64,
    /// The start time, in ticks since boot.
    pub began_ticks: u64,
    /// The number of threads.
    pub threads: u32,
    /// The time that its current threads have waited for a processor, as a sum in nanoseconds.
    pub waited_ns: Option<u64>,
}

impl ObservedProcess {
    /// Updates this state from a later look. The wait of threads that have ended is missing from the later sum, so
    /// the maximum is kept.
    fn update(&mut self, later: &Self) {
        let waited_ns = self.waited_ns.max(later.waited_ns);
        let threads = self.threads.max(later.threads);
        *self = Self { waited_ns, threads, ..later.clone() };
    }
}

/// The processes at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessSnapshot {
    /// The processes that may matter.
    pub processes: Vec<ObservedProcess>,
    /// The number of TCP segments retransmitted since boot.
    pub retransmitted: Option<u64>,
}

/// A root whose descendants count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessRoot {
    /// All descendants of this process.
    Process(u32),
    /// The sessions that this server has started: its children that are server processes too.
    Server(u32),
}

/// The resource usage of all processes with one name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessCost {
    /// The process name.
    pub name: String,
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// The time that the processes were runnable without a processor, in seconds, as a sum over their threads. It may
    /// exceed the duration of the run.
    pub waited_seconds: f64,
    /// The maximum number of threads in one of the processes.
    #[serde(default = "one")]
    pub threads: u32,
}

/// A process of the run. Times are in seconds since the start of the run.
#[derive(Debug)]
struct TrackedProcess {
    /// The latest state.
    seen: ObservedProcess,
    /// The time of the first look, and the waiting time by then in nanoseconds.
    first: (f64, u64),
    last_s: f64,
    /// The time since which it has been runnable without progress: a wait that lasts.
    stuck_s: Option<f64>,
    /// The time at which it was found to be gone.
    gone_s: Option<f64>,
}

impl TrackedProcess {
    fn new(seen: &ObservedProcess, at_s: f64) -> Self {
        let first = (at_s, seen.waited_ns.unwrap_or(0));
        let stuck_s = seen.is_runnable.then_some(at_s);
        Self { seen: seen.clone(), first, last_s: at_s, stuck_s, gone_s: None }
    }

    fn look(&mut self, seen: &ObservedProcess, at_s: f64) {
        let state = |seen: &ObservedProcess| (seen.is_runnable, seen.ticks, seen.waited_ns);
        let is_stuck = seen.is_runnable && state(seen) == state(&self.seen);
        self.stuck_s = match self.stuck_s {
            Some(since_s) if is_stuck => Some(since_s),
            _ => seen.is_runnable.then_some(at_s),
        };
        self.seen.update(seen);
        (self.last_s, self.gone_s) = (at_s, None);
    }

    /// Returns the time that its threads waited for a processor in a run of `run_s` seconds. After the last look they
    /// are assumed to have waited at the same rate, unless the process was gone before the run had ended.
    fn waited_s(&self, run_s: f64) -> f64 {
        let lasts_s = self.stuck_s.map_or(0.0, |since_s| self.last_s - since_s);
        let waited_s = self.seen.waited_ns.unwrap_or(0) as f64 / 1e9 + lasts_s;
        let unseen_s = run_s - self.last_s;
        if unseen_s <= 0.0 || self.gone_s.is_some_and(|gone_s| gone_s < run_s) {
            return waited_s;
        }
        let (first_s, first_ns) = self.first;
        let (since_s, before_s) = match self.last_s - first_s >= APART_MIN_S {
            true => (first_s, first_ns as f64 / 1e9),
            false => (0.0, 0.0),
        };
        let share = (waited_s - before_s).max(0.0) / (self.last_s - since_s).max(APART_MIN_S);
        waited_s + unseen_s * share.min(f64::from(self.seen.threads))
    }
}

/// The account of one run at one end.
#[derive(Debug)]
pub struct ProcessUsage {
    roots: Vec<ProcessRoot>,
    before: BTreeSet<(u32, u64)>,
    child_ticks_before: u64,
    child_ticks: u64,
    ours: BTreeMap<(u32, u64), TrackedProcess>,
    looks_s: Vec<f64>,
}

fn one() -> u32 {
    1
}

/// Parses a line of `/proc/PID/stat`.
#[must_use]
pub fn parse_stat(line: &str) -> Option<ObservedProcess> {
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(ObservedProcess {
        pid: pid.trim().parse().ok()?,
        parent: u32::try_from(number(4)?).ok()?,
        name: name.to_owned(),
        is_runnable: fields.first() == Some(&"R"),
        ticks: number(14)?.checked_add(number(15)?)?,
        child_ticks: number(16)?.checked_add(number(17)?)?,
        began_ticks: number(22)?,
        threads: u32::try_from(number(20)?).ok()?,
        waited_ns: None,
    })
}

/// Parses the second number of `schedstat`: nanoseconds in the run queue.
#[must_use]
pub fn parse_waited(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Parses the output of the host's shell for one moment: `P` and a line of `stat`; `W`, a process ID and the waiting
/// time of its threads; `R` and the number of retransmitted segments. Other lines are ignored.
#[must_use]
pub fn parse_moment<'a>(lines: impl IntoIterator<Item = &'a str>) -> ProcessSnapshot {
    let mut moment = ProcessSnapshot::default();
    let mut waited: BTreeMap<u32, u64> = BTreeMap::new();
    for line in lines {
        match line.split_once(' ') {
            Some(("P", stat)) => moment.processes.extend(parse_stat(stat)),
            Some(("W", rest)) => {
                let Some((pid, waited_ns)) = rest.split_once(' ') else { continue };
                if let (Ok(pid), Ok(waited_ns)) = (pid.parse(), waited_ns.trim().parse()) {
                    waited.insert(pid, waited_ns);
                }
            }
            Some(("R", count)) => moment.retransmitted = count.trim().parse().ok(),
            _ => {}
        }
    }
    for seen in &mut moment.processes {
        seen.waited_ns = waited.get(&seen.pid).copied();
    }
    moment
}

/// Parses the number of retransmitted segments in `/proc/net/snmp`.
#[must_use]
pub fn parse_retransmitted(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "RetransSegs")?.1.parse().ok()
}

/// Returns true if this is a process of an ssh server.
#[must_use]
pub fn is_server(name: &str) -> bool {
    name.starts_with("sshd") || name.starts_with("dropbear")
}

impl ProcessUsage {
    /// Creates an account from the processes that exist before the run.
    #[must_use]
    pub fn new(roots: Vec<ProcessRoot>, before: &ProcessSnapshot) -> Self {
        let keys = before.processes.iter().map(|seen| (seen.pid, seen.began_ticks)).collect();
        let waited_for = children_of(&roots, before);
        Self {
            roots,
            before: keys,
            child_ticks_before: waited_for,
            child_ticks: waited_for,
            ours: BTreeMap::new(),
            looks_s: Vec::new(),
        }
    }

    /// Records a moment, `at_s` seconds after the start of the run.
    pub fn look(&mut self, moment: &ProcessSnapshot, at_s: f64) {
        self.child_ticks = self.child_ticks.max(children_of(&self.roots, moment));
        let by_pid: BTreeMap<u32, &ObservedProcess> =
            moment.processes.iter().map(|seen| (seen.pid, seen)).collect();
        for (key, known) in &mut self.ours {
            match by_pid.get(&key.0).filter(|seen| seen.began_ticks == key.1) {
                Some(seen) => known.look(seen, at_s),
                None => known.gone_s = known.gone_s.or(Some(at_s)),
            }
        }
        for seen in &moment.processes {
            let key = (seen.pid, seen.began_ticks);
            if !self.ours.contains_key(&key) && !self.before.contains(&key) && self.descends(seen, &by_pid) {
                self.ours.insert(key, TrackedProcess::new(seen, at_s));
            }
        }
        if !self.is_over(moment) {
            self.looks_s.push(at_s);
        }
    }

    /// Returns the times of the looks that found processes of the run, in seconds since its start.
    #[must_use]
    pub fn looks_s(&self) -> &[f64] {
        &self.looks_s
    }

    /// Returns true if no process of the run is left.
    #[must_use]
    pub fn is_over(&self, moment: &ProcessSnapshot) -> bool {
        moment.processes.iter().all(|seen| !self.ours.contains_key(&(seen.pid, seen.began_ticks)))
    }

    fn descends(&self, seen: &ObservedProcess, by_pid: &BTreeMap<u32, &ObservedProcess>) -> bool {
        let mut at = seen;
        // Process IDs are reused, so a table that is read over time may contain a cycle.
        for _ in 0..64 {
            let parent = at.parent;
            let is_root = |root: &ProcessRoot| match root {
                ProcessRoot::Process(pid) => parent == *pid,
                ProcessRoot::Server(pid) => parent == *pid && is_server(&at.name),
            };
            if self.roots.iter().any(is_root) {
                return true;
            }
            match by_pid.get(&parent) {
                Some(next) if !self.before.contains(&(next.pid, next.began_ticks)) => at = next,
                _ => return false,
            }
        }
        false
    }

    /// Returns the cost of each process name in a run of `run_s` seconds, the most expensive first. `known_seconds`
    /// is the total processor time, if a parent has waited for all processes. Without it, the total is the time of
    /// the children that the servers have waited for.
    #[must_use]
    pub fn costs(&self, run_s: f64, known_seconds: Option<f64>, ticks_per_second: f64) -> Vec<ProcessCost> {
        let mut costs: BTreeMap<&str, (f64, f64, u32)> = BTreeMap::new();
        for known in self.ours.values() {
            let cost = costs.entry(&known.seen.name).or_default();
            cost.0 += known.seen.ticks as f64 / ticks_per_second;
            cost.1 += known.waited_s(run_s);
            cost.2 = cost.2.max(known.seen.threads);
        }
        let sum: f64 = costs.values().map(|(cpu, ..)| cpu).sum();
        let waited_for = self.child_ticks.saturating_sub(self.child_ticks_before) as f64 / ticks_per_second;
        let whole = known_seconds.unwrap_or(waited_for);
        // A look that saw almost nothing says little about the rest.
        let stretch = if sum > 0.0 && whole > sum { (whole / sum).min(4.0) } else { 1.0 };
        let mut costs: Vec<ProcessCost> = costs
            .into_iter()
            .map(|(name, (cpu, waited, threads))| ProcessCost {
                name: name.to_owned(),
                cpu_seconds: cpu * stretch,
                waited_seconds: waited,
                threads,
            })
            .collect();
        let seen: f64 = costs.iter().map(|cost| cost.cpu_seconds).sum();
        if whole - seen > 1.5 / ticks_per_second {
            let cpu_seconds = whole - seen;
            let name = "(not seen alone)".to_owned();
            costs.push(ProcessCost { name, cpu_seconds, waited_seconds: 0.0, threads: 1 });
        }
        costs.sort_by(|one, other| other.cpu_seconds.total_cmp(&one.cpu_seconds));
        costs
    }
}

/// Returns the processor time, in ticks, of the children that the servers among the roots have waited for.
fn children_of(roots: &[ProcessRoot], moment: &ProcessSnapshot) -> u64 {
    let is_server_root =
        |seen: &&ObservedProcess| roots.contains(&ProcessRoot::Server(seen.pid)) && is_server(&seen.name);
    moment.processes.iter().filter(is_server_root).map(|seen| seen.child_ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32, parent: u32, name: &str, ticks: u64) -> ObservedProcess {
        let (began_ticks, waited_ns) = (u64::from(pid), Some(500_000_000));
        let (name, is_runnable) = (name.to_owned(), false);
        ObservedProcess {
            pid,
            parent,
            name,
            is_runnable,
            ticks,
            child_ticks: 0,
            began_ticks,
            threads: 1,
            waited_ns,
        }
    }

    fn moment(processes: &[ObservedProcess]) -> ProcessSnapshot {
        ProcessSnapshot { processes: processes.to_vec(), retransmitted: None }
    }

    #[test]
    fn a_recorded_line_is_read_whatever_the_name() {
        let line = "711 (a) b (c) S 7 711 711 0 -1 4194304 1 2 3 4 250 50 7 3 20 0 1 0 123456 1 2 3";
        let found = parse_stat(line).unwrap();
        assert_eq!((found.pid, found.parent, found.name.as_str()), (711, 7, "a) b (c"));
        assert_eq!((found.ticks, found.child_ticks, found.began_ticks), (300, 10, 123_456));
        assert_eq!((found.threads, found.is_runnable), (1, false));
        assert!(parse_stat(&line.replace(" S ", " R ")).unwrap().is_runnable);
        for bad in ["", "1 (x", "1 (x) S", "x (y) S 1 2 3", "1 (x) S -1 1 1 0 0 0 0 0 0 0 1 1 1 1 0 0 0 0 9"]
        {
            assert_eq!(parse_stat(bad), None, "{bad}");
        }
        assert_eq!(parse_waited("100 200 3\n"), Some(200));
        assert_eq!(parse_retransmitted("Tcp: A RetransSegs\nTcp: 1 7\n"), Some(7));
    }

    #[test]
    fn a_moment_is_told_in_lines_and_nonsense_is_passed_over() {
        let stat = "P 7 (sshd) S 1 7 7 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 99 0 0 0";
        let found = parse_moment([stat, "W 7 2000", "W 8 1", "W 7 -1", "R 12", "P x", "hello", "W"]);
        assert_eq!(found.processes.len(), 1);
        assert_eq!((found.processes[0].waited_ns, found.retransmitted), (Some(2000), Some(12)));
    }

    #[test]
    fn only_what_began_with_the_run_and_descends_counts() {
        let old = [seen(5, 1, "sshd", 0), seen(6, 5, "sshd", 9), seen(7, 6, "sh", 9)];
        let mut account = ProcessUsage::new(vec![ProcessRoot::Server(5)], &moment(&old));
        let run = [
            seen(20, 5, "sshd", 100),
            seen(21, 20, "dd", 50),
            seen(22, 7, "awk", 99),
            seen(23, 5, "cron", 9),
        ];
        account.look(&moment(&[&old[..], &run].concat()), 1.0);
        assert!(!account.is_over(&moment(&run)) && account.is_over(&moment(&old)));
        // A process that has lost its parent is still known.
        account.look(&moment(&[seen(21, 1, "dd", 60)]), 2.0);
        let costs = account.costs(3.0, None, 100.0);
        let found: Vec<_> = costs.iter().map(|cost| (cost.name.as_str(), cost.cpu_seconds)).collect();
        assert_eq!(found, [("sshd", 1.0), ("dd", 0.6)]);
        assert_eq!(costs[0].waited_seconds, 0.5);
    }

    #[test]
    fn threads_that_end_take_back_nothing() {
        let of = |threads, waited| ObservedProcess {
            threads,
            waited_ns: Some(waited),
            ..seen(2, 1, "mbuffer", 80)
        };
        let mut account = ProcessUsage::new(vec![ProcessRoot::Process(1)], &ProcessSnapshot::default());
        for found in [of(3, 700_000_000), of(2, 900_000_000), of(1, 1000)] {
            account.look(&moment(&[found]), 1.0);
        }
        account.look(&moment(&[ObservedProcess { waited_ns: None, ticks: 90, ..of(1, 0) }]), 2.0);
        let costs = account.costs(2.0, None, 100.0);
        assert_eq!((costs[0].waited_seconds, costs[0].threads, costs[0].cpu_seconds), (0.9, 3, 0.9));
    }

    #[test]
    fn what_was_not_seen_is_spread_and_named() {
        let mut account = ProcessUsage::new(vec![ProcessRoot::Process(1)], &ProcessSnapshot::default());
        account.look(&moment(&[seen(2, 1, "ssh", 80), seen(3, 1, "dd", 20)]), 1.0);
        let costs = account.costs(1.0, Some(1.5), 100.0);
        assert!((costs[0].cpu_seconds - 1.2).abs() < 1e-9 && (costs[1].cpu_seconds - 0.3).abs() < 1e-9);
        assert_eq!(costs.len(), 2);
        let costs = account.costs(1.0, Some(9.0), 100.0);
        assert_eq!((costs[0].name.as_str(), costs[0].cpu_seconds), ("(not seen alone)", 5.0));
        // A total below the observed sum is not used.
        assert_eq!(account.costs(1.0, Some(0.1), 100.0)[0].cpu_seconds, 0.8);
    }

    #[test]
    fn a_server_tells_what_it_has_waited_for() {
        let server = |child_ticks| ObservedProcess { child_ticks, ..seen(5, 1, "sshd", 0) };
        let mut account = ProcessUsage::new(vec![ProcessRoot::Server(5)], &moment(&[server(1000)]));
        account.look(&moment(&[server(1000), seen(20, 5, "sshd", 100)]), 1.0);
        account.look(&moment(&[server(1150)]), 2.0);
        assert_eq!(account.costs(2.0, None, 100.0)[0].cpu_seconds, 1.5);
    }

    /// Waiting times in a run of 4 s with a process that waits nine tenths of the time, starting at the first second.
    #[test]
    fn waiting_goes_on_as_it_was_seen() {
        let at = |waited_s: f64| ObservedProcess {
            waited_ns: Some((waited_s * 1e9) as u64),
            ..seen(2, 1, "sshd", 9)
        };
        let waited = |looks: &[(f64, Option<f64>)]| {
            let mut account = ProcessUsage::new(vec![ProcessRoot::Process(1)], &ProcessSnapshot::default());
            for (at_s, waited_s) in looks {
                let found: Vec<ObservedProcess> = waited_s.iter().map(|waited_s| at(*waited_s)).collect();
                account.look(&moment(&found), *at_s);
            }
            (account.costs(4.0, None, 100.0)[0].waited_seconds, account.looks_s().last().copied())
        };
        let is = |found: (f64, Option<f64>), waited_s: f64, last_s: f64| {
            assert!(
                (found.0 - waited_s).abs() < 1e-6 && found.1 == Some(last_s),
                "{found:?}, not {waited_s}"
            );
        };
        is(waited(&[(1.0, Some(0.0)), (2.0, Some(0.9))]), 2.7, 2.0);
        is(waited(&[(1.0, Some(0.0)), (2.0, Some(0.9)), (4.1, None)]), 2.7, 2.0);
        // Nothing is added for a process that was seen to the end, or that ended before the end of the run.
        is(waited(&[(1.0, Some(0.0)), (4.0, Some(2.7))]), 2.7, 4.0);
        is(waited(&[(1.0, Some(0.0)), (2.0, Some(0.9)), (3.0, None)]), 0.9, 2.0);
        // A single look stands for all the time before it.
        is(waited(&[(2.0, Some(0.9))]), 1.8, 2.0);
        // A thread cannot wait more than all of the time.
        is(waited(&[(0.01, Some(0.9))]), 0.9 + 3.99, 0.01);
    }

    /// The kernel counts a wait only when it has ended. An exhausted quota may keep a process waiting for most of a
    /// run.
    #[test]
    fn a_wait_that_lasts_is_one() {
        let at = |ticks, is_runnable| {
            let waited_ns = Some(400_000_000);
            moment(&[ObservedProcess { waited_ns, is_runnable, ..seen(2, 1, "sshd", ticks) }])
        };
        let waited = |looks: &[(f64, u64, bool)]| {
            let mut account = ProcessUsage::new(vec![ProcessRoot::Process(1)], &ProcessSnapshot::default());
            looks.iter().for_each(|(at_s, ticks, runnable)| account.look(&at(*ticks, *runnable), *at_s));
            account.costs(2.0, None, 100.0)[0].waited_seconds
        };
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 5, true), (2.0, 5, true)]), 1.4);
        // It made progress, or slept.
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 6, true), (2.0, 6, true)]), 0.9);
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 6, true), (2.0, 7, true)]), 0.4);
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 5, false), (2.0, 5, true)]), 0.4);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let account = ProcessUsage::new(vec![ProcessRoot::Process(1)], &ProcessSnapshot::default());
        let circle = [seen(2, 3, "a", 0), seen(3, 2, "b", 0)];
        let by_pid = circle.iter().map(|seen| (seen.pid, seen)).collect();
        assert!(!account.descends(&circle[0], &by_pid));
    }
}
