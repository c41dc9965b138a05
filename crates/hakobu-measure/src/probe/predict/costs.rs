//! What a byte costs the processors of both ends, and what they have to give.

use hakobu_core::probe::{MachineFigures, WayFigures, WayStep, Work, sound_rate};

use super::measured::Measured;
use super::prediction::Stage;

/// From here on the processors are what held what was measured, and not a line or a medium.
const OF_PROCESSORS: f64 = 0.6;
/// What processors do at least of what their figures promise, where several things want them.
const EFFICIENCY_MIN: f64 = 0.25;

/// What a byte costs, and what there is.
pub(super) struct Costs {
    /// Seconds of a processor for each byte at the source, and at the target.
    pub source: Option<f64>,
    pub target: Option<f64>,
    /// The parts of these that are not for files, but for what lies between them.
    pub send: f64,
    pub receive: f64,
    /// Processors that an end has for itself: of a machine of its own, or at most by a control group.
    own: (Option<f64>, Option<f64>),
    /// Processors that both have together.
    shared: Option<f64>,
    /// What part of their time the processors can be put to use, as connections have shown.
    efficiency: f64,
    /// The processors held the connections while these were measured.
    pub hold: bool,
}

impl Costs {
    pub fn of(measured: &Measured<'_>) -> Self {
        let best = measured.way.and_then(WayFigures::best);
        let (send, receive) = best.map_or_else(|| (hash_cost(measured.source_machine), Some(0.0)), of_step);
        // What the connections took may not be known; they hash in any case.
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
                // One that is held to a part of them may see fewer.
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

    /// How long work takes that costs each end's processors so many seconds.
    pub fn seconds(&self, source: f64, target: f64) -> f64 {
        let by = |work: f64, processors: Option<f64>| work / processors.unwrap_or(f64::INFINITY).max(1e-3);
        let each = by(source, self.own.0).max(by(target, self.own.1));
        each.max(by(source + target, self.shared)) / self.efficiency
    }

    /// What the processors get, as far as there are such and what they do is known.
    pub fn rates(&self) -> Vec<(Stage, Option<f64>)> {
        let rate = |processors: f64, cost: Option<f64>| sound_rate(self.efficiency * processors / cost?);
        let both = self.source.map(|source| source + self.target.unwrap_or(0.0));
        let of = |stage, processors: Option<f64>, cost| Some((stage, rate(processors?, cost)));
        let rates = [
            of(Stage::Processor, self.shared, both),
            of(Stage::SourceProcessor, self.own.0, self.source),
            of(Stage::TargetProcessor, self.own.1, self.target),
        ];
        rates.into_iter().flatten().collect()
    }

    /// Whether something that was measured was work for the processors of this end, and little else.
    pub fn is_work(&self, work: &Work, machine: Option<&MachineFigures>) -> bool {
        let (Some(rate), Some(each)) = (work.bytes_per_second(), work.processor_seconds_per_byte()) else {
            return false;
        };
        rate * each >= OF_PROCESSORS * usable(machine).min(f64::from(work.threads.max(1)))
    }
}

fn usable(machine: Option<&MachineFigures>) -> f64 {
    machine.map_or(1.0, MachineFigures::usable_processors)
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
