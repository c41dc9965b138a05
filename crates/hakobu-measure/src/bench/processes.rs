//! Who used how much processor: the kernel's account of each process of a run, looked at while they live.
//!
//! Only processes that began with the run count, and that descend from the command here or from a new session of the sshd over
//! there. What a process uses between the last look and its end is not seen; the sum of all is, for whoever waits for
//! them is told, and the difference is spread over them in proportion. Nobody is told how long they waited for a processor: that is
//! taken to have gone on as it was seen. The kernel counts a wait when it has ended; one that lasts, as with a quota that has been
//! overdrawn, is known by a process that wants to run and has got no further from one look to the next.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Each thread of a process is looked at, where it has no more of them: what is measured here has fewer.
pub const THREADS_MAX: u32 = 256;

/// Between looks that are not so far apart, in seconds, nothing is known of how fast something goes on.
const APART_MIN_S: f64 = 0.1;

/// A process at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Its number.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its name, as the kernel has it.
    pub name: String,
    /// Whether it runs, or wants to; of several threads the first.
    pub is_runnable: bool,
    /// Processor time of its own, in ticks.
    pub ticks: u64,
    /// That of the descendants it has waited for.
    pub child_ticks: u64,
    /// When it began, in ticks since the machine did.
    pub began_ticks: u64,
    /// How many threads it has.
    pub threads: u32,
    /// How long the threads that it has have waited for a processor, added up, in nanoseconds.
    pub waited_ns: Option<u64>,
}

impl Seen {
    /// Takes note of the same process at a later moment. What threads that have ended had waited is in no sum any more, and stays.
    fn update(&mut self, later: &Self) {
        let waited_ns = self.waited_ns.max(later.waited_ns);
        let threads = self.threads.max(later.threads);
        *self = Self { waited_ns, threads, ..later.clone() };
    }
}

/// The processes of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Moment {
    /// Those that can matter.
    pub processes: Vec<Seen>,
    /// Segments that TCP has sent again since the machine began.
    pub retransmitted: Option<u64>,
}

/// Whose descendants count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// All of this process.
    Process(u32),
    /// Sessions that this server has begun: its children of its own kind.
    Server(u32),
}

/// What the processes of one name used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// The name.
    pub name: String,
    /// User and system time, in seconds.
    pub cpu_seconds: f64,
    /// How long they wanted a processor and had none, in seconds, added up over their threads: it may be more than the run took.
    pub waited_seconds: f64,
    /// How many threads one of them had, at most.
    #[serde(default = "one")]
    pub threads: u32,
}

/// A process of the run. Times are seconds since that began.
#[derive(Debug)]
struct Tracked {
    /// As it was seen the last time.
    seen: Seen,
    /// When it was seen first, and how long it had waited by then.
    first: (f64, u64),
    last_s: f64,
    /// Since when it has wanted to run, and got no further: a wait that lasts.
    stuck_s: Option<f64>,
    /// When it was found to be gone.
    gone_s: Option<f64>,
}

impl Tracked {
    fn new(seen: &Seen, at_s: f64) -> Self {
        let first = (at_s, seen.waited_ns.unwrap_or(0));
        let stuck_s = seen.is_runnable.then_some(at_s);
        Self { seen: seen.clone(), first, last_s: at_s, stuck_s, gone_s: None }
    }

    fn look(&mut self, seen: &Seen, at_s: f64) {
        let state = |seen: &Seen| (seen.is_runnable, seen.ticks, seen.waited_ns);
        let is_stuck = seen.is_runnable && state(seen) == state(&self.seen);
        self.stuck_s = match self.stuck_s {
            Some(since_s) if is_stuck => Some(since_s),
            _ => seen.is_runnable.then_some(at_s),
        };
        self.seen.update(seen);
        (self.last_s, self.gone_s) = (at_s, None);
    }

    /// How long its threads have waited for a processor in a run of so many seconds. After the last look at it, unless it was gone
    /// before the run had ended, they are taken to have waited as much of the time as before.
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
pub struct Account {
    roots: Vec<Root>,
    before: BTreeSet<(u32, u64)>,
    child_ticks_before: u64,
    child_ticks: u64,
    ours: BTreeMap<(u32, u64), Tracked>,
    looks_s: Vec<f64>,
}

fn one() -> u32 {
    1
}

/// A line of `/proc/PID/stat`.
#[must_use]
pub fn parse_stat(line: &str) -> Option<Seen> {
    let (pid, rest) = line.split_once(" (")?;
    let (name, rest) = rest.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Seen {
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

/// The second number of `schedstat`: nanoseconds in the queue for a processor.
#[must_use]
pub fn parse_waited(text: &str) -> Option<u64> {
    text.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// What the host's shell prints for one moment: `P` and a line of `stat`, `W`, the number of a process and how long its threads have
/// waited, `R` and the segments that were sent again. All else is passed over.
#[must_use]
pub fn parse_moment<'a>(lines: impl IntoIterator<Item = &'a str>) -> Moment {
    let mut moment = Moment::default();
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

/// The counter of `/proc/net/snmp`.
#[must_use]
pub fn parse_retransmitted(text: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (lines.next()?, lines.next()?);
    let mut pairs = names.split(' ').zip(values.split(' '));
    pairs.find(|(name, _)| *name == "RetransSegs")?.1.parse().ok()
}

/// Whether it is a process of an ssh server.
#[must_use]
pub fn is_server(name: &str) -> bool {
    name.starts_with("sshd") || name.starts_with("dropbear")
}

impl Account {
    /// Begins with what is there before the run.
    #[must_use]
    pub fn new(roots: Vec<Root>, before: &Moment) -> Self {
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

    /// Takes note of a moment, so many seconds after the run began.
    pub fn look(&mut self, moment: &Moment, at_s: f64) {
        self.child_ticks = self.child_ticks.max(children_of(&self.roots, moment));
        let by_pid: BTreeMap<u32, &Seen> = moment.processes.iter().map(|seen| (seen.pid, seen)).collect();
        for (key, known) in &mut self.ours {
            match by_pid.get(&key.0).filter(|seen| seen.began_ticks == key.1) {
                Some(seen) => known.look(seen, at_s),
                None => known.gone_s = known.gone_s.or(Some(at_s)),
            }
        }
        for seen in &moment.processes {
            let key = (seen.pid, seen.began_ticks);
            if !self.ours.contains_key(&key) && !self.before.contains(&key) && self.descends(seen, &by_pid) {
                self.ours.insert(key, Tracked::new(seen, at_s));
            }
        }
        if !self.is_over(moment) {
            self.looks_s.push(at_s);
        }
    }

    /// When there were looks that found processes of the run, in seconds since it began.
    #[must_use]
    pub fn looks_s(&self) -> &[f64] {
        &self.looks_s
    }

    /// Whether none of the run's processes is there any more.
    #[must_use]
    pub fn is_over(&self, moment: &Moment) -> bool {
        moment.processes.iter().all(|seen| !self.ours.contains_key(&(seen.pid, seen.began_ticks)))
    }

    fn descends(&self, seen: &Seen, by_pid: &BTreeMap<u32, &Seen>) -> bool {
        let mut at = seen;
        // Numbers are used again, so a table that is read bit by bit may have a circle.
        for _ in 0..64 {
            let parent = at.parent;
            let is_root = |root: &Root| match root {
                Root::Process(pid) => parent == *pid,
                Root::Server(pid) => parent == *pid && is_server(&at.name),
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

    /// What each used in a run of so many seconds, those that used most first. `known_seconds` is the processor time of all of
    /// them, where somebody has waited for them all; of a server it follows from what the server has waited for.
    #[must_use]
    pub fn costs(&self, run_s: f64, known_seconds: Option<f64>, ticks_per_second: f64) -> Vec<Cost> {
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
        // A look that saw almost nothing says nothing about the rest.
        let stretch = if sum > 0.0 && whole > sum { (whole / sum).min(4.0) } else { 1.0 };
        let mut costs: Vec<Cost> = costs
            .into_iter()
            .map(|(name, (cpu, waited, threads))| Cost {
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
            costs.push(Cost { name, cpu_seconds, waited_seconds: 0.0, threads: 1 });
        }
        costs.sort_by(|one, other| other.cpu_seconds.total_cmp(&one.cpu_seconds));
        costs
    }
}

/// What servers among the roots have waited for.
fn children_of(roots: &[Root], moment: &Moment) -> u64 {
    let is_server_root = |seen: &&Seen| roots.contains(&Root::Server(seen.pid)) && is_server(&seen.name);
    moment.processes.iter().filter(is_server_root).map(|seen| seen.child_ticks).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: u32, parent: u32, name: &str, ticks: u64) -> Seen {
        let (began_ticks, waited_ns) = (u64::from(pid), Some(500_000_000));
        let (name, is_runnable) = (name.to_owned(), false);
        Seen { pid, parent, name, is_runnable, ticks, child_ticks: 0, began_ticks, threads: 1, waited_ns }
    }

    fn moment(processes: &[Seen]) -> Moment {
        Moment { processes: processes.to_vec(), retransmitted: None }
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
        let mut account = Account::new(vec![Root::Server(5)], &moment(&old));
        let run = [
            seen(20, 5, "sshd", 100),
            seen(21, 20, "dd", 50),
            seen(22, 7, "awk", 99),
            seen(23, 5, "cron", 9),
        ];
        account.look(&moment(&[&old[..], &run].concat()), 1.0);
        assert!(!account.is_over(&moment(&run)) && account.is_over(&moment(&old)));
        // What lost its parent is still known.
        account.look(&moment(&[seen(21, 1, "dd", 60)]), 2.0);
        let costs = account.costs(3.0, None, 100.0);
        let found: Vec<_> = costs.iter().map(|cost| (cost.name.as_str(), cost.cpu_seconds)).collect();
        assert_eq!(found, [("sshd", 1.0), ("dd", 0.6)]);
        assert_eq!(costs[0].waited_seconds, 0.5);
    }

    #[test]
    fn threads_that_end_take_back_nothing() {
        let of = |threads, waited| Seen { threads, waited_ns: Some(waited), ..seen(2, 1, "mbuffer", 80) };
        let mut account = Account::new(vec![Root::Process(1)], &Moment::default());
        for found in [of(3, 700_000_000), of(2, 900_000_000), of(1, 1000)] {
            account.look(&moment(&[found]), 1.0);
        }
        account.look(&moment(&[Seen { waited_ns: None, ticks: 90, ..of(1, 0) }]), 2.0);
        let costs = account.costs(2.0, None, 100.0);
        assert_eq!((costs[0].waited_seconds, costs[0].threads, costs[0].cpu_seconds), (0.9, 3, 0.9));
    }

    #[test]
    fn what_was_not_seen_is_spread_and_named() {
        let mut account = Account::new(vec![Root::Process(1)], &Moment::default());
        account.look(&moment(&[seen(2, 1, "ssh", 80), seen(3, 1, "dd", 20)]), 1.0);
        let costs = account.costs(1.0, Some(1.5), 100.0);
        assert!((costs[0].cpu_seconds - 1.2).abs() < 1e-9 && (costs[1].cpu_seconds - 0.3).abs() < 1e-9);
        assert_eq!(costs.len(), 2);
        let costs = account.costs(1.0, Some(9.0), 100.0);
        assert_eq!((costs[0].name.as_str(), costs[0].cpu_seconds), ("(not seen alone)", 5.0));
        // Less than was seen is no account of it.
        assert_eq!(account.costs(1.0, Some(0.1), 100.0)[0].cpu_seconds, 0.8);
    }

    #[test]
    fn a_server_tells_what_it_has_waited_for() {
        let server = |child_ticks| Seen { child_ticks, ..seen(5, 1, "sshd", 0) };
        let mut account = Account::new(vec![Root::Server(5)], &moment(&[server(1000)]));
        account.look(&moment(&[server(1000), seen(20, 5, "sshd", 100)]), 1.0);
        account.look(&moment(&[server(1150)]), 2.0);
        assert_eq!(account.costs(2.0, None, 100.0)[0].cpu_seconds, 1.5);
    }

    /// In a run of 4 s, of a process that waits nine tenths of the time from the first second on.
    #[test]
    fn waiting_goes_on_as_it_was_seen() {
        let at = |waited_s: f64| Seen { waited_ns: Some((waited_s * 1e9) as u64), ..seen(2, 1, "sshd", 9) };
        let waited = |looks: &[(f64, Option<f64>)]| {
            let mut account = Account::new(vec![Root::Process(1)], &Moment::default());
            for (at_s, waited_s) in looks {
                let found: Vec<Seen> = waited_s.iter().map(|waited_s| at(*waited_s)).collect();
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
        // Nothing is made of what was seen to its end, or ended before.
        is(waited(&[(1.0, Some(0.0)), (4.0, Some(2.7))]), 2.7, 4.0);
        is(waited(&[(1.0, Some(0.0)), (2.0, Some(0.9)), (3.0, None)]), 0.9, 2.0);
        // One look alone tells of all the time before it.
        is(waited(&[(2.0, Some(0.9))]), 1.8, 2.0);
        // A thread cannot wait more than all the time.
        is(waited(&[(0.01, Some(0.9))]), 0.9 + 3.99, 0.01);
    }

    /// The kernel counts a wait when it has ended. A quota that has been overdrawn may keep a process waiting for most of a run.
    #[test]
    fn a_wait_that_lasts_is_one() {
        let at = |ticks, is_runnable| {
            let waited_ns = Some(400_000_000);
            moment(&[Seen { waited_ns, is_runnable, ..seen(2, 1, "sshd", ticks) }])
        };
        let waited = |looks: &[(f64, u64, bool)]| {
            let mut account = Account::new(vec![Root::Process(1)], &Moment::default());
            looks.iter().for_each(|(at_s, ticks, runnable)| account.look(&at(*ticks, *runnable), *at_s));
            account.costs(2.0, None, 100.0)[0].waited_seconds
        };
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 5, true), (2.0, 5, true)]), 1.4);
        // It got further, or slept.
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 6, true), (2.0, 6, true)]), 0.9);
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 6, true), (2.0, 7, true)]), 0.4);
        assert_eq!(waited(&[(1.0, 5, true), (1.5, 5, false), (2.0, 5, true)]), 0.4);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let account = Account::new(vec![Root::Process(1)], &Moment::default());
        let circle = [seen(2, 3, "a", 0), seen(3, 2, "b", 0)];
        let by_pid = circle.iter().map(|seen| (seen.pid, seen)).collect();
        assert!(!account.descends(&circle[0], &by_pid));
    }
}
