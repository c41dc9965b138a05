//! What came of a bench: rows, their order, and the fastest.

use serde::{Deserialize, Serialize};

use super::case::{BASELINE, Case, Content, Direction, Ends, Way};
use super::plan::LeftOut;
use super::processes::Cost;
use crate::statistics::median;

/// What is left without the start counts only where it is so long, in seconds and of the start: starts differ by less.
const LEAST_S: f64 = 0.02;
const LEAST_OF_START: f64 = 0.15;

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// From the start of the command until both ends had ended.
    pub wall_seconds: f64,
    /// What each used here.
    pub here: Vec<Cost>,
    /// What each used on the host; `None` where that cannot be seen.
    pub there: Option<Vec<Cost>>,
    /// When they were looked at while the run lasted, in seconds since it began.
    #[serde(default)]
    pub looks_there_seconds: Vec<f64>,
    /// Segments that TCP sent again meanwhile, of anybody here.
    pub retransmitted_here: Option<u64>,
    /// The same on the host.
    pub retransmitted_there: Option<u64>,
}

/// One row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What was run.
    pub case: Case,
    /// The command line, for a shell in which SOURCE and TARGET are set.
    pub command: String,
    /// The way that hakobu says it took: `agent`, `local`, `ssh`, `sftp` and so on. `None` of other tools.
    #[serde(default)]
    pub transport: Option<String>,
    /// How much was sent in each run.
    pub size_bytes: u64,
    /// The same command on one byte: logins, start and end.
    pub starts: Vec<Timing>,
    /// The runs, in the order in which they were made.
    pub runs: Vec<Timing>,
    /// Why there is none, or no more of them.
    pub failed: Option<String>,
}

impl Row {
    /// A row of which nothing is known yet.
    #[must_use]
    pub fn of(case: &Case) -> Self {
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

    /// The row in short, with the way that hakobu took where that was not its agent's.
    #[must_use]
    pub fn label(&self) -> String {
        self.case.label() + &self.by_another_way()
    }

    /// The way that hakobu took where that was not its agent's, with a comma before it; else nothing.
    pub(super) fn by_another_way(&self) -> String {
        match self.transport.as_deref() {
            None | Some("agent" | "local") => String::new(),
            Some("sftp") => ", over SFTP without an agent".to_owned(),
            Some("ssh") => ", data through ssh".to_owned(),
            Some(other) => format!(", {other}"),
        }
    }

    /// Takes note of the way that a run took. One that is not the agent's stays.
    pub(super) fn went(&mut self, transport: Option<String>) {
        if self.transport.is_none() || !matches!(transport.as_deref(), None | Some("agent" | "local")) {
            self.transport = transport;
        }
    }

    /// The median of the runs, start and end included.
    #[must_use]
    pub fn wall_seconds(&self) -> Option<f64> {
        median(&self.runs.iter().map(|run| run.wall_seconds).collect::<Vec<_>>())
    }

    /// What logins, start and end take: the median of the runs on one byte.
    #[must_use]
    pub fn start_seconds(&self) -> f64 {
        median(&self.starts.iter().map(|run| run.wall_seconds).collect::<Vec<_>>()).unwrap_or(0.0)
    }

    /// What is left of it without start and end; `None` where that is within what runs differ by.
    #[must_use]
    pub fn seconds(&self) -> Option<f64> {
        let seconds = self.wall_seconds()? - self.start_seconds();
        (seconds > (self.start_seconds() * LEAST_OF_START).max(LEAST_S)).then_some(seconds)
    }

    /// Bytes a second, without start and end.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        if self.failed.is_some() {
            return None;
        }
        Some(self.size_bytes as f64 / self.seconds()?)
    }

    /// The run in the middle, whose processes are shown.
    #[must_use]
    pub fn middle(&self) -> Option<&Timing> {
        let mut runs: Vec<&Timing> = self.runs.iter().collect();
        runs.sort_by(|one, other| one.wall_seconds.total_cmp(&other.wall_seconds));
        runs.get(runs.len().saturating_sub(1) / 2).copied()
    }

    /// What each process used in the run in the middle, without what it uses for the start: here, and on the host.
    #[must_use]
    pub fn costs(&self) -> Option<(Vec<Cost>, Option<Vec<Cost>>)> {
        let run = self.middle()?;
        let start = self.starts.first();
        let here = less(&run.here, start.map_or(&[], |start| start.here.as_slice()));
        let of_start = start.and_then(|start| start.there.as_deref()).unwrap_or_default();
        Some((here, run.there.as_deref().map(|there| less(there, of_start))))
    }

    /// The sums of [`Row::costs`], in seconds.
    #[must_use]
    pub fn cpu_seconds(&self) -> (Option<f64>, Option<f64>) {
        let sum = |costs: &[Cost]| costs.iter().map(|cost| cost.cpu_seconds).sum::<f64>();
        let costs = self.costs();
        (
            costs.as_ref().map(|(here, _)| sum(here)),
            costs.as_ref().and_then(|(_, there)| there.as_deref()).map(sum),
        )
    }

    /// Segments that were sent again, at both ends, in the run in the middle. Where both ends have the same counters they count once.
    #[must_use]
    pub fn retransmitted(&self, same_network: bool) -> Option<u64> {
        let run = self.middle()?;
        match (run.retransmitted_here, run.retransmitted_there) {
            (Some(here), Some(_)) if same_network => Some(here),
            (here, there) => here.map(|here| here + there.unwrap_or(0)).or(there),
        }
    }
}

/// What is left without the start; nothing is less than nothing.
fn less(costs: &[Cost], start: &[Cost]) -> Vec<Cost> {
    let of_start = |name: &str| start.iter().find(|cost| cost.name == name);
    let one = |cost: &Cost| {
        let (cpu, waited) =
            of_start(&cost.name).map_or((0.0, 0.0), |cost| (cost.cpu_seconds, cost.waited_seconds));
        Cost {
            name: cost.name.clone(),
            cpu_seconds: (cost.cpu_seconds - cpu).max(0.0),
            waited_seconds: (cost.waited_seconds - waited).max(0.0),
            threads: cost.threads,
        }
    };
    costs.iter().map(one).collect()
}

/// Rows that can be compared: alike in what is sent, whither, and from what to what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct GroupKey {
    /// Whither.
    pub direction: Direction,
    /// From what to what.
    pub ends: Ends,
    /// What.
    pub content: Content,
}

impl GroupKey {
    /// Where a case belongs.
    #[must_use]
    pub fn of(case: &Case) -> Self {
        Self { direction: case.direction, ends: case.ends, content: case.content }
    }
}

/// Rows that can be compared, the fastest first; those without a figure last.
#[derive(Debug, Clone)]
pub struct Group<'a> {
    /// What they have in common.
    pub key: GroupKey,
    /// The rows.
    pub rows: Vec<&'a Row>,
}

/// A part of this machine that was measured by itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PartSpeed {
    /// What: a cipher, a compressor.
    pub name: String,
    /// Whose: `openssl`, `hakobu`, or the program itself.
    pub by: String,
    /// Bytes a second, of what goes in.
    pub bytes_per_second: f64,
    /// How much smaller what comes out is; of compressors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ratio: Option<f64>,
}

/// All of it.
#[derive(Debug, Clone, Default)]
pub struct Bench {
    /// The other machine, as it was typed.
    pub host: Option<String>,
    /// Whether the host is this machine.
    pub same_machine: bool,
    /// Whether both have the same counters of TCP as well.
    pub same_network: bool,
    /// What the two are.
    pub machines: Vec<MachineFacts>,
    /// The rows, in the order of the plan.
    pub rows: Vec<Row>,
    /// What a script has to run whose path is in SSH of command lines, where they have it.
    pub script_of_ssh: Option<String>,
    /// What was left out.
    pub left_out: Vec<LeftOut>,
    /// Ciphers of this machine, one core.
    pub ciphers: Vec<PartSpeed>,
    /// Compressors of this machine.
    pub compressors: Vec<PartSpeed>,
    /// How many rounds there were to be.
    pub rounds: usize,
    /// Why it ended early, if it did.
    pub ended_early: Option<String>,
}

/// What a machine is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MachineFacts {
    /// `here`, or the host as it was typed.
    pub whose: String,
    /// Its processor, by the maker's name.
    pub processor: String,
    /// How many of them the system has; `None` where it does not tell.
    pub processors: Option<u32>,
    /// Its kernel.
    pub kernel: String,
}

/// The rows in groups: to the host before from it, what was measured most of before the rest.
#[must_use]
pub fn groups(rows: &[Row]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows {
        let key = GroupKey::of(&row.case);
        match groups.iter_mut().find(|group| group.key == key) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { key, rows: vec![row] }),
        }
    }
    groups.sort_by_key(|group| group.key);
    for group in &mut groups {
        let rate = |row: &&Row| row.rate().unwrap_or(-1.0);
        group.rows.sort_by(|one, other| rate(other).total_cmp(&rate(one)));
    }
    groups
}

/// What of the rows that others are compared with has no figure, so that the group is not complete.
#[must_use]
pub fn not_measured(group: &Group<'_>) -> Vec<Way> {
    let is_measured = |way: Way| {
        group.rows.iter().any(|row| row.case.way == way && row.case.is_baseline() && row.rate().is_some())
    };
    BASELINE.into_iter().filter(|way| !is_measured(*way)).collect()
}

/// The fastest of a group, and the fastest that encrypts, which may be the same. `None` where it is not complete: then the fastest
/// that was measured says little.
#[must_use]
pub fn winners<'a>(group: &Group<'a>) -> Option<(&'a Row, Option<&'a Row>)> {
    if !not_measured(group).is_empty() {
        return None;
    }
    let mut measured = group.rows.iter().copied().filter(|row| row.rate().is_some());
    let first = measured.next()?;
    let encrypts = |row: &&Row| row.case.encrypted() != Some(false);
    let sound = std::iter::once(first).chain(measured).find(encrypts);
    Some((first, sound))
}

/// The group by which the winner of all is named: the first that was measured.
#[must_use]
pub fn main_group<'a>(groups: &'a [Group<'a>]) -> Option<&'a Group<'a>> {
    groups.iter().find(|group| group.rows.iter().any(|row| row.rate().is_some()))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row whose runs took so long, with a start of a tenth of a second.
    pub fn row(case: Case, walls: &[f64]) -> Row {
        let cost =
            |cpu_seconds| Cost { name: "ssh".to_owned(), cpu_seconds, waited_seconds: 0.0, threads: 1 };
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
        let mut row = row(Case::plain(Way::Hakobu, Direction::ToHost), &[1.0]);
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
        let row = row(Case::plain(Way::Dd, Direction::ToHost), &[9.0, 1.1, 2.1]);
        assert_eq!((row.wall_seconds(), row.seconds()), (Some(2.1), Some(2.0)));
        assert_eq!((row.rate(), row.middle().unwrap().wall_seconds), (Some(5e8), 2.1));
        assert_eq!(row.cpu_seconds(), (Some(2.0), None));
        let short = super::tests::row(Case::plain(Way::Dd, Direction::ToHost), &[0.1]);
        assert_eq!((short.rate(), short.wall_seconds()), (None, Some(0.1)));
        let failed = Row { failed: Some("no".to_owned()), ..row };
        assert_eq!(failed.rate(), None);
    }

    #[test]
    fn groups_are_sorted_and_the_fastest_that_encrypts_is_known() {
        let to = |way, wall| row(Case::plain(way, Direction::ToHost), &[wall]);
        let failed = Row { failed: Some("no".to_owned()), runs: vec![], ..to(Way::Tar, 1.0) };
        let rows = vec![
            row(Case::plain(Way::Dd, Direction::FromHost), &[1.0]),
            failed,
            to(Way::Dd, 3.0),
            to(Way::Nc, 1.0),
            to(Way::Hakobu, 2.0),
        ];
        let groups = groups(&rows);
        assert_eq!(groups.len(), 2);
        let ways: Vec<Way> = groups[0].rows.iter().map(|row| row.case.way).collect();
        assert_eq!(ways, [Way::Nc, Way::Hakobu, Way::Dd, Way::Tar]);
        let (first, sound) = winners(main_group(&groups).unwrap()).unwrap();
        assert_eq!((first.case.way, sound.unwrap().case.way), (Way::Nc, Way::Hakobu));
        assert!(main_group(&super::groups(&rows[1..2])).is_none());
        // Without what all are compared with, the first of the others is no winner.
        assert!(winners(&groups[1]).is_none());
        assert_eq!(not_measured(&groups[1]), [Way::Hakobu]);
        let mut rows = rows;
        rows[2].case.cipher = Some("aes128-ctr".to_owned());
        let groups = super::groups(&rows);
        assert!(winners(main_group(&groups).unwrap()).is_none());
        assert_eq!(not_measured(&groups[0]), [Way::Dd]);
    }

    #[test]
    fn what_was_sent_again_is_counted_once() {
        let mut row = row(Case::plain(Way::Dd, Direction::ToHost), &[1.0]);
        assert_eq!(row.retransmitted(false), Some(1));
        row.runs[0].retransmitted_there = Some(5);
        assert_eq!((row.retransmitted(false), row.retransmitted(true)), (Some(6), Some(1)));
    }
}
