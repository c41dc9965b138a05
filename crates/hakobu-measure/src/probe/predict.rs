//! What a transfer will get, what will limit it, and how long it will take, from what was measured. Does no I/O.
//!
//! A stage that was not measured, or whose figures make no sense, is left out; what is said is then at most that fast.

use std::time::Duration;

use hakobu_core::probe::{
    MachineFigures, ReadFigures, ReadHow, TreeFigures, WayFigures, WayStep, Work, WriteFigures, WriteHow,
    sound_rate,
};

/// From here on the processors are what connections are held by, and not the line.
const OF_PROCESSORS: f64 = 0.6;
/// What processors do at least of what their figures promise, where several things want them.
const EFFICIENCY_MIN: f64 = 0.25;
/// What they do of it where no connections have shown it.
const EFFICIENCY: f64 = 0.85;
/// A large file's data is made stable about so often.
const FLUSH_EVERY: f64 = 1.0;
/// A file of this size is made stable while it is written.
const JOURNALED_BYTES: u64 = 64 << 20;
/// What a copy does for each small file besides what was measured, in seconds of a processor, at each end: to compare two
/// listings, to pack, to keep count.
const SOURCE_WORK_SECONDS: f64 = 6e-6;
const TARGET_WORK_SECONDS: f64 = 9e-6;
/// The same of an entry that is left alone.
const LISTED_WORK_SECONDS: f64 = 2.6e-6;
/// Operations under way at a time where they wait.
const UNDER_WAY: f64 = 10.0;
/// A listing has to be of so many entries to tell a rate.
const LISTED_MIN: u64 = 1000;
/// No transfer lasts longer than is worth telling: a hundred years.
const SECONDS_MAX: f64 = 3.2e9;

/// Questions and answers of a copy besides those of the login: to look at both ends, to end; and to list a tree, level by
/// level.
const ROUND_TRIPS: f64 = 6.0;
const ROUND_TRIPS_OF_A_TREE: f64 = 16.0;
/// From these round trips on a copy begins with so many lanes; below as many as processors, and so many at most.
const LONG_ROUND_TRIP: Duration = Duration::from_millis(10);
const LANES_ON_A_LONG_WAY: f64 = 10.0;
const VERY_LONG_ROUND_TRIP: Duration = Duration::from_millis(50);
const LANES_ON_A_VERY_LONG_WAY: f64 = 16.0;
const LANES_OF_PROCESSORS: f64 = 8.0;

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
    /// The way, from the source to the target; nothing where both are on one machine.
    pub way: Option<&'a WayFigures>,
    /// How long it took to log in and to make connections.
    pub start: Duration,
    /// A question and its answer.
    pub round_trip: Duration,
}

/// What limits a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading the source.
    SourceRead,
    /// The source's processors.
    SourceProcessor,
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
    let mut made = Prediction::default();
    let mut add = |stage, rate: Option<(f64, bool)>| match rate
        .and_then(|(rate, more)| Some((sound_rate(rate)?, more)))
    {
        Some((bytes_per_second, at_least)) => {
            made.stages.push(StageRate { stage, bytes_per_second, at_least });
        }
        None => made.unknown.push(stage),
    };
    if let Some(source) = measured.source.filter(|source| source.size_bytes > 0 || source.content.is_some()) {
        add(Stage::SourceRead, read_rate(source).map(|rate| (rate, false)));
    }
    match (costs.together, measured.way) {
        (true, _) => add(Stage::Processor, costs.both().map(|rate| (rate, false))),
        (false, _) => add(Stage::SourceProcessor, costs.source_rate().map(|rate| (rate, false))),
    }
    if let Some(way) = measured.way {
        let rate = way.best().and_then(|best| best.sent.bytes_per_second());
        add(Stage::Network, rate.map(|rate| (rate, way.at_least || costs.hold)));
    }
    if !costs.together {
        add(Stage::TargetProcessor, costs.target_rate().map(|rate| (rate, false)));
    }
    match measured.target {
        Some(target) if target.how == WriteHow::Nowhere => {}
        Some(target) if target.how == WriteHow::Written => {
            let rate = target.content.as_ref().and_then(Work::bytes_per_second);
            add(Stage::TargetWrite, rate.map(|rate| (rate, false)));
        }
        _ => add(Stage::TargetWrite, None),
    }
    lower(&mut made.stages, lanes(measured, &costs));
    // What only is known to be at least as fast limits nothing, unless nothing else is known.
    let slower =
        |one: &&StageRate, other: &&StageRate| one.bytes_per_second.total_cmp(&other.bytes_per_second);
    let certain = made.stages.iter().filter(|stage| !(stage.at_least && costs.hold));
    made.slowest = certain.min_by(slower).or_else(|| made.stages.iter().min_by(slower)).copied();
    let is_tree = measured.source.is_some_and(|source| source.tree.is_some());
    let bytes = measured.source.map_or(FILE_BYTES, |source| source.size_bytes);
    if !is_tree && bytes > 0 {
        made.file = file_span(&made, measured, bytes, lanes(measured, &costs)).map(|span| (bytes, span));
    }
    made.tree = tree(&made, measured, &costs);
    made
}

/// How many lanes a copy has.
fn lanes(measured: &Measured<'_>, costs: &Costs) -> f64 {
    match measured.way.map(|_| measured.round_trip) {
        Some(long) if long >= VERY_LONG_ROUND_TRIP => LANES_ON_A_VERY_LONG_WAY,
        Some(long) if long >= LONG_ROUND_TRIP => LANES_ON_A_LONG_WAY,
        _ => costs.processors.0.min(costs.processors.1).min(LANES_OF_PROCESSORS),
    }
}

/// A lane reads and works in turn: while it waits for the source, its processor does nothing for it. With few lanes that
/// is felt by both stages, of which the slower one keeps its name.
fn lower(stages: &mut [StageRate], lanes: f64) {
    let is_work = |stage: Stage| matches!(stage, Stage::Processor | Stage::SourceProcessor);
    let of = |wanted: &dyn Fn(Stage) -> bool| stages.iter().position(|stage| wanted(stage.stage));
    let (Some(read), Some(work)) = (of(&|stage| stage == Stage::SourceRead), of(&is_work)) else { return };
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

/// Reading, with what is in memory already at no time.
fn read_rate(source: &ReadFigures) -> Option<f64> {
    let rate = source.content.as_ref()?.bytes_per_second()?;
    let from_medium = if source.how == ReadHow::Dropped { 1.0 - source.cached_share() } else { 1.0 };
    sound_rate(rate / from_medium.max(0.01))
}

/// What a byte costs the processors.
struct Costs {
    /// Seconds for each byte at the source, and at the target.
    source: Option<f64>,
    target: Option<f64>,
    /// The part of both that is not for files, but for what lies between them.
    between: f64,
    processors: (f64, f64),
    /// What part of their time the processors can be put to use.
    efficiency: f64,
    /// Both ends have the same processors.
    together: bool,
    /// The processors held the connections while these were measured.
    hold: bool,
}

impl Costs {
    fn of(measured: &Measured<'_>) -> Self {
        let best = measured.way.and_then(WayFigures::best);
        let of = |machine: Option<&MachineFigures>| machine.map_or(1.0, MachineFigures::usable_processors);
        let processors = (of(measured.source_machine), of(measured.target_machine));
        let together = measured.way.is_none() || same_machine(measured);
        let (send, receive) = best.map_or_else(|| (hash_cost(measured.source_machine), Some(0.0)), of_step);
        // What the connections took may not be known; they hash in any case.
        let send = send.or_else(|| hash_cost(measured.source_machine));
        let (hold, efficiency) = match (best.and_then(|best| best.sent.bytes_per_second()), send, receive) {
            (Some(rate), Some(send), Some(receive)) => {
                let most = match together {
                    true => processors.0 / (send + receive),
                    false => (processors.0 / send).min(processors.1 / receive.max(1e-12)),
                };
                let share = rate / most;
                (
                    share >= OF_PROCESSORS,
                    if share >= OF_PROCESSORS { share.clamp(EFFICIENCY_MIN, 1.0) } else { EFFICIENCY },
                )
            }
            _ => (false, EFFICIENCY),
        };
        let copied = |machine: Option<&MachineFigures>| cost(machine?.copied_bytes_per_second);
        let read = measured.source.and_then(|source| source.content.as_ref()?.processor_seconds_per_byte());
        let read = read.or_else(|| copied(measured.source_machine)).unwrap_or(0.0);
        let written = measured.target.filter(|target| target.how == WriteHow::Written);
        let write =
            written.and_then(|target| target.in_memory.as_ref()?.processor_seconds_per_byte()).unwrap_or(0.0);
        Self {
            source: send.map(|send| send + read),
            target: receive.map(|receive| receive + write),
            between: send.unwrap_or(0.0) + receive.unwrap_or(0.0),
            processors,
            efficiency,
            together,
            hold,
        }
    }

    fn both(&self) -> Option<f64> {
        sound_rate(self.efficiency * self.processors.0 / (self.source? + self.target.unwrap_or(0.0)))
    }

    fn source_rate(&self) -> Option<f64> {
        sound_rate(self.efficiency * self.processors.0 / self.source?)
    }

    fn target_rate(&self) -> Option<f64> {
        sound_rate(self.efficiency * self.processors.1 / self.target?)
    }
}

/// Seconds for each byte at the sender, with the digest, and at the receiver.
fn of_step(step: &WayStep) -> (Option<f64>, Option<f64>) {
    let received = Work { processor_ns: step.receiver_processor_ns, ..step.sent };
    (step.sent.processor_seconds_per_byte(), received.processor_seconds_per_byte())
}

fn hash_cost(machine: Option<&MachineFigures>) -> Option<f64> {
    cost(machine?.hashed_bytes_per_second)
}

fn cost(bytes_per_second: u64) -> Option<f64> {
    sound_rate(bytes_per_second as f64).map(|rate| 1.0 / rate)
}

fn same_machine(measured: &Measured<'_>) -> bool {
    match (measured.source_machine, measured.target_machine) {
        (Some(one), Some(other)) => !one.boot_id.as_bytes().is_empty() && one.boot_id == other.boot_id,
        _ => false,
    }
}

/// How long one file takes.
fn file_span(made: &Prediction, measured: &Measured<'_>, bytes: u64, lanes: f64) -> Option<Span> {
    let slowest = made.slowest?;
    let seconds = measured.start.as_secs_f64()
        + measured.round_trip.as_secs_f64() * ROUND_TRIPS
        + moving(made, bytes, held(measured, bytes >= JOURNALED_BYTES, bytes), lanes);
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
fn moving(made: &Prediction, bytes: u64, held: Held, lanes: f64) -> f64 {
    let of_write = |stage: &&StageRate| stage.stage == Stage::TargetWrite;
    let write = made.stages.iter().find(of_write).map(|stage| stage.bytes_per_second);
    let certain = |stage: &&StageRate| !stage.at_least || made.slowest == Some(**stage);
    let before = made.stages.iter().filter(|stage| !of_write(stage) && certain(stage));
    let before = before.min_by(|one, other| one.bytes_per_second.total_cmp(&other.bytes_per_second));
    let bytes = bytes as f64;
    match (before, write) {
        (Some(before), None) => bytes / before.bytes_per_second,
        (None, Some(write)) => bytes / write,
        (None, None) => 0.0,
        (Some(before), Some(write)) => {
            let before = match held {
                // A lane makes stable what all have written, and does nothing else meanwhile: the line stays busy.
                Held::Seconds(_) if before.stage != Stage::Network => {
                    1.0 / (1.0 / before.bytes_per_second + 1.0 / (write * lanes))
                }
                _ => before.bytes_per_second,
            };
            let held = match held {
                Held::Bytes(held) => (held as f64).min(bytes),
                Held::Seconds(seconds) => (before * seconds).min(bytes),
            };
            match write < before {
                true => held / before + bytes / write,
                false => bytes / before + held / write,
            }
        }
    }
}

fn tree(made: &Prediction, measured: &Measured<'_>, costs: &Costs) -> Option<TreePrediction> {
    let source = measured.source?;
    let tree = source.tree.as_ref().filter(|tree| tree.is_sound())?;
    let scan = scan_seconds(tree, None)?;
    let there = measured.target.and_then(|target| target.tree.as_ref());
    let scan_there = scan_seconds(tree, there.filter(|there| there.entries() >= LISTED_MIN)).unwrap_or(scan);
    let begin = measured.start.as_secs_f64() + measured.round_trip.as_secs_f64() * ROUND_TRIPS_OF_A_TREE;
    let (source_processors, target_processors) = costs.processors;

    // A run that finds nothing: both sides list at a time, and each entry is compared.
    let listed = tree.entries() as f64 * LISTED_WORK_SECONDS;
    let unchanged = match costs.together {
        true => scan + scan_there + listed / source_processors,
        false => scan.max(scan_there) + listed / source_processors,
    };

    // The first copy: what each file costs at each end, and what all bytes cost.
    let small = small_costs(source, measured.target, tree);
    // What was measured of small files has reading and writing their bytes in it.
    let large_bytes = tree.bytes.saturating_sub(tree.small_bytes) as f64;
    let each = costs.source.unwrap_or(0.0) + costs.target.unwrap_or(0.0);
    let of_bytes = tree.small_bytes as f64 * costs.between + large_bytes * each;
    let (at_source, at_target) = (small.source_processor, small.target_processor);
    let processors = match costs.together {
        true => (at_source + at_target + of_bytes) / source_processors / costs.efficiency,
        false => (at_source / source_processors).max(at_target / target_processors) / costs.efficiency,
    };
    let listing = if costs.together { scan + processors } else { scan.max(processors) };
    let bytes = moving(
        made,
        tree.bytes,
        held(measured, tree.small_bytes < tree.bytes / 2, tree.bytes),
        lanes(measured, costs),
    );
    let parts = [
        ("cost of each file", listing),
        ("opening and reading small files", small.source_waiting / UNDER_WAY),
        ("making small files", small.target_waiting / UNDER_WAY),
        (made.slowest.map_or("bytes", |slowest| slowest.stage.name()), bytes),
    ];
    let (limited_by, longest) = parts.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(TreePrediction {
        first: bounded(begin + longest, limited_by)?,
        unchanged: bounded(begin + unchanged, "listing")?,
        at_least: !tree.complete,
    })
}

/// What small files cost, all together.
struct Small {
    source_processor: f64,
    target_processor: f64,
    source_waiting: f64,
    target_waiting: f64,
}

fn small_costs(source: &ReadFigures, target: Option<&WriteFigures>, tree: &TreeFigures) -> Small {
    let files = tree.small_files as f64;
    let each = |work: Option<&Work>| work.and_then(Work::processor_seconds_each).unwrap_or(0.0) * files;
    // Time of a thread that is not the processor's: waiting for a disk or a server.
    let waiting = |work: Option<&Work>| {
        let Some(work) = work else { return 0.0 };
        let (Some(rate), Some(each)) = (work.per_second(), work.processor_seconds_each()) else { return 0.0 };
        (f64::from(work.threads.max(1)) / rate - each).max(0.0) * files
    };
    let made = target.and_then(|target| target.small.as_ref());
    let read = source.small.as_ref();
    Small {
        source_processor: each(read) + files * SOURCE_WORK_SECONDS,
        target_processor: each(made) + files * TARGET_WORK_SECONDS,
        source_waiting: waiting(read),
        target_waiting: waiting(made),
    }
}

/// Seconds to list as many entries as the tree has, at the rate of another tree or its own.
fn scan_seconds(tree: &TreeFigures, like: Option<&TreeFigures>) -> Option<f64> {
    let rate = like.unwrap_or(tree).scan.per_second()?;
    Some(tree.entries() as f64 / rate)
}

fn bounded(seconds: f64, limited_by: &'static str) -> Option<Span> {
    (seconds.is_finite() && seconds >= 0.0).then(|| Span { seconds: seconds.min(SECONDS_MAX), limited_by })
}

#[cfg(test)]
mod tests;
