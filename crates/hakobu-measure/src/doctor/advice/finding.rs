//! Findings: what slows transfers down, on which machine, and the expected gain of a change.

use hakobu_core::host::KernelName;

/// The machine that a finding concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindingHost {
    /// This machine.
    Here,
    /// The other machine.
    There,
}

/// The effect of a finding on transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Transfers fail.
    Fails,
    /// Transfers are limited to a known rate.
    Limits,
    /// Transfers are slowed by an amount that depends on unknown factors, such as packet loss.
    Costs,
}

impl Severity {
    /// Returns the name that JSON uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fails => "fails",
            Self::Limits => "limits",
            Self::Costs => "costs",
        }
    }
}

/// The current rate, and the rate with all advice applied, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExpectedRates {
    /// The current rate.
    pub before: f64,
    /// The rate with all advice applied, if it can be estimated. A network path of unknown capacity may carry less.
    pub after: Option<f64>,
}

/// The expected gain of a changed setting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExpectedGain {
    /// The rates of one connection, as other tools use.
    pub connection: Option<ExpectedRates>,
    /// The rates of hakobu with its lanes.
    pub hakobu: Option<ExpectedRates>,
    /// The number of lanes.
    pub lanes: u16,
    /// The maximum speed-up as a factor, if only a ratio is known.
    pub times: Option<f64>,
}

impl ExpectedGain {
    /// Returns the largest expected ratio.
    pub(super) fn most(&self) -> f64 {
        let ratio = |change: Option<ExpectedRates>| {
            let after = change.and_then(|change| Some(change.after? / change.before.max(1.0)));
            after.unwrap_or(1.0)
        };
        ratio(self.connection).max(ratio(self.hakobu)).max(self.times.unwrap_or(1.0))
    }
}

/// A fact that slows transfers down.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A stable identifier for programs.
    pub id: &'static str,
    /// The machine.
    pub whose: FindingHost,
    /// The effect on transfers.
    pub severity: Severity,
    /// The fact.
    pub fact: String,
    /// The consequence.
    pub why: String,
    /// The command to run as root on that machine, which changes the setting.
    pub command: String,
    /// The expected gain, if it can be estimated.
    pub expected: Option<ExpectedGain>,
}

/// A callback that adds a finding: identifier, severity, the three texts (fact, consequence, command) and the
/// expected gain.
pub(super) type Add<'a> = dyn FnMut(&'static str, Severity, [String; 3], Option<ExpectedGain>) + 'a;

/// Returns a name for use in a command, or `otherwise` if it is not safe there.
pub(super) fn in_command(name: &KernelName, otherwise: &str) -> String {
    if name.is_plain() { name.shown() } else { otherwise.to_owned() }
}
