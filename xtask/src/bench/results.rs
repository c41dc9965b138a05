//! What was measured, what it comes to, and whether that is enough.

use hakobu_measure::statistics::{Unit, median, paired_ratios};
use serde::Serialize;

use super::machine::Machine;
use super::measured::Peaks;
use super::peers::Peers;
use super::rows::{Goal, Group, MEMORY_AIM_BYTES, MEMORY_AT_LEAST_BYTES, Row, Source, Way};

/// The least that a run counts beyond its baseline: noise may leave nothing or less of a run that is all start.
const NET_LEAST_SECONDS: f64 = 0.001;
/// Of so many rounds one may be such before there is no figure: a ratio to nothing would pass any mark.
const ONE_LOST_ROUND_IN: usize = 4;

/// All of one bench.
#[derive(Debug, Serialize)]
pub struct Results {
    /// Always `hakobu.bench/1`.
    pub schema: &'static str,
    /// Smaller sizes and fewer rounds: to try the bench, not to judge by.
    pub quick: bool,
    pub machine: Machine,
    pub hakobu: String,
    pub tools: Peers,
    pub rows: Vec<RowResult>,
    pub groups: Vec<GroupResult>,
}

/// One group's figures.
#[derive(Debug, Serialize)]
pub struct GroupResult {
    pub name: &'static str,
    /// Beside the table: nothing of it is checked.
    pub extra: bool,
    pub place: &'static str,
    pub source: String,
    /// Load of the machine's last minute when the group began.
    pub load_before: f64,
    /// The most that the emulated link was late with a packet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_late_most_ms: Option<f64>,
    pub ways: Vec<WayResult>,
}

/// One way's figures. The rounds of all ways of a group were measured one after the other.
#[derive(Debug, Clone, Serialize)]
pub struct WayResult {
    pub name: &'static str,
    pub command: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub far_command: Option<&'static str>,
    /// The same command on one byte.
    pub baseline_seconds: Vec<f64>,
    /// Wall clock of each round.
    pub wall_seconds: Vec<f64>,
    /// The same less the baseline's median.
    pub net_seconds: Vec<f64>,
    pub unit: Unit,
    /// What was moved per net second.
    pub figures: Vec<f64>,
    /// Of ours: the most memory of each process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peaks: Option<Peaks>,
    /// Why there are no figures: the tool is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absent: Option<String>,
    /// Why there are no figures: it failed, or did not do its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

impl WayResult {
    pub fn new(way: &Way, source: Source) -> Self {
        Self {
            name: way.name,
            command: way.near,
            far_command: way.far,
            baseline_seconds: Vec::new(),
            wall_seconds: Vec::new(),
            net_seconds: Vec::new(),
            unit: match source {
                Source::File { .. } => Unit::BytesPerSecond,
                Source::Tree { .. } => Unit::FilesPerSecond,
            },
            figures: Vec::new(),
            peaks: None,
            absent: None,
            failed: None,
        }
    }

    /// Whether there is anything to measure.
    pub fn usable(&self) -> bool {
        self.absent.is_none() && self.failed.is_none()
    }

    /// Works out net seconds and figures once all rounds are there.
    pub fn complete(&mut self, source: Source) {
        let Some(baseline) = median(&self.baseline_seconds).filter(|_| self.usable()) else { return };
        let amount = match source {
            Source::File { bytes } => bytes,
            Source::Tree { files, .. } => files,
        };
        let round = |value: f64| (value * 1e6).round() / 1e6;
        for seconds in self.baseline_seconds.iter_mut().chain(&mut self.wall_seconds) {
            *seconds = round(*seconds);
        }
        let net = self.wall_seconds.iter().map(|wall| round((wall - baseline).max(NET_LEAST_SECONDS)));
        self.net_seconds = net.collect();
        let lost = self.net_seconds.iter().filter(|seconds| **seconds <= NET_LEAST_SECONDS).count();
        if lost * ONE_LOST_ROUND_IN > self.net_seconds.len() {
            let count = self.net_seconds.len();
            self.failed = Some(format!(
                "in {lost} of {count} rounds it took no longer than on one byte: too much noise"
            ));
            self.net_seconds.clear();
            return;
        }
        self.figures = self.net_seconds.iter().map(|seconds| (amount as f64 / seconds).round()).collect();
    }
}

/// One row of the table.
#[derive(Debug, Serialize)]
pub struct RowResult {
    pub key: &'static str,
    pub title: String,
    pub goals: Vec<GoalResult>,
}

/// What one goal came to.
#[derive(Debug, Serialize)]
pub struct GoalResult {
    /// What ours is compared with; `None` where the figure stands for itself.
    pub peer: Option<String>,
    pub unit: Unit,
    /// The medians of both.
    pub ours: Option<f64>,
    pub theirs: Option<f64>,
    /// What is judged: how many times as fast as the peer, or the figure itself; median, least and most of the rounds.
    pub value: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    pub at_least: Option<f64>,
    pub aim: Option<f64>,
    pub verdict: Verdict,
    /// Why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Whether it is enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As good as hoped for.
    Aim,
    /// At least what is demanded.
    Enough,
    /// Less than that.
    Below,
    /// The peer is not here.
    Absent,
    /// There is no figure.
    Failed,
    /// Nothing is demanded.
    Information,
}

impl Verdict {
    /// Whether `--check` lets it pass.
    pub fn passes(self) -> bool {
        !matches!(self, Self::Below | Self::Failed)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Aim => "aim reached",
            Self::Enough => "enough",
            Self::Below => "**below**",
            Self::Absent => "peer absent",
            Self::Failed => "**failed**",
            Self::Information => "",
        }
    }
}

fn judge(value: f64, at_least: f64, aim: f64, more_is_better: bool) -> Verdict {
    let reaches = |mark: f64| if more_is_better { value >= mark } else { value <= mark };
    match () {
        () if reaches(aim) => Verdict::Aim,
        () if reaches(at_least) => Verdict::Enough,
        () => Verdict::Below,
    }
}

/// The goals of a row, from its group's figures.
pub fn row(group: &Group, row: &Row, goals: &[Goal], ways: &[WayResult]) -> RowResult {
    let goals = goals.iter().map(|goal| goal_result(group, row, *goal, ways)).collect();
    RowResult { key: row.key, title: row.title.to_owned(), goals }
}

fn goal_result(group: &Group, row: &Row, goal: Goal, ways: &[WayResult]) -> GoalResult {
    let find = |name: &str| ways.iter().find(|way| way.name == name);
    let ours = find(row.way);
    let theirs = goal.peer().and_then(find);
    let (at_least, aim) = match goal {
        Goal::Times { at_least, aim, .. } | Goal::Seconds { at_least, aim } if !group.extra => {
            (Some(at_least), Some(aim))
        }
        _ => (None, None),
    };
    let seconds_row = matches!(goal, Goal::Seconds { .. });
    let values = match (ours, theirs) {
        (Some(ours), None) if seconds_row => {
            Some(ours.net_seconds.clone()).filter(|rounds| !rounds.is_empty())
        }
        (Some(ours), Some(theirs)) => paired_ratios(&theirs.net_seconds, &ours.net_seconds),
        _ => None,
    };
    let value = values.as_deref().and_then(median);
    let verdict = match (value, at_least, aim) {
        (Some(value), Some(at_least), Some(aim)) => judge(value, at_least, aim, !seconds_row),
        (Some(_), ..) => Verdict::Information,
        (None, ..) if theirs.is_some_and(|theirs| theirs.absent.is_some()) => Verdict::Absent,
        (None, Some(_), _) => Verdict::Failed,
        (None, ..) => Verdict::Information,
    };
    let middle = |way: Option<&WayResult>| {
        way.and_then(|way| median(if seconds_row { &way.net_seconds } else { &way.figures }))
    };
    GoalResult {
        peer: goal.peer().map(str::to_owned),
        unit: if seconds_row { Unit::Seconds } else { ours.map_or(Unit::Seconds, |ours| ours.unit) },
        ours: middle(ours),
        theirs: middle(theirs),
        value,
        min: values.as_ref().and_then(|values| values.iter().copied().reduce(f64::min)),
        max: values.as_ref().and_then(|values| values.iter().copied().reduce(f64::max)),
        at_least,
        aim,
        verdict,
        reason: value.is_none().then(|| reason(ours, theirs)),
    }
}

fn reason(ours: Option<&WayResult>, theirs: Option<&WayResult>) -> String {
    let why = |way: &WayResult| {
        let why = way.failed.as_ref().or(way.absent.as_ref())?;
        Some(format!("{}: {why}", way.name))
    };
    let reasons: Vec<String> = [ours, theirs].into_iter().flatten().filter_map(why).collect();
    if reasons.is_empty() { "not measured".to_owned() } else { reasons.join("; ") }
}

/// The row on memory: one goal for each checked group that ran ours, with the larger of both processes.
pub fn memory(key: &'static str, title: &str, groups: &[GroupResult]) -> RowResult {
    let measured = |group: &GroupResult| -> Option<GoalResult> {
        let ours: Vec<&WayResult> =
            group.ways.iter().filter(|way| way.command.starts_with("hakobu ")).collect();
        if ours.is_empty() || group.extra {
            return None;
        }
        let of = |side: fn(&Peaks) -> Option<u64>| {
            ours.iter().filter_map(|way| side(way.peaks.as_ref()?)).max().map(|bytes| bytes as f64)
        };
        let (near, far) = (of(|peaks| peaks.near_bytes), of(|peaks| peaks.far_bytes));
        let value = [near, far].into_iter().flatten().reduce(f64::max);
        // A far process that was not measured must not look like a small one.
        let missing = ours.iter().any(|way| {
            let far_missing =
                way.command.contains("$HOST") && way.peaks.is_none_or(|peaks| peaks.far_bytes.is_none());
            far_missing || way.peaks.is_none_or(|peaks| peaks.near_bytes.is_none())
        });
        let (at_least, aim) = (MEMORY_AT_LEAST_BYTES as f64, MEMORY_AIM_BYTES as f64);
        let verdict = match value {
            Some(value) if !missing || value > at_least => judge(value, at_least, aim, false),
            _ => Verdict::Failed,
        };
        Some(GoalResult {
            peer: Some(group.name.to_owned()),
            unit: Unit::Bytes,
            ours: near,
            theirs: far,
            value,
            min: None,
            max: None,
            at_least: Some(at_least),
            aim: Some(aim),
            verdict,
            reason: missing.then(|| "one of the processes was not measured".to_owned()),
        })
    };
    RowResult { key, title: title.to_owned(), goals: groups.iter().filter_map(measured).collect() }
}

impl Results {
    /// What `--check` lists: each goal that is not met, in words.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for goal in row.goals.iter().filter(|goal| !goal.verdict.passes()) {
                let against = goal.peer.as_deref().unwrap_or("the clock");
                let value = goal.value.filter(|_| goal.verdict != Verdict::Failed);
                let what = match (value, goal.at_least, goal.unit) {
                    (Some(value), Some(mark), Unit::Bytes) => {
                        format!("{:.0} MiB, at most {:.0}", value / 1_048_576.0, mark / 1_048_576.0)
                    }
                    (Some(value), Some(mark), Unit::Seconds) => format!("{value:.2} s, at most {mark} s"),
                    (Some(value), Some(mark), _) => format!("{value:.2} times, at least {mark}"),
                    _ => goal.reason.clone().unwrap_or_else(|| "no figure".to_owned()),
                };
                lines.push(format!("{} ({}) against {against}: {what}", row.key, row.title));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::GROUPS;
    use super::*;

    /// The group of `key` with ours at `ours` net seconds and every other way at `theirs`.
    fn measured(key: &str, ours: &[f64], theirs: &[f64]) -> (&'static Group, &'static Row, Vec<WayResult>) {
        let group = GROUPS.iter().find(|group| group.rows.iter().any(|row| row.key == key)).unwrap();
        let row = group.rows.iter().find(|row| row.key == key).unwrap();
        let ways = group.ways.iter().map(|way| {
            let mut result = WayResult::new(way, group.source);
            result.baseline_seconds = vec![0.5, 9.0, 0.5];
            let net = if way.name == row.way { ours } else { theirs };
            result.wall_seconds = net.iter().map(|net| net + 0.5).collect();
            result.complete(group.source);
            result
        });
        (group, row, ways.collect())
    }

    #[test]
    fn the_figure_is_the_median_of_each_rounds_ratio() {
        let (group, spec, ways) = measured("again-ssh", &[1.0, 2.0, 4.0], &[3.0, 5.0, 10.0]);
        let result = row(group, spec, spec.goals, &ways);
        let goal = &result.goals[0];
        assert_eq!((goal.value, goal.min, goal.max), (Some(2.5), Some(2.5), Some(3.0)));
        assert_eq!(goal.verdict, Verdict::Enough);
        assert_eq!((goal.ours, goal.theirs), (Some(50_000.0), Some(20_000.0)));
    }

    #[test]
    fn seconds_are_judged_the_other_way_round() {
        for (seconds, verdict) in [(0.9, Verdict::Aim), (2.0, Verdict::Enough), (2.1, Verdict::Below)] {
            let (group, spec, ways) = measured("link-tree", &[seconds; 3], &[4.0; 3]);
            let result = row(group, spec, spec.goals, &ways);
            assert_eq!(result.goals[0].verdict, verdict);
            assert_eq!(result.goals[0].ours, Some(seconds));
            assert_eq!(result.goals[1].verdict, Verdict::Information);
        }
    }

    #[test]
    fn an_absent_peer_passes_and_a_failed_one_does_not() {
        let (group, spec, mut ways) = measured("tree-local", &[1.0; 3], &[4.0; 3]);
        for way in &mut ways[1..] {
            way.net_seconds.clear();
        }
        ways[1].failed = Some("exit status: 1".to_owned());
        ways[2].absent = Some("not installed".to_owned());
        let result = row(group, spec, spec.goals, &ways);
        assert_eq!(result.goals[0].verdict, Verdict::Failed);
        assert!(!result.goals[0].verdict.passes());
        assert_eq!(result.goals[0].reason.as_deref(), Some("tar | tar: exit status: 1"));
        assert_eq!(result.goals[1].verdict, Verdict::Absent);
        assert!(result.goals[1].verdict.passes());
    }

    #[test]
    fn memory_that_was_not_seen_is_not_small() {
        let (group, _, mut ways) = measured("again-ssh", &[1.0], &[1.0]);
        let peaks = |near, far| Some(Peaks { near_bytes: near, far_bytes: far });
        let mut judged = |peaks| {
            ways[0].peaks = peaks;
            let group = GroupResult {
                name: group.name,
                extra: group.extra,
                place: "",
                source: String::new(),
                load_before: 0.0,
                link_late_most_ms: None,
                ways: ways.clone(),
            };
            memory("memory", "m", &[group]).goals[0].verdict
        };
        assert_eq!(judged(peaks(Some(50 << 20), Some(96 << 20))), Verdict::Aim);
        assert_eq!(judged(peaks(Some(50 << 20), Some(97 << 20))), Verdict::Enough);
        assert_eq!(judged(peaks(Some(257 << 20), Some(1 << 20))), Verdict::Below);
        assert_eq!(judged(peaks(Some(50 << 20), None)), Verdict::Failed);
        assert_eq!(judged(None), Verdict::Failed);
    }

    #[test]
    fn less_than_nothing_is_not_a_speed() {
        let group = &GROUPS[0];
        let complete = |wall_seconds: &[f64]| {
            let mut way = WayResult::new(&group.ways[0], group.source);
            way.baseline_seconds = vec![1.0];
            way.wall_seconds = wall_seconds.to_vec();
            way.complete(group.source);
            way
        };
        let once = complete(&[2.0, 0.9, 2.0, 2.0]);
        assert!(once.usable());
        assert_eq!(once.net_seconds, [1.0, NET_LEAST_SECONDS, 1.0, 1.0]);
        let often = complete(&[2.0, 0.9, 1.0, 2.0]);
        assert!(often.failed.is_some() && often.figures.is_empty() && often.net_seconds.is_empty());
    }
}
