//! The results of a bench: rows, groups of comparable rows, and the fastest rows.

use serde::{Deserialize, Serialize};

use super::case::{BASELINE, BenchCase, DataDirection, DataKind, EndKinds, Method};
use super::plan::LeftOut;
use super::processes::ProcessCost;
use crate::statistics::median;

/// The minimum duration without the start, in seconds and as a multiple of the start, for a usable figure. Starts
/// vary by less.
const LEAST_S: f64 = 0.02;
const LEAST_OF_START: f64 = 0.15;

/// The measurements of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The wall-clock time from the start of the command until both ends have exited.
    pub wall_seconds: f64,
    /// The costs on this machine by process name.
    pub here: Vec<ProcessCost>,
    /// The costs on the host by process name; `None` if they cannot be seen.
    pub there: Option<Vec<ProcessCost>>,
    /// The times of the looks at the processes on the host, in seconds since the start of the run.
    #[serde(default)]
    pub looks_there_seconds: Vec<f64>,
    /// The TCP segments retransmitted on this machine during the run, by any process.
    pub retransmitted_here: Option<u64>,
    /// The TCP segments retransmitted on the host during the run, by any process.
    pub retransmitted_there: Option<u64>,
}

/// The results of one row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The parameters of the row.
    pub case: BenchCase,
    /// The command line, for a shell in which SOURCE and TARGET are set.
    pub command: String,
    /// The transport that hakobu reports: `agent`, `local`, `ssh`, `sftp` and so on. `None` for other tools.
    #[serde(default)]
    pub transport: Option<String>,
    /// The number of bytes sent in each run.
    pub size_bytes: u64,
    /// Runs of the same command on one byte: logins, start and end.
    pub starts: Vec<Timing>,
    /// The runs, in chronological order.
    pub runs: Vec<Timing>,
    /// The reason why there are no runs, or no more of them.
    pub failed: Option<String>,
}

impl Row {
    /// Creates a row without results.
    #[must_use]
    pub fn of(case: &BenchCase) -> Self {
        Self {
            case: case.clone(),
            command: String::new(),
            transport: None,
            size_bytes: 0,
            starts: Vec::new(),
            runs: Vec::new(),
            failed: None,
        }
    }

    /// Returns a short label of the row, with hakobu's transport if that was not the agent.
    #[must_use]
    pub fn label(&self) -> String {
        self.case.label() + &self.by_another_way()
    }

    /// Returns a comma and hakobu's transport if that was not the agent, or an empty string.
    pub(super) fn by_another_way(&self) -> String {
        match self.transport.as_deref() {
            None | Some("agent" | "local") => String::new(),
            Some("sftp") => ", over SFTP without an agent".to_owned(),
            Some("ssh") => ", data through ssh".to_owned(),
            Some(other) => format!(", {other}"),
        }
    }

    /// Records the transport of a run. A transport other than the agent is kept.
    pub(super) fn went(&mut self, transport: Option<String>) {
        if self.transport.is_none() || !matches!(transport.as_deref(), None | Some("agent" | "local")) {
            self.transport = transport;
        }
    }

    /// Returns the median wall-clock time of the runs in seconds, including start and end.
    #[must_use]
    pub fn wall_seconds(&self) -> Option<f64> {
        median(&self.runs.iter().map(|run| run.wall_seconds).collect::<Vec<_>>())
    }

    /// Returns the median time of the runs on one byte in seconds: logins, start and end.
    #[must_use]
    pub fn start_seconds(&self) -> f64 {
        median(&self.starts.iter().map(|run| run.wall_seconds).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// Returns the wall-clock time without start and end in seconds; `None` if it is within the variation of runs.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let seconds = self.wall_seconds()? - self.start_seconds();
        (seconds > (self.start_seconds() * LEAST_OF_START).max(LEAST_S)).then_some(seconds)
    }

    /// Returns the rate in bytes per second, without start and end.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        if self.failed.is_some() {
            return None;
        }
        Some(self.size_bytes as f64 / self.seconds()?)
    }

    /// Returns the run with the median duration, whose processes are shown.
    #[must_use]
    pub fn middle(&self) -> Option<&Timing> {
        let mut runs: Vec<&Timing> = self.runs.iter().collect();
        runs.sort_by(|one, other| one.wall_seconds.total_cmp(&other.wall_seconds));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }

    /// Returns the cost of each process in the median run, without the cost of the start, on this machine and on the
    /// host.
    #[must_use]
    pub fn costs(&self) -> Option<(Vec<ProcessCost>, Option<Vec<ProcessCost>>)> {
        let run = self.middle()?;
        let start = self.starts.first();
        let here = less(&run.here, start.map_or(&[], |start| start.here.as_slice()));
        let of_start = start.and_then(|start| start.there.as_deref()).unwrap_or_default();
        Some((here, run.there.as_deref().map(|there| less(there, of_start))))
    }

    /// Returns the sums of [`Row::costs`], in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> (Option<f64>, Option<f64>) {
        let sum = |costs: &[ProcessCost]| costs.iter().map(|cost| cost.cpu_seconds).sum::<f64>();
        let costs = self.costs();
        (
            costs.as_ref().map(|(here, _)| sum(here)),
            costs.as_ref().and_then(|(_, there)| there.as_deref()).map(sum),
        )
    }

    /// Returns the number of retransmitted segments at both ends in the median run. If both ends share the counters,
    /// they are counted once.
    #[must_use]
    pub fn retransmitted(&self, same_network: bool) -> Option<u64> {
        let run = self.middle()?;
        match (run.retransmitted_here, run.retransmitted_there) {
            (Some(here), Some(_)) if same_network => Some(here),
            (here, there) => here.map(|here| here + there.unwrap_or(0)).or(there),
        }
    }
}

/// Subtracts the costs of the start, down to zero at least.
fn less(costs: &[ProcessCost], start: &[ProcessCost]) -> Vec<ProcessCost> {
    let of_start = |name: &str| start.iter().find(|cost| cost.name == name);
    let one = |cost: &ProcessCost| {
        let (cpu, waited) =
            of_start(&cost.name).map_or((0.0, 0.0), |cost| (cost.cpu_seconds, cost.waited_seconds));
        ProcessCost {
            name: cost.name.clone(),
            cpu_seconds: (cost.cpu_seconds - cpu).max(0.0),
            waited_seconds: (cost.waited_seconds - waited).max(0.0),
            threads: cost.threads,
        }
    };
    costs.iter().map(one).collect()
}

/// The properties that comparable rows share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey {
    /// The direction of the data.
    pub direction: DataDirection,
    /// The kinds of source and target.
    pub ends: EndKinds,
    /// The kind of data.
    pub content: DataKind,
}

impl GroupKey {
    /// Returns the group of a case.
    #[must_use]
    pub fn of(case: &BenchCase) -> Self {
        Self { direction: case.direction, ends: case.ends, content: case.content }
    }
}

/// Comparable rows, the fastest first and those without a rate last.
#[derive(Debug, Clone)]
pub struct RowGroup<'a> {
    /// The properties that the rows share.
    pub key: GroupKey,
    /// The rows.
    pub rows: Vec<&'a Row>,
}

/// The speed of a cipher or compressor that was measured separately on this machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartSpeed {
    /// The name of the cipher or compressor.
    pub name: String,
    /// The implementation: `openssl`, `hakobu`, or the program itself.
    pub by: String,
    /// The rate in bytes of input per second.
    pub bytes_per_second: f64,
    /// The compression ratio, for compressors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// The results of a bench.
#[derive(Debug, Clone, Default)]
pub struct BenchResults {
    /// The host, as the user typed it.
    pub host: Option<String>,
    /// True if the host is this machine.
    pub same_machine: bool,
    /// True if both ends also share their TCP counters.
    pub same_network: bool,
    /// The facts about both machines.
    pub machines: Vec<MachineFacts>,
    /// The rows, in the order of the plan.
    pub rows: Vec<Row>,
    /// The content of the script whose path is in SSH in the command lines, if they use it.
    pub script_of_ssh: Option<String>,
    /// The rows and measurements that were left out.
    pub left_out: Vec<LeftOut>,
    /// The speed of ciphers on one core of this machine.
    pub ciphers: Vec<PartSpeed>,
    /// The speed of compressors on this machine.
    pub compressors: Vec<PartSpeed>,
    /// The number of planned rounds.
    pub rounds: usize,
    /// The reason why the bench ended early, if it did.
    pub ended_early: Option<String>,
}

/// Facts about a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// `here`, or the host as the user typed it.
    pub whose: String,
    /// The model name of the processor.
    pub processor: String,
    /// The number of processors; `None` if unknown.
    pub processors: Option<u32>,
    /// The kernel.
    pub kernel: String,
}

/// Returns the rows in groups, sorted by direction (to the host first), ends and content, the most measured kinds
/// first.
#[must_use]
pub fn groups(rows: &[Row]) -> Vec<RowGroup<'_>> {
    let mut groups: Vec<RowGroup<'_>> = Vec::new();
    for row in rows {
        let key = GroupKey::of(&row.case);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.rows.push(row),
            None => groups.push(RowGroup { key, rows: vec![row] }),
        }
    }
    groups.sort_by_key(|group| group.key);
    for group in &mut groups {
        let rate = |row: &&Row| row.rate().unwrap_or(-1.0);
        group.rows.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    }
    groups
}

/// Returns the baseline methods of a group without a rate. If there are any, the group is incomplete.
#[must_use]
pub fn not_measured(group: &RowGroup<'_>) -> Vec<Method> {
    let is_measured = |way: Method| {
        group.rows.iter().any(|row| row.case.way == way && row.case.is_baseline() && row.rate().is_some())
    };
    BASELINE.into_iter().filter(|way| !is_measured(*way)).collect()
}

/// Returns the fastest row of a group, and the fastest encrypted one, which may be the same. `None` if the group is
/// incomplete, since the fastest measured row then says little.
#[must_use]
pub fn winners<'a>(group: &RowGroup<'a>) -> Option<(&'a Row, Option<&'a Row>)> {
    if !not_measured(group).is_empty() {
        return None;
    }
    let mut measured = group.rows.iter().copied().filter(|row| row.rate().is_some());
    let first = measured.next()?;
    let encrypts = |row: &&Row| row.case.encrypted() != Some(false);
    let sound = std::iter::once(first).chain(measured).find(encrypts);
    Some((first, sound))
}

/// Returns the group that determines the overall winner: the first with a measured row.
#[must_use]
pub fn main_group<'a>(groups: &'a [RowGroup<'a>]) -> Option<&'a RowGroup<'a>> {
    groups.iter().find(|group| group.rows.iter().any(|row| row.rate().is_some()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row whose runs took `walls` seconds, with a start of 0.1 s.
    pub fn row(case: BenchCase, walls: &[f64]) -> Row {
        let cost = |cpu_seconds| ProcessCost {
            name: "ssh".to_owned(),
            cpu_seconds,
            waited_seconds: 0.0,
            threads: 1,
        };
        let run = |wall: &f64| Timing {
            wall_seconds: *wall,
            here: vec![cost(*wall)],
            there: None,
            looks_there_seconds: Vec::new(),
            retransmitted_here: Some(1),
            retransmitted_there: None,
        };
        Row {
            command: "x".to_owned(),
            size_bytes: 1_000_000_000,
            starts: vec![Timing { wall_seconds: 0.1, here: vec![cost(0.1)], ..run(&0.1) }],
            runs: walls.iter().map(run).collect(),
            transport: None,
            failed: None,
            case,
        }
    }

    #[test]
    fn a_row_that_went_another_way_once_is_labelled_so() {
        let mut row = row(BenchCase::plain(Method::Hakobu, DataDirection::ToHost), &[1.0]);
        assert_eq!(row.label(), "hakobu");
        for (transport, label) in [
            ("agent", "hakobu"),
            ("sftp", "hakobu, over SFTP without an agent"),
            ("agent", "hakobu, over SFTP without an agent"),
            ("ssh", "hakobu, data through ssh"),
            ("agent, relayed", "hakobu, agent, relayed"),
        ] {
            row.went(Some(transport.to_owned()));
            assert_eq!(row.label(), label);
        }
    }

    #[test]
    fn the_median_counts_without_the_start() {
        let row = row(BenchCase::plain(Method::Dd, DataDirection::ToHost), &[9.0, 1.1, 2.1]);
        assert_eq!((row.wall_seconds(), row.seconds()), (Some(2.1), Some(2.0)));
        assert_eq!((row.rate(), row.middle().unwrap().wall_seconds), (Some(5e8), 2.1));
        assert_eq!(row.cpu_seconds(), (Some(2.0), None));
        let short = super::tests::row(BenchCase::plain(Method::Dd, DataDirection::ToHost), &[0.1]);
        assert_eq!((short.rate(), short.wall_seconds()), (None, Some(0.1)));
        let failed = Row { failed: Some("no".to_owned()), ..row };
        assert_eq!(failed.rate(), None);
    }

    #[test]
    fn groups_are_sorted_and_the_fastest_that_encrypts_is_known() {
        let to = |way, wall| row(BenchCase::plain(way, DataDirection::ToHost), &[wall]);
        let failed = Row { failed: Some("no".to_owned()), runs: vec![], ..to(Method::Tar, 1.0) };
        let rows = vec![
            row(BenchCase::plain(Method::Dd, DataDirection::FromHost), &[1.0]),
            failed,
            to(Method::Dd, 3.0),
            to(Method::Nc, 1.0),
            to(Method::Hakobu, 2.0),
        ];
        let groups = groups(&rows);
        assert_eq!(groups.len(), 2);
        let ways: Vec<Method> = groups[0].rows.iter().map(|row| row.case.way).collect();
        assert_eq!(ways, [Method::Nc, Method::Hakobu, Method::Dd, Method::Tar]);
        let (first, sound) = winners(main_group(&groups).unwrap()).unwrap();
        assert_eq!((first.case.way, sound.unwrap().case.way), (Method::Nc, Method::Hakobu));
        assert!(main_group(&super::groups(&rows[1..2])).is_none());
        // Without the baselines, the fastest of the other rows is not a winner.
        assert!(winners(&groups[1]).is_none());
        assert_eq!(not_measured(&groups[1]), [Method::Hakobu]);
        let mut rows = rows;
        rows[2].case.cipher = Some("aes128-ctr".to_owned());
        let groups = super::groups(&rows);
        assert!(winners(main_group(&groups).unwrap()).is_none());
        assert_eq!(not_measured(&groups[0]), [Method::Dd]);
    }

    #[test]
    fn what_was_sent_again_is_counted_once() {
        let mut row = row(BenchCase::plain(Method::Dd, DataDirection::ToHost), &[1.0]);
        assert_eq!(row.retransmitted(false), Some(1));
        row.runs[0].retransmitted_there = Some(5);
        assert_eq!((row.retransmitted(false), row.retransmitted(true)), (Some(6), Some(1)));
    }
}
