//! Which facts hold transfers back, what to do about each, and what is to be expected of it.
//!
//! Pure: facts in, findings out. Only what is predicted to matter is said; on a host that is already right, nothing.

mod machine;
mod network;
mod queues;
mod sshd;
mod window;

#[cfg(test)]
mod tests;

use std::time::Duration;

use hakobu_core::host::{HostFacts, Name};

pub use queues::SHAPED;

/// What a way should get where its capacity is not known: 1 Gbit/s.
const WANTED_BYTES_PER_SECOND: f64 = 125e6;
/// A rate below this share of what is wanted is worth a word.
const ENOUGH: f64 = 0.8;

/// The way between the two machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// How long a question and its answer take.
    pub round_trip: Duration,
    /// Whether that was measured: with no other machine named, a way is assumed.
    pub measured: bool,
    /// What the way carries in bytes per second, all connections together, if that was measured.
    pub capacity_bytes_per_second: Option<u64>,
    /// How many connections hakobu opens.
    pub lanes: u16,
}

impl Way {
    /// The way that is assumed where no other machine is named: a long one, where windows matter most.
    pub fn assumed(lanes: u16) -> Self {
        Self {
            round_trip: Duration::from_millis(100),
            measured: false,
            capacity_bytes_per_second: None,
            lanes,
        }
    }

    fn round_trip_s(&self) -> f64 {
        // What is measured over ssh is never shorter than this, and nothing is divided by 0.
        self.round_trip.as_secs_f64().max(1e-6)
    }

    /// For people, with its unit.
    fn shown(&self) -> String {
        format!("{:.1} ms", self.round_trip_s() * 1e3).replace(".0 ms", " ms")
    }
}

/// Where a capacity comes from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    /// It was measured.
    Measured(f64),
    /// The slower of the network devices; the way may carry less.
    Devices(f64),
    /// It is not known.
    Unknown,
}

impl Capacity {
    /// Bytes per second, if they are known.
    fn known(self) -> Option<f64> {
        match self {
            Self::Measured(rate) | Self::Devices(rate) => Some(rate),
            Self::Unknown => None,
        }
    }

    /// A rate, but no more than this.
    fn bounded(self, rate: f64) -> f64 {
        self.known().map_or(rate, |most| rate.min(most))
    }
}

/// On which machine something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// This machine.
    Here,
    /// The other one.
    There,
}

/// What a finding means for a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Transfers fail of it.
    Fails,
    /// It holds them to a rate that is known.
    Limits,
    /// It costs something that depends on what is not known, such as how many packets are lost.
    Costs,
}

impl Severity {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Limits => "limits",
            Self::Costs => "costs",
        }
    }
}

/// A rate now, and with all advice followed; bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Now.
    pub before: f64,
    /// Then, if that can be told. Where the capacity of the way is not known it may carry less.
    pub after: Option<f64>,
}

/// What a change of a setting is to bring.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Expected {
    /// Of one connection, as other tools have.
    pub connection: Option<Change>,
    /// Of hakobu, with its lanes.
    pub hakobu: Option<Change>,
    /// How many lanes that are.
    pub lanes: u16,
    /// Where only a ratio is known: up to so many times as fast.
    pub times: Option<f64>,
}

/// Something that holds transfers back.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// What it is, for programs; stays the same from version to version.
    pub id: &'static str,
    /// Where.
    pub whose: Whose,
    /// What it means.
    pub severity: Severity,
    /// What is so.
    pub fact: String,
    /// What follows from it.
    pub why: String,
    /// What changes it, to be run on that machine as root.
    pub command: String,
    /// What that brings, where it can be told.
    pub expected: Option<Expected>,
}

/// What holds transfers between two machines back, or those of this one; what matters most is first.
pub fn advise(here: &HostFacts, there: Option<&HostFacts>, way: &Way) -> Vec<Finding> {
    let ends = Ends { here, there, way };
    let mut findings = Vec::new();
    window::judge(&ends, &mut findings);
    for (whose, facts) in ends.both() {
        network::judge(&ends, whose, facts, &mut findings);
        machine::judge(whose, facts, &mut findings);
        sshd::judge(&ends, whose, facts, &mut findings);
    }
    findings.sort_by(|one, other| {
        let gain = |finding: &Finding| -finding.expected.map_or(0.0, |expected| expected.most());
        one.severity.cmp(&other.severity).then(gain(one).total_cmp(&gain(other)))
    });
    findings
}

impl Expected {
    /// The largest ratio of what is expected.
    fn most(&self) -> f64 {
        let ratio = |change: Option<Change>| {
            let after = change.and_then(|change| Some(change.after? / change.before.max(1.0)));
            after.unwrap_or(1.0)
        };
        ratio(self.connection).max(ratio(self.hakobu)).max(self.times.unwrap_or(1.0))
    }
}

/// The machines that are judged together, and the way between them.
struct Ends<'a> {
    here: &'a HostFacts,
    there: Option<&'a HostFacts>,
    way: &'a Way,
}

impl<'a> Ends<'a> {
    fn both(&self) -> impl Iterator<Item = (Whose, &'a HostFacts)> + use<'a> {
        let there = self.there.map(|facts| (Whose::There, facts));
        std::iter::once((Whose::Here, self.here)).chain(there)
    }

    /// What the way carries at most, as far as that is known.
    fn capacity(&self) -> Capacity {
        if let Some(rate) = self.way.capacity_bytes_per_second {
            return Capacity::Measured(rate as f64);
        }
        self.devices().map_or(Capacity::Unknown, Capacity::Devices)
    }

    /// The speed of the slower network device, if it is known.
    fn devices(&self) -> Option<f64> {
        let speeds = self.both().filter_map(|(_, facts)| facts.leaving_device()?.speed_bits_per_second);
        speeds.min().map(|bits| bits as f64 / 8.0)
    }

    /// What the way should get, in bytes per second.
    fn wanted(&self) -> f64 {
        match self.capacity() {
            Capacity::Unknown => WANTED_BYTES_PER_SECOND,
            // A way that is only assumed is not taken for as fast as the device.
            Capacity::Devices(rate) if !self.way.measured => rate.min(WANTED_BYTES_PER_SECOND),
            Capacity::Devices(rate) | Capacity::Measured(rate) => rate,
        }
    }
}

/// A name as it can stand in a command, or a word in its place.
fn in_command(name: &Name, otherwise: &str) -> String {
    if name.is_plain() { name.shown() } else { otherwise.to_owned() }
}
