//! Decides whether the measured results are good enough.

use hakobu_measure::statistics::median;
use serde::Serialize;

use super::goal_quantity::GoalQuantity;
use super::memory_meter::Peaks;
use super::ratios::paired_ratios;
use super::results::{GroupResult, MethodResult, NET_LEAST_SECONDS, TableResults};
use super::rows::{Goal, Group, MEMORY_AIM_BYTES, MEMORY_AT_LEAST_BYTES, TableRow};
use super::runs::RunCounters;
use crate::table::Unit;

/// The share of the source that may be read again after a kill, if reading it takes longer than the permitted seconds.
const REPEATED_SHARE: f64 = 0.02;
/// The number of keys in a page of a listing.
const LISTED_AT_ONCE: u64 = 1000;

/// One row of the table.
#[derive(Debug, Serialize)]
pub struct RowResult {
    pub key: &'static str,
    pub title: String,
    pub goals: Vec<GoalResult>,
}

/// The result of one goal.
#[derive(Debug, Serialize)]
pub struct GoalResult {
    /// The method that ours is compared with, or `None` if the value stands for itself.
    pub peer: Option<String>,
    pub unit: Unit,
    /// The medians of both, in `unit`.
    pub ours: Option<f64>,
    pub theirs: Option<f64>,
    /// The quantity of `value`.
    pub judged: GoalQuantity,
    /// The judged value: a ratio to the peer, or the measurement itself. Median, minimum and maximum over the rounds.
    pub value: Option<f64>,
    pub min: Option<f64>,
    pub max: Option<f64>,
    /// The required value: a minimum, or a maximum if less is better.
    pub at_least: Option<f64>,
    pub aim: Option<f64>,
    pub verdict: GoalVerdict,
    /// The reason why there is no value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The judgement of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GoalVerdict {
    /// The aim is reached.
    Aim,
    /// The requirement is met.
    Enough,
    /// The requirement is not met.
    Below,
    /// The peer is not installed.
    Absent,
    /// There is no value.
    Failed,
    /// Nothing is required.
    Information,
}

impl GoalVerdict {
    /// Returns true if `--check` accepts this verdict.
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

fn judge(value: f64, at_least: f64, aim: f64, more_is_better: bool) -> GoalVerdict {
    let reaches = |mark: f64| if more_is_better { value >= mark } else { value <= mark };
    match () {
        () if reaches(aim) => GoalVerdict::Aim,
        () if reaches(at_least) => GoalVerdict::Enough,
        () => GoalVerdict::Below,
    }
}

/// Returns the results of a row's goals, from its group's measurements.
pub fn row(group: &Group, row: &TableRow, goals: &[Goal], methods: &[MethodResult]) -> RowResult {
    let goals = goals.iter().map(|goal| goal_result(group, row, *goal, methods)).collect();
    RowResult { key: row.key, title: row.title.to_owned(), goals }
}

fn goal_result(group: &Group, row: &TableRow, goal: Goal, methods: &[MethodResult]) -> GoalResult {
    let find = |name: &str| methods.iter().find(|method| method.name == name);
    let ours = find(row.method);
    let theirs = goal.peer.and_then(find);
    let judged = goal.judged;
    let values = ours.and_then(|ours| values(judged, ours, theirs));
    let mut marks = goal.marks.filter(|_| !group.extra);
    if let (GoalQuantity::SecondsRepeated, Some((at_most, aim)), Some(ours)) = (judged, marks, ours) {
        marks = Some((allowed_seconds(at_most, ours), aim));
    }
    let (at_least, aim) = (marks.map(|marks| marks.0), marks.map(|marks| marks.1));
    let value = values.as_deref().and_then(median);
    let verdict = match (value, marks) {
        (Some(value), Some((at_least, aim))) => judge(value, at_least, aim, judged.more_is_better()),
        (Some(_), None) => GoalVerdict::Information,
        (None, _) if theirs.is_some_and(|theirs| theirs.absent.is_some()) => GoalVerdict::Absent,
        (None, Some(_)) => GoalVerdict::Failed,
        (None, None) => GoalVerdict::Information,
    };
    let middle = |method: Option<&MethodResult>| method.and_then(|method| median(&shown(judged, method)));
    GoalResult {
        peer: goal.peer.map(str::to_owned),
        unit: match judged {
            GoalQuantity::TimesFaster => ours.map_or(Unit::Seconds, |ours| ours.unit),
            GoalQuantity::TimesLonger | GoalQuantity::TimesCpu | GoalQuantity::Seconds => Unit::Seconds,
            GoalQuantity::TimesFewerBytes
            | GoalQuantity::Bytes
            | GoalQuantity::BytesRead
            | GoalQuantity::BytesRepeated
            | GoalQuantity::BytesMoved
            | GoalQuantity::SecondsRepeated => Unit::Bytes,
            GoalQuantity::TimesLists => Unit::Requests,
        },
        ours: middle(ours),
        theirs: middle(theirs),
        judged,
        value,
        min: values.as_ref().and_then(|values| values.iter().copied().reduce(f64::min)),
        max: values.as_ref().and_then(|values| values.iter().copied().reduce(f64::max)),
        at_least,
        aim,
        verdict,
        reason: value.is_none().then(|| reason(ours, theirs)),
    }
}

/// Returns the judged value of each round.
fn values(judged: GoalQuantity, ours: &MethodResult, theirs: Option<&MethodResult>) -> Option<Vec<f64>> {
    let values = match (judged, theirs) {
        (GoalQuantity::TimesFaster, Some(theirs)) => {
            // A method that would take too long is measured with less work, so its time is scaled up.
            let times = match (ours.kind.bytes(), theirs.kind.bytes()) {
                // Sources of empty files have no bytes, so equal sizes must not be divided.
                (ours, theirs) if ours == theirs => 1.0,
                (ours, theirs) => ours as f64 / theirs as f64,
            };
            let whole: Vec<f64> = theirs.net_seconds.iter().map(|seconds| seconds * times).collect();
            paired_ratios(&whole, &ours.net_seconds)
        }
        (GoalQuantity::TimesLonger, Some(theirs)) => paired_ratios(&ours.net_seconds, &theirs.net_seconds),
        (GoalQuantity::TimesFewerBytes, Some(theirs)) if ours.usable() && theirs.usable() => {
            paired_ratios(&travelled(theirs), &travelled(ours))
        }
        (GoalQuantity::Seconds, _) => Some(ours.net_seconds.clone()),
        (GoalQuantity::BytesRead, _) if ours.usable() => {
            read(ours).map(|rounds| rounds.iter().map(|bytes| bytes / ours.kind.bytes() as f64).collect())
        }
        (GoalQuantity::SecondsRepeated, _) if ours.usable() => repeated(ours)
            .map(|rounds| rounds.iter().map(|round| round.bytes / round.bytes_per_second).collect()),
        (GoalQuantity::TimesCpu, Some(theirs)) => paired_ratios(&cpu(ours), &cpu(theirs)),
        (GoalQuantity::BytesRepeated, _) if ours.usable() => {
            let size = ours.kind.bytes() as f64;
            Some(travelled(ours).iter().map(|bytes| (bytes - size).max(0.0)).collect())
        }
        (GoalQuantity::BytesMoved, _) if ours.usable() => {
            Some(travelled(ours).iter().map(|bytes| bytes / ours.kind.bytes() as f64).collect())
        }
        (GoalQuantity::TimesLists, _) => {
            let needed = ours.kind.entries().div_ceil(LISTED_AT_ONCE) as f64;
            ours.lists.map(|lists| vec![lists as f64 / needed])
        }
        (GoalQuantity::Bytes, _) => {
            ours.peaks.and_then(|peaks| peaks.near_bytes).map(|bytes| vec![bytes as f64])
        }
        _ => None,
    };
    values.filter(|rounds: &Vec<f64>| !rounds.is_empty())
}

/// Returns the measurement that is shown next to the value, for each round.
fn shown(judged: GoalQuantity, method: &MethodResult) -> Vec<f64> {
    match judged {
        GoalQuantity::TimesFaster => method.figures.clone(),
        GoalQuantity::TimesLonger | GoalQuantity::Seconds => method.net_seconds.clone(),
        GoalQuantity::TimesFewerBytes | GoalQuantity::BytesRepeated | GoalQuantity::BytesMoved => {
            travelled(method)
        }
        GoalQuantity::TimesCpu => cpu(method),
        GoalQuantity::TimesLists => method.lists.iter().map(|lists| *lists as f64).collect(),
        GoalQuantity::BytesRead => read(method).unwrap_or_default(),
        GoalQuantity::SecondsRepeated => {
            repeated(method).unwrap_or_default().iter().map(|round| round.bytes).collect()
        }
        GoalQuantity::Bytes => Vec::new(),
    }
}

fn cpu(method: &MethodResult) -> Vec<f64> {
    method.counted.iter().filter_map(|counted| counted.cpu_seconds).collect()
}

fn travelled(method: &MethodResult) -> Vec<f64> {
    method.counted.iter().map(|counted| counted.travelled_bytes as f64).collect()
}

/// Returns the bytes read in each round, at the end with more of them, or `None` if an end is not a disk.
fn read(method: &MethodResult) -> Option<Vec<f64>> {
    let most =
        |counted: &RunCounters| Some(counted.source_read_bytes?.max(counted.target_read_bytes?) as f64);
    method.counted.iter().map(most).collect()
}

/// The bytes read again after a kill, and the speed before the kill.
struct RepeatedWork {
    bytes: f64,
    bytes_per_second: f64,
}

fn repeated(method: &MethodResult) -> Option<Vec<RepeatedWork>> {
    let baseline = median(&method.baseline_seconds)?;
    let round = |counted: &RunCounters| {
        let killed = counted.killed?;
        let bytes = counted.source_read_bytes?.saturating_sub(method.kind.bytes()) as f64;
        let seconds = (killed.seconds - baseline).max(NET_LEAST_SECONDS);
        Some(RepeatedWork { bytes, bytes_per_second: killed.source_read_bytes as f64 / seconds })
    };
    method.counted.iter().map(round).collect()
}

/// Returns the permitted seconds, or the time that [`REPEATED_SHARE`] of the source takes if that is longer.
fn allowed_seconds(at_most: f64, method: &MethodResult) -> f64 {
    let share = REPEATED_SHARE * method.kind.bytes() as f64;
    let rounds = repeated(method).unwrap_or_default();
    let allowed: Vec<f64> = rounds.iter().map(|round| at_most.max(share / round.bytes_per_second)).collect();
    median(&allowed).unwrap_or(at_most)
}

fn reason(ours: Option<&MethodResult>, theirs: Option<&MethodResult>) -> String {
    let why = |method: &MethodResult| {
        let why = method.failed.as_ref().or(method.absent.as_ref())?;
        Some(format!("{}: {why}", method.name))
    };
    let reasons: Vec<String> = [ours, theirs].into_iter().flatten().filter_map(why).collect();
    if reasons.is_empty() { "not measured".to_owned() } else { reasons.join("; ") }
}

/// Returns true if one of our commands writes a report with its memory use.
fn reports(command: &str) -> bool {
    !command.starts_with("hakobu make-data ")
}

/// Returns true if one of our commands also has a hakobu process on the other host.
fn runs_there(command: &str) -> bool {
    command.contains("$HOST") && !command.contains("--transport sftp")
}

/// Returns the row on memory: one goal for each checked group that ran hakobu, with the larger of both processes.
pub fn memory(key: &'static str, title: &str, groups: &[GroupResult]) -> RowResult {
    let measured = |group: &GroupResult| -> Option<GoalResult> {
        let ours: Vec<&MethodResult> = group
            .methods
            .iter()
            .filter(|method| method.command.starts_with("hakobu ") && reports(&method.command))
            .filter(|method| !method.ends_early)
            .collect();
        if ours.is_empty() || group.extra {
            return None;
        }
        let of = |side: fn(&Peaks) -> Option<u64>| {
            ours.iter().filter_map(|method| side(method.peaks.as_ref()?)).max().map(|bytes| bytes as f64)
        };
        let (near, far) = (of(|peaks| peaks.near_bytes), of(|peaks| peaks.far_bytes));
        let value = [near, far].into_iter().flatten().reduce(f64::max);
        // A process that was not measured must not pass as a small one.
        let missing = ours.iter().any(|method| {
            let far_missing =
                runs_there(&method.command) && method.peaks.is_none_or(|peaks| peaks.far_bytes.is_none());
            far_missing || method.peaks.is_none_or(|peaks| peaks.near_bytes.is_none())
        });
        let (at_least, aim) = (MEMORY_AT_LEAST_BYTES as f64, MEMORY_AIM_BYTES as f64);
        let verdict = match value {
            Some(value) if !missing || value > at_least => judge(value, at_least, aim, false),
            _ => GoalVerdict::Failed,
        };
        Some(GoalResult {
            peer: Some(group.name.to_owned()),
            unit: Unit::Bytes,
            ours: near,
            theirs: far,
            judged: GoalQuantity::Bytes,
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

impl TableResults {
    /// Returns the lines that `--check` prints: one for each goal that is not met.
    pub fn shortfalls(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for row in &self.rows {
            for goal in row.goals.iter().filter(|goal| !goal.verdict.passes()) {
                let against = goal.peer.as_deref().unwrap_or("the clock");
                let value = goal.value.filter(|_| goal.verdict != GoalVerdict::Failed);
                let what = match (value, goal.at_least) {
                    (Some(value), Some(mark)) => goal.judged.shortfall(value, mark),
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
    use super::super::groups::TABLES;
    use super::super::runs::KilledRun;
    use super::*;

    /// Returns the group of the row `key`, in which our method takes `ours` net seconds and every other one `theirs`.
    fn measured(
        key: &str,
        ours: &[f64],
        theirs: &[f64],
    ) -> (&'static Group, &'static TableRow, Vec<MethodResult>) {
        // Two tables have a row `push`; take the one of `bench copy`, the first.
        let groups = TABLES.iter().flat_map(|table| table.groups);
        let mut groups = groups.filter(|group| group.rows.iter().any(|row| row.key == key));
        let group = groups.next().unwrap();
        let row = group.rows.iter().find(|row| row.key == key).unwrap();
        let methods = group.methods.iter().map(|method| {
            let mut result = MethodResult::new(method, method.source.unwrap_or(group.source));
            result.baseline_seconds = vec![0.5, 9.0, 0.5];
            let net = if method.name == row.method { ours } else { theirs };
            result.wall_seconds = net.iter().map(|net| net + 0.5).collect();
            result.complete();
            result
        });
        (group, row, methods.collect())
    }

    #[test]
    fn the_figure_is_the_median_of_each_rounds_ratio() {
        let (group, spec, methods) = measured("again-ssh", &[1.0, 2.0, 4.0], &[3.0, 5.0, 10.0]);
        let result = row(group, spec, spec.goals, &methods);
        let goal = &result.goals[0];
        assert_eq!((goal.value, goal.min, goal.max), (Some(2.5), Some(2.5), Some(3.0)));
        assert_eq!(goal.verdict, GoalVerdict::Enough);
        assert_eq!((goal.ours, goal.theirs), (Some(50_000.0), Some(20_000.0)));
    }

    #[test]
    fn a_method_with_a_part_of_the_work_counts_as_all_of_it() {
        let (group, spec, methods) = measured("divisible", &[2.0; 3], &[2.0; 3]);
        let result = row(group, spec, spec.goals, &methods);
        let ratios: Vec<_> = result.goals.iter().map(|goal| goal.value).collect();
        assert_eq!(ratios, [Some(40.0), Some(1.0)]);
    }

    #[test]
    fn empty_files_are_compared_by_time_as_all_others() {
        let (group, spec, methods) = measured("changed", &[1.0; 3], &[3.0; 3]);
        assert!(methods.iter().all(|method| method.kind.bytes() == 0));
        assert_eq!(row(group, spec, spec.goals, &methods).goals[0].value, Some(3.0));
    }

    #[test]
    fn seconds_are_judged_the_other_way_round() {
        for (seconds, verdict) in
            [(0.9, GoalVerdict::Aim), (2.0, GoalVerdict::Enough), (2.1, GoalVerdict::Below)]
        {
            let (group, spec, methods) = measured("link-tree", &[seconds; 3], &[4.0; 3]);
            let result = row(group, spec, spec.goals, &methods);
            assert_eq!(result.goals[0].verdict, verdict);
            assert_eq!(result.goals[0].ours, Some(seconds));
            assert_eq!(result.goals[1].verdict, GoalVerdict::Information);
        }
    }

    #[test]
    fn an_absent_peer_passes_and_a_failed_one_does_not() {
        let (group, spec, mut methods) = measured("tree-local", &[1.0; 3], &[4.0; 3]);
        for method in &mut methods[1..] {
            method.net_seconds.clear();
        }
        methods[1].failed = Some("exit status: 1".to_owned());
        methods[2].absent = Some("not installed".to_owned());
        let result = row(group, spec, spec.goals, &methods);
        assert_eq!(result.goals[0].verdict, GoalVerdict::Failed);
        assert!(!result.goals[0].verdict.passes());
        assert_eq!(result.goals[0].reason.as_deref(), Some("tar | tar: exit status: 1"));
        assert_eq!(result.goals[1].verdict, GoalVerdict::Absent);
        assert!(result.goals[1].verdict.passes());
    }

    #[test]
    fn memory_that_was_not_seen_is_not_small() {
        let (group, _, mut methods) = measured("again-ssh", &[1.0], &[1.0]);
        let peaks = |near, far| Some(Peaks { near_bytes: near, far_bytes: far });
        let mut judged = |peaks| {
            methods[0].peaks = peaks;
            let group = GroupResult {
                name: group.name,
                extra: group.extra,
                topology: "",
                source: String::new(),
                load_before: 0.0,
                link_late_most_ms: None,
                methods: methods.clone(),
            };
            memory("memory", "m", &[group]).goals[0].verdict
        };
        assert_eq!(judged(peaks(Some(50 << 20), Some(96 << 20))), GoalVerdict::Aim);
        assert_eq!(judged(peaks(Some(50 << 20), Some(97 << 20))), GoalVerdict::Enough);
        assert_eq!(judged(peaks(Some(257 << 20), Some(1 << 20))), GoalVerdict::Below);
        assert_eq!(judged(peaks(Some(50 << 20), None)), GoalVerdict::Failed);
        assert_eq!(judged(None), GoalVerdict::Failed);
        assert!(runs_there("hakobu copy $SOURCE $HOST:$TARGET"));
        assert!(!runs_there("hakobu copy --transport sftp $SOURCE $HOST:$TARGET"));
    }

    fn counted(travelled_bytes: u64, source: u64, target: u64) -> RunCounters {
        let (source_read_bytes, target_read_bytes) = (Some(source), Some(target));
        RunCounters { travelled_bytes, source_read_bytes, target_read_bytes, ..RunCounters::default() }
    }

    #[test]
    fn longer_is_worse() {
        for (seconds, verdict) in
            [(2.3, GoalVerdict::Aim), (3.0, GoalVerdict::Enough), (3.1, GoalVerdict::Below)]
        {
            let (group, spec, methods) = measured("medium", &[seconds; 3], &[2.0; 3]);
            let result = row(group, spec, spec.goals, &methods);
            assert_eq!(result.goals[0].verdict, verdict, "{seconds}");
            assert_eq!((result.goals[0].ours, result.goals[0].theirs), (Some(seconds), Some(2.0)));
        }
    }

    #[test]
    fn bytes_are_judged_by_the_host_or_the_method_that_had_more() {
        let (group, spec, mut methods) = measured("delta-read", &[1.0; 2], &[2.0; 2]);
        let size = group.source.bytes();
        let mut judged = |source, target| {
            methods[0].counted = vec![counted(0, source, target); 2];
            row(group, spec, spec.goals, &methods).goals[0].verdict
        };
        assert_eq!(judged(size, size + size / 100), GoalVerdict::Aim);
        assert_eq!(judged(size, size + size / 90), GoalVerdict::Below);
        assert_eq!(judged(size + size / 90, size), GoalVerdict::Below);
        methods[0].counted.clear();
        assert_eq!(row(group, spec, spec.goals, &methods).goals[0].verdict, GoalVerdict::Failed);

        let (group, spec, mut methods) = measured("zeros-image", &[1.0; 2], &[9.0; 2]);
        let index = methods.iter().position(|method| method.name == spec.method).unwrap();
        methods[index].counted = vec![counted(128, 0, 0); 2];
        methods[1 - index].counted = vec![counted(1024, 0, 0), counted(1152, 0, 0)];
        let goal = &row(group, spec, spec.goals, &methods).goals[1];
        assert_eq!((goal.value, goal.verdict), (Some(8.5), GoalVerdict::Aim));
        assert_eq!((goal.ours, goal.theirs), (Some(128.0), Some(1088.0)));
    }

    #[test]
    fn repeated_work_after_a_kill_is_given_in_seconds() {
        let (group, spec, mut methods) = measured("resume", &[1.0; 3], &[1.0; 3]);
        let index = methods.iter().position(|method| method.name == spec.method).unwrap();
        let size = group.source.bytes();
        // Baselines are 0.5 s: half of the source in one second of work.
        let killed = Some(KilledRun { seconds: 1.5, source_read_bytes: size / 2 });
        let mut judged = |again| {
            methods[index].counted = vec![RunCounters { killed, ..counted(0, size + again, 0) }; 3];
            let mut result = row(group, spec, spec.goals, &methods);
            let goal = result.goals.remove(0);
            (goal.value.unwrap(), goal.at_least.unwrap(), goal.verdict)
        };
        assert_eq!(judged(size / 4), (0.5, 2.0, GoalVerdict::Aim));
        assert_eq!(judged(size).2, GoalVerdict::Enough);
        assert_eq!(judged(size + size / 8).2, GoalVerdict::Below);
        // So slow that 2 % of the source take longer than two seconds.
        let killed = Some(KilledRun { seconds: 100.5, source_read_bytes: size / 2 });
        methods[index].counted = vec![RunCounters { killed, ..counted(0, size + size / 60, 0) }; 3];
        let goal = &row(group, spec, spec.goals, &methods).goals[0];
        assert!((goal.at_least.unwrap() - 4.0).abs() < 1e-6 && goal.verdict == GoalVerdict::Enough);
    }
}
