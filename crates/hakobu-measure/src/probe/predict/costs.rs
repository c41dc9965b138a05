//! Computes the processor time per byte at both ends, and the processors that are available.

use hakobu_core::probe::{MachineFigures, MeasuredWork, WayFigures, WayStep, sound_rate};

use super::measured::Measurements;
use super::prediction::TransferStage;

/// The share of processor time from which the processors, and not a link or a medium, limited a measurement.
const OF_PROCESSORS: f64 = 0.6;
/// The minimum efficiency of processors that several tasks share, as a share of their figures.
const EFFICIENCY_MIN: f64 = 0.25;

/// The cost of a byte, and the available processors.
pub(super) struct Costs {
    /// The processor seconds per byte at the source and at the target.
    pub source: Option<f64>,
    pub target: Option<f64>,
    /// The parts of these costs that are for the connection, not for files.
    pub send: f64,
    pub receive: f64,
    /// The processors that only one end uses: those of its own machine, or the quota of its control group.
    own: (Option<f64>, Option<f64>),
    /// The processors that both ends share.
    shared: Option<f64>,
    /// The share of the processors' time that connections were able to use.
    efficiency: f64,
    /// True if the processors limited the connections during their measurement.
    pub hold: bool,
}

impl Costs {
    pub fn of(measured: &Measurements<'_>) -> Self {
        let best = measured.way.and_then(WayFigures::best);
        let (send, receive) = best.map_or_else(|| (hash_cost(measured.source_machine), Some(0.0)), of_step);
        // The cost of the connections may be unknown, but hashing is always needed.
        let send = send.or_else(|| hash_cost(measured.source_machine));
        let copied = |machine: Option<&MachineFigures>| cost(machine?.copied_bytes_per_second);
        let read = measured.source.and_then(|source| source.content.as_ref()?.processor_seconds_per_byte());
        let read = read.or_else(|| copied(measured.source_machine)).unwrap_or(0.0);
        let written = measured.target.filter(|target| target.is_of_writing());
        let write =
            written.and_then(|target| target.in_memory.as_ref()?.processor_seconds_per_byte()).unwrap_or(0.0);
        let together = !measured.apart || same_machine(measured);
        let of = |machine: Option<&MachineFigures>| match together {
            true => machine?.quota(),
            false => Some(usable(machine)),
        };
        let all =
            |machine: Option<&MachineFigures>| machine.map_or(1.0, |machine| f64::from(machine.processors));
        let (own, shared) = match measured.apart {
            // One process has both ends.
            false => ((None, None), Some(usable(measured.source_machine))),
            true => (
                (of(measured.source_machine), of(measured.target_machine)),
                // An end that is restricted to some of the processors may see fewer.
                together.then(|| all(measured.source_machine).max(all(measured.target_machine))),
            ),
        };
        let mut costs = Self {
            source: send.map(|send| send + read),
            target: receive.map(|receive| receive + write),
            send: send.unwrap_or(0.0),
            receive: receive.unwrap_or(0.0),
            own,
            shared,
            efficiency: 1.0,
            hold: false,
        };
        let carried = best.and_then(|best| best.sent.bytes_per_second());
        let share = carried.map(|rate| rate * costs.seconds(costs.send, costs.receive));
        costs.hold = share.is_some_and(|share| share >= OF_PROCESSORS);
        if let Some(share) = share.filter(|_| costs.hold) {
            costs.efficiency = share.clamp(EFFICIENCY_MIN, 1.0);
        }
        costs
    }

    /// Returns the duration of work that costs this many processor seconds at each end.
    pub fn seconds(&self, source: f64, target: f64) -> f64 {
        let by = |work: f64, processors: Option<f64>| work / processors.unwrap_or(f64::INFINITY).max(1e-3);
        let each = by(source, self.own.0).max(by(target, self.own.1));
        each.max(by(source + target, self.shared)) / self.efficiency
    }

    /// Returns the rates of the processors in bytes per second, as far as processors and costs are known.
    pub fn rates(&self) -> Vec<(TransferStage, Option<f64>)> {
        let rate = |processors: f64, cost: Option<f64>| sound_rate(self.efficiency * processors / cost?);
        let both = self.source.map(|source| source + self.target.unwrap_or(0.0));
        let of = |stage, processors: Option<f64>, cost| Some((stage, rate(processors?, cost)));
        let rates = [
            of(TransferStage::Processor, self.shared, both),
            of(TransferStage::SourceProcessor, self.own.0, self.source),
            of(TransferStage::TargetProcessor, self.own.1, self.target),
        ];
        rates.into_iter().flatten().collect()
    }

    /// Returns true if a measurement was limited by the processors of this end.
    pub fn is_work(&self, work: &MeasuredWork, machine: Option<&MachineFigures>) -> bool {
        let (Some(rate), Some(each)) = (work.bytes_per_second(), work.processor_seconds_per_byte()) else {
            return false;
        };
        rate * each >= OF_PROCESSORS * usable(machine).min(f64::from(work.threads.max(1)))
    }
}

fn usable(machine: Option<&MachineFigures>) -> f64 {
    machine.map_or(1.0, MachineFigures::usable_processors)
}

/// Returns the processor seconds per byte at the sender, including the digest, and at the receiver.
fn of_step(step: &WayStep) -> (Option<f64>, Option<f64>) {
    let received = MeasuredWork { processor_ns: step.receiver_processor_ns, ..step.sent };
    (step.sent.processor_seconds_per_byte(), received.processor_seconds_per_byte())
}

fn hash_cost(machine: Option<&MachineFigures>) -> Option<f64> {
    cost(machine?.hashed_bytes_per_second)
}

fn cost(bytes_per_second: u64) -> Option<f64> {
    sound_rate(bytes_per_second as f64).map(|rate| 1.0 / rate)
}

fn same_machine(measured: &Measurements<'_>) -> bool {
    match (measured.source_machine, measured.target_machine) {
        (Some(one), Some(other)) => !one.boot_id.as_bytes().is_empty() && one.boot_id == other.boot_id,
        _ => false,
    }
}
