//! What a transfer will get, what will limit it, and how long it will take, from what was measured. Does no I/O.
//!
//! A stage that was not measured, or whose figures make no sense, is left out; what is said is then at most that fast.

use std::time::Duration;

use hakobu_core::probe::{
    MachineFigures, ReadFigures, ReadHow, WayFigures, Work, WriteFigures, WriteHow, sound_rate,
};

use costs::Costs;
use tree::tree;

mod costs;
mod tree;

/// A large file's data is made stable about so often.
const FLUSH_EVERY: f64 = 1.0;
/// A file of this size is made stable while it is written.
const JOURNALED_BYTES: u64 = 64 << 20;
/// No transfer lasts longer than is worth telling: a hundred years.
const SECONDS_MAX: f64 = 3.2e9;

/// Questions and answers of a copy besides those of the login: to look at both ends, and to end.
const ROUND_TRIPS: f64 = 6.0;
/// So long a copy goes on with the lanes that it began with, until it has found out that more carry more.
const TUNING_SECONDS: f64 = 10.0;

/// What was measured; nothing where it was not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured<'a> {
    /// The place that is read. Without one content comes out of memory.
    pub source: Option<&'a ReadFigures>,
    /// The place that is written to.
    pub target: Option<&'a WriteFigures>,
    /// The machine that has the source.
    pub source_machine: Option<&'a MachineFigures>,
    /// The machine that has the target.
    pub target_machine: Option<&'a MachineFigures>,
    /// The way, from the source to the target.
    pub way: Option<&'a WayFigures>,
    /// Whether there is one: both ends are not in one process.
    pub apart: bool,
    /// How long it took to log in and to make connections.
    pub start: Duration,
    /// A question and its answer.
    pub round_trip: Duration,
    /// How many lanes a copy begins with, and how many it may have in the end.
    pub lanes: (u16, u16),
    /// Bytes a second that a copy is held to, if it is.
    pub limit_bytes_per_second: Option<u64>,
    /// Both places were measured with little load, so they may well do more.
    pub gentle: bool,
}

impl Measured<'_> {
    /// How many it begins with.
    fn lanes(&self) -> u16 {
        self.lanes.0.max(1)
    }
}

/// What limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the source.
    SourceRead,
    /// The source's processors.
    SourceProcessor,
    /// What the copy is held to.
    Limit,
    /// The line.
    Network,
    /// The target's processors.
    TargetProcessor,
    /// The processors that both ends have.
    Processor,
    /// Writing the target.
    TargetWrite,
}

impl Stage {
    /// Its name, as reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::SourceRead => "source read",
            Self::SourceProcessor => "source processor",
            Self::Limit => "rate limit",
            Self::Network => "network",
            Self::TargetProcessor => "target processor",
            Self::Processor => "processors of both ends",
            Self::TargetWrite => "target write",
        }
    }
}

/// What one stage gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageRate {
    /// Which.
    pub stage: Stage,
    /// Bytes a second.
    pub bytes_per_second: f64,
    /// Whether it may be more: something else held it while it was measured.
    pub at_least: bool,
    /// Whether that were processors, which are a stage of their own: then it limits nothing.
    pub is_held: bool,
}

/// How long something takes, and what limits it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// From the start to the end, with the login.
    pub seconds: f64,
    /// What most of it is.
    pub limited_by: &'static str,
}

/// What a tree takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreePrediction {
    /// The first copy.
    pub first: Span,
    /// A run that finds nothing to do.
    pub unchanged: Span,
    /// The tree was not listed to its end, so both take longer.
    pub at_least: bool,
}

/// What a transfer will get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// What each stage gets, in the order of the data.
    pub stages: Vec<StageRate>,
    /// What the slowest gets, and which that is.
    pub slowest: Option<StageRate>,
    /// How long so many bytes in one file take: those of the source, or 2 GiB.
    pub file: Option<(u64, Span)>,
    /// The same for the source's tree.
    pub tree: Option<TreePrediction>,
    /// Stages that are not known.
    pub unknown: Vec<Stage>,
}

/// The file that is told of where there is none.
const FILE_BYTES: u64 = 2 << 30;

/// Says what a transfer will get.
pub fn predict(measured: &Measured<'_>) -> Prediction {
    let costs = Costs::of(measured);
    let mut made = stages(measured, &costs);
    lower(&mut made.stages, f64::from(measured.lanes()));
    // What only is known to be at least as fast limits nothing, unless nothing else is known.
    made.slowest = made
        .stages
        .iter()
        .filter(|stage| !stage.is_held)
        .min_by(slower)
        .or_else(|| made.stages.iter().min_by(slower))
        .copied();
    let is_tree = measured.source.is_some_and(|source| source.tree.is_some());
    let bytes = measured.source.map_or(FILE_BYTES, |source| source.size_bytes);
    if !is_tree && bytes > 0 {
        made.file = file_span(&made, measured, bytes).map(|span| (bytes, span));
    }
    made.tree = tree(&made, measured, &costs);
    made
}

fn slower(one: &&StageRate, other: &&StageRate) -> std::cmp::Ordering {
    one.bytes_per_second.total_cmp(&other.bytes_per_second)
}

/// The stages that may limit something.
fn certain(made: &Prediction) -> impl Iterator<Item = &StageRate> {
    made.stages.iter().filter(|stage| !stage.is_held || made.slowest == Some(**stage))
}

/// What each stage gets by itself.
fn stages(measured: &Measured<'_>, costs: &Costs) -> Prediction {
    let mut made = Prediction::default();
    let mut add = |stage, rate: Option<f64>, at_least, is_held| match rate.and_then(sound_rate) {
        Some(bytes_per_second) => {
            made.stages.push(StageRate { stage, bytes_per_second, at_least: at_least || is_held, is_held });
        }
        None => made.unknown.push(stage),
    };
    if let Some(source) = measured.source.filter(|source| source.size_bytes > 0 || source.content.is_some()) {
        let is_held =
            source.content.as_ref().is_some_and(|work| costs.is_work(work, measured.source_machine));
        add(Stage::SourceRead, read_rate(source, measured.source_machine), measured.gentle, is_held);
    }
    let (before, behind): (Vec<_>, Vec<_>) =
        costs.rates().into_iter().partition(|(stage, _)| *stage != Stage::TargetProcessor);
    before.into_iter().for_each(|(stage, rate)| add(stage, rate, false, false));
    if let Some(limit) = measured.limit_bytes_per_second {
        add(Stage::Limit, Some(limit as f64), false, false);
    }
    if measured.apart && measured.way.is_none() {
        add(Stage::Network, None, false, false);
    }
    if let Some(way) = measured.way {
        let most = way.up_to(measured.lanes.1.max(measured.lanes()));
        let rate = most.and_then(|step| step.sent.bytes_per_second());
        add(Stage::Network, rate, way.at_least, costs.hold);
    }
    behind.into_iter().for_each(|(stage, rate)| add(stage, rate, false, false));
    match measured.target {
        Some(target) if target.how == WriteHow::Nowhere => {}
        Some(target) if target.is_of_writing() => {
            let rate = target.content.as_ref().and_then(Work::bytes_per_second);
            let is_held =
                target.content.as_ref().is_some_and(|work| costs.is_work(work, measured.target_machine));
            add(Stage::TargetWrite, rate, measured.gentle, is_held);
        }
        _ => add(Stage::TargetWrite, None, false, false),
    }
    made
}

/// A lane reads and works in turn: while it waits for the source, its processor does nothing for it. With few lanes that
/// is felt by both stages, of which the slower one keeps its name.
fn lower(stages: &mut [StageRate], lanes: f64) {
    let is_work = |stage: Stage| matches!(stage, Stage::Processor | Stage::SourceProcessor);
    let of = |wanted: &dyn Fn(Stage) -> bool| stages.iter().position(|stage| wanted(stage.stage));
    let (Some(read), Some(work)) = (of(&|stage| stage == Stage::SourceRead), of(&is_work)) else { return };
    if stages[read].is_held {
        return;
    }
    let together = in_turn(stages[read].bytes_per_second, stages[work].bytes_per_second, lanes);
    let slower = if stages[read].bytes_per_second < stages[work].bytes_per_second { read } else { work };
    stages[slower].bytes_per_second = together.min(stages[slower].bytes_per_second);
}

/// What so many lanes get that go back and forth between two stages of these rates, each of which serves one at a time
/// (mean value analysis of a closed network of queues).
fn in_turn(one: f64, other: f64, lanes: f64) -> f64 {
    let (mut rate, mut waiting) = (0.0, [0.0, 0.0]);
    for count in 1..=(lanes.max(1.0) as u32) {
        let times = [(1.0 + waiting[0]) / one, (1.0 + waiting[1]) / other];
        rate = f64::from(count) / (times[0] + times[1]);
        waiting = times.map(|time| rate * time);
    }
    rate
}

/// Reading, of which what is in memory already costs the medium nothing; nobody reads that faster than it is copied there.
fn read_rate(source: &ReadFigures, machine: Option<&MachineFigures>) -> Option<f64> {
    let rate = source.content.as_ref()?.bytes_per_second()?;
    if source.how != ReadHow::Dropped || source.cached_share() == 0.0 {
        return sound_rate(rate);
    }
    let from_medium = rate / (1.0 - source.cached_share()).max(0.01);
    let copied = machine
        .and_then(|machine| sound_rate(machine.copied_bytes_per_second as f64 * machine.usable_processors()));
    sound_rate(from_medium.min(copied.unwrap_or(f64::INFINITY)).max(rate))
}

/// How long one file takes.
fn file_span(made: &Prediction, measured: &Measured<'_>, bytes: u64) -> Option<Span> {
    let slowest = made.slowest?;
    let seconds = measured.start.as_secs_f64()
        + measured.round_trip.as_secs_f64() * ROUND_TRIPS
        + moving(made, measured, bytes, held(measured, bytes >= JOURNALED_BYTES, bytes));
    bounded(seconds, slowest.stage.name())
}

/// What is held in memory at the end of the copy, and is written then.
fn held(measured: &Measured<'_>, journaled: bool, bytes: u64) -> Held {
    let system = measured.target.and_then(|target| target.held_bytes);
    match journaled {
        true => Held::Seconds(FLUSH_EVERY),
        false => Held::Bytes(system.unwrap_or(bytes).min(bytes)),
    }
}

#[derive(Clone, Copy)]
enum Held {
    Bytes(u64),
    Seconds(f64),
}

/// Seconds to move so many bytes: to the target's memory at the pace of everything before, and from there to its medium,
/// which begins once some are held.
fn moving(made: &Prediction, measured: &Measured<'_>, bytes: u64, held: Held) -> f64 {
    let of_write = |stage: &&StageRate| stage.stage == Stage::TargetWrite;
    let write = certain(made).find(of_write).map(|stage| stage.bytes_per_second);
    let before = certain(made).filter(|stage| !of_write(stage)).min_by(slower);
    let tuned = before.map_or(0.0, |before| tuned_seconds(measured, before, bytes));
    let bytes = bytes as f64;
    match (before, write) {
        (Some(before), None) => tuned + bytes / before.bytes_per_second,
        (None, Some(write)) => bytes / write,
        (None, None) => 0.0,
        (Some(before), Some(write)) => {
            let before = match held {
                // A lane makes stable what all have written, and does nothing else meanwhile: the line stays busy, and a limit is made up for.
                Held::Seconds(_) if !matches!(before.stage, Stage::Network | Stage::Limit) => {
                    1.0 / (1.0 / before.bytes_per_second + 1.0 / (write * f64::from(measured.lanes())))
                }
                _ => before.bytes_per_second,
            };
            let held = match held {
                Held::Bytes(held) => (held as f64).min(bytes),
                Held::Seconds(seconds) => (before * seconds).min(bytes),
            };
            match write < before {
                true => held / before + bytes / write,
                false => tuned + bytes / before + held / write,
            }
        }
    }
}

/// What it takes longer to find out that more lanes carry more than it begins with.
fn tuned_seconds(measured: &Measured<'_>, slowest: &StageRate, bytes: u64) -> f64 {
    let Some(way) = measured.way.filter(|_| slowest.stage == Stage::Network) else { return 0.0 };
    let first = way.up_to(measured.lanes()).and_then(|step| step.sent.bytes_per_second());
    let Some(first) = first.filter(|first| *first < slowest.bytes_per_second) else { return 0.0 };
    let at_first = (bytes as f64).min(first * TUNING_SECONDS);
    at_first / first - at_first / slowest.bytes_per_second
}

fn bounded(seconds: f64, limited_by: &'static str) -> Option<Span> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Span { seconds: seconds.min(SECONDS_MAX), limited_by })
}

#[cfg(test)]
mod tests;
