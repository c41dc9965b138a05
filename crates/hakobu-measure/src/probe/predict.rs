//! Predicts the rate, the bottleneck and the duration of a transfer from measurements. Does no I/O.
//!
//! A stage that was not measured, or whose figures are implausible, is omitted. The prediction is then an upper limit
//! of the speed.

use hakobu_core::probe::{MachineFigures, MeasuredWork, ReadFigures, ReadHow, WriteHow, sound_rate};

use self::costs::Costs;
pub use self::measured::Measurements;
use self::moving::{held, moving};
pub use self::prediction::{PredictedTime, Prediction, StageRate, TransferStage, TreePrediction};
use self::prediction::{bounded, slower};
use self::tree::tree;

mod costs;
mod measured;
mod moving;
mod prediction;
mod tree;

/// The file size in bytes from which data is made stable while the file is being written.
const JOURNALED_BYTES: u64 = 64 << 20;

/// The number of round trips of a copy in addition to the login: to inspect both ends, and to finish.
const ROUND_TRIPS: f64 = 6.0;

/// The size of the file to predict if there is none, in bytes.
const FILE_BYTES: u64 = 2 << 30;

/// Predicts a transfer.
pub fn predict(measured: &Measurements<'_>) -> Prediction {
    let costs = Costs::of(measured);
    let mut made = stages(measured, &costs);
    lower(&mut made.stages, f64::from(measured.lanes()));
    // A stage with only a lower limit cannot be the bottleneck, unless nothing else is known.
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

/// Returns the rate of each stage on its own.
fn stages(measured: &Measurements<'_>, costs: &Costs) -> Prediction {
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
        add(TransferStage::SourceRead, read_rate(source, measured.source_machine), measured.gentle, is_held);
    }
    let (before, behind): (Vec<_>, Vec<_>) =
        costs.rates().into_iter().partition(|(stage, _)| *stage != TransferStage::TargetProcessor);
    before.into_iter().for_each(|(stage, rate)| add(stage, rate, false, false));
    if let Some(limit) = measured.limit_bytes_per_second {
        add(TransferStage::Limit, Some(limit as f64), false, false);
    }
    if measured.apart && measured.way.is_none() {
        add(TransferStage::Network, None, false, false);
    }
    if let Some(way) = measured.way {
        let most = way.up_to(measured.lanes.1.max(measured.lanes()));
        let rate = most.and_then(|step| step.sent.bytes_per_second());
        add(TransferStage::Network, rate, way.at_least, costs.hold);
    }
    behind.into_iter().for_each(|(stage, rate)| add(stage, rate, false, false));
    match measured.target {
        Some(target) if target.how == WriteHow::Nowhere => {}
        Some(target) if target.is_of_writing() => {
            let rate = target.content.as_ref().and_then(MeasuredWork::bytes_per_second);
            let is_held =
                target.content.as_ref().is_some_and(|work| costs.is_work(work, measured.target_machine));
            add(TransferStage::TargetWrite, rate, measured.gentle, is_held);
        }
        _ => add(TransferStage::TargetWrite, None, false, false),
    }
    made
}

/// Lowers the rate of the slower of reading and processing. A lane reads and processes in turn, and while it waits
/// for the source it uses no processor. With few lanes this affects both stages, and the slower one keeps its name.
fn lower(stages: &mut [StageRate], lanes: f64) {
    let is_work =
        |stage: TransferStage| matches!(stage, TransferStage::Processor | TransferStage::SourceProcessor);
    let of = |wanted: &dyn Fn(TransferStage) -> bool| stages.iter().position(|stage| wanted(stage.stage));
    let (Some(read), Some(work)) = (of(&|stage| stage == TransferStage::SourceRead), of(&is_work)) else {
        return;
    };
    if stages[read].is_held {
        return;
    }
    let together = in_turn(stages[read].bytes_per_second, stages[work].bytes_per_second, lanes);
    let slower = if stages[read].bytes_per_second < stages[work].bytes_per_second { read } else { work };
    stages[slower].bytes_per_second = together.min(stages[slower].bytes_per_second);
}

/// Returns the rate of `lanes` lanes that alternate between two stages with these rates, each of which serves one
/// lane at a time (mean value analysis of a closed network of queues).
fn in_turn(one: f64, other: f64, lanes: f64) -> f64 {
    let (mut rate, mut waiting) = (0.0, [0.0, 0.0]);
    for count in 1..=(lanes.max(1.0) as u32) {
        let times = [(1.0 + waiting[0]) / one, (1.0 + waiting[1]) / other];
        rate = f64::from(count) / (times[0] + times[1]);
        waiting = times.map(|time| rate * time);
    }
    rate
}

/// Returns the rate of reading. Data that is already cached needs no access to the medium, but no read is faster than
/// copying within memory.
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

/// Returns the duration of one file.
fn file_span(made: &Prediction, measured: &Measurements<'_>, bytes: u64) -> Option<PredictedTime> {
    let slowest = made.slowest?;
    let seconds = measured.start.as_secs_f64()
        + measured.round_trip.as_secs_f64() * ROUND_TRIPS
        + moving(made, measured, bytes, held(measured, bytes >= JOURNALED_BYTES, bytes));
    bounded(seconds, slowest.stage.name())
}

#[cfg(test)]
mod tests;
