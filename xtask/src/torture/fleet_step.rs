//! A step that a fleet carries out: how fast, and with which fault. The fleet itself is in
//! [`environment::fleet`](super::environment::fleet).

use serde::{Deserialize, Serialize};

use super::environment::fleet::faults::FleetFault;
use super::rng::Rng;
use super::step::{Shape, Step, StepVerb};

/// The part of a step that says how a fleet carries it out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FleetStep {
    /// The operations a second that are allowed for a time, and that time in milliseconds. A unit gives something away
    /// when it has worked for half a second while other brokers are idle.
    #[serde(default)]
    pub slow: Option<(u32, u64)>,
    /// True if the fleet compares both sides at the end. Differences are failures.
    #[serde(default)]
    pub verify: bool,
    /// True if the fleet also carries out the second run.
    #[serde(default)]
    pub repeats: bool,
    /// The fault during the run. The promise is that of a run without one.
    #[serde(default)]
    pub fault: Option<FleetFault>,
}

impl FleetStep {
    /// Returns a random part.
    pub fn random(rng: &mut Rng) -> Self {
        let slow =
            rng.percent(70).then(|| (rng.pick(&[20, 40, 80, 150]), rng.pick(&[1_500, 2_500, 4_000, 5_000])));
        let fault = slow.filter(|_| rng.percent(50)).map(|(_, ms)| random_fault(rng, ms));
        Self { slow, verify: rng.percent(10), repeats: rng.percent(30), fault }
    }
}

/// Returns a random fault of a run that takes at least so many milliseconds.
fn random_fault(rng: &mut Rng, ms: u64) -> FleetFault {
    let after_ms = rng.between(100, ms);
    let down_ms = rng.pick(&[0, 200, 1_000, 3_000]);
    match rng.below(12) {
        0..4 => FleetFault::BrokersKilled { count: rng.pick(&[1, 1, 2, 3]), after_ms, down_ms },
        // A lease lasts two seconds.
        4..6 => FleetFault::BrokerStopped { after_ms, ms: rng.pick(&[1_000, 2_000, 4_000, 4_500]) },
        6 => FleetFault::BrokerEnded { after_ms },
        7..9 => FleetFault::ServeKilled { after_ms, down_ms },
        9 | 10 => FleetFault::NatsKilled { after_ms, down_ms },
        _ => FleetFault::StreamsDeleted { after_ms },
    }
}

impl Step {
    /// Has a fleet carry out the step, without what a fleet refuses and what it does not promise: changes of a dry run,
    /// lists of changes, lists of paths in files, and changes in place.
    pub fn give_to_fleet(&mut self, part: FleetStep) {
        self.fleet = Some(part);
        self.fit_fleet();
    }

    /// Removes from a step what the fleet that carries it out refuses.
    pub fn fit_fleet(&mut self) {
        if self.fleet.is_none() {
            return;
        }
        if matches!(self.verb, StepVerb::Verify | StepVerb::Digest) {
            self.verb = StepVerb::Copy;
        }
        // `sync` changes a single file in place.
        if matches!(self.shape, Shape::OneFile(_)) && self.verb == StepVerb::Sync {
            self.verb = StepVerb::Copy;
            self.whole_file = false;
        }
        // During a run nobody can be asked.
        self.delete |= self.verb == StepVerb::Sync;
        (self.dry_run, self.in_place) = (false, false);
        (self.itemize, self.json, self.log) = (false, false, false);
        self.files_from = None;
        self.fault = None;
        self.manner.retain(|option| option != "--quiet");
    }

    /// Returns the step as it is repeated: without a fault, and by the fleet only if that is wanted.
    pub fn repeated(&self) -> Self {
        let fleet = self.fleet.as_ref().filter(|part| part.repeats);
        let fleet = fleet.map(|part| FleetStep { slow: None, fault: None, verify: false, ..part.clone() });
        Self { fleet, fault: None, ..self.clone() }
    }
}
