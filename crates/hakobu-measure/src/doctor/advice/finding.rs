//! A finding: what holds transfers back, on which machine, and what a change of it is to bring.

use hakobu_core::host::Name;

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

impl Expected {
    /// The largest ratio of what is expected.
    pub(super) fn most(&self) -> f64 {
        let ratio = |change: Option<Change>| {
            let after = change.and_then(|change| Some(change.after? / change.before.max(1.0)));
            after.unwrap_or(1.0)
        };
        ratio(self.connection).max(ratio(self.hakobu)).max(self.times.unwrap_or(1.0))
    }
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

/// Takes what makes a finding.
pub(super) type Add<'a> = dyn FnMut(&'static str, Severity, [String; 3], Option<Expected>) + 'a;

/// A name as it can stand in a command, or a word in its place.
pub(super) fn in_command(name: &Name, otherwise: &str) -> String {
    if name.is_plain() { name.shown() } else { otherwise.to_owned() }
}
