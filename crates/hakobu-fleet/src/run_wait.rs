//! Events that a run waits for while nothing of it moves, although nobody paused it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::Moment;
use crate::names::{BrokerName, GroupName};
use crate::reach::named_locations;
use crate::run_request::LocationText;

/// The event that a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunWait {
    /// The end of a blackout of its schedule.
    Blackout,
    /// A broker of its group: none is there.
    NoBroker,
    /// A broker of its group that takes units: all that are there drain or end.
    Draining,
    /// A broker of its group that reaches its locations: none that takes units reaches these, or each reaches some of them.
    Unreachable(Vec<LocationText>),
    /// The end of the leases of brokers that do not report any more, so long in milliseconds.
    SilentBrokers(BTreeSet<BrokerName>, u64),
    /// The next attempt of a unit that failed, so long in milliseconds.
    Pause(u64),
    /// A limit that it shares with other runs: they use it up, or it pauses all of them.
    Limit,
}

/// The kind of event that a run waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// The end of a blackout of its schedule.
    Blackout,
    /// A broker of its group: none is connected.
    NoBroker,
    /// A broker of its group that takes units: all that are connected drain or end.
    Draining,
    /// A broker of its group that reaches all its locations: none that is connected and takes units does.
    Unreachable,
    /// The end of the leases of brokers that do not report any more.
    SilentBrokers,
    /// The next attempt of a unit that failed.
    Pause,
    /// A limit that it shares with other runs: they use it up, or it pauses all of them.
    Limit,
}

/// The event that a run waits for while nothing of it moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunWaitView {
    /// The kind.
    pub kind: WaitKind,
    /// The event in words, such as `a broker of the group site-a; none is connected`.
    pub message: String,
    /// The brokers that do not report any more.
    pub brokers: Vec<String>,
    /// The moment of the event, if it is known, in milliseconds since 1970.
    pub until_ms: Option<u64>,
}

impl RunWaitView {
    /// Returns the form of what a run of a group waits for.
    pub fn new(wait: RunWait, group: &GroupName, now: Moment) -> Self {
        let until = |wait_ms: u64| Some(now.plus_ms(wait_ms).get());
        let (kind, message, until_ms) = match &wait {
            RunWait::Blackout => {
                (WaitKind::Blackout, "the end of a blackout of its schedule".to_owned(), None)
            }
            RunWait::NoBroker => {
                (WaitKind::NoBroker, format!("a broker of the group {group}; none is connected"), None)
            }
            RunWait::Draining => {
                let message = format!("a broker of the group {group}; all that are connected drain or end");
                (WaitKind::Draining, message, None)
            }
            RunWait::Unreachable(locations) => {
                let locations = named_locations(locations);
                let message = format!("a broker of the group {group} that reaches {locations}");
                (WaitKind::Unreachable, message, None)
            }
            RunWait::SilentBrokers(brokers, wait_ms) => {
                let names: Vec<_> = brokers.iter().map(|broker| broker.as_str()).collect();
                let message =
                    format!("the end of the lease of {}; no report comes from there", names.join(", "));
                (WaitKind::SilentBrokers, message, until(*wait_ms))
            }
            RunWait::Pause(wait_ms) => {
                (WaitKind::Pause, "the next attempt of a unit that failed".to_owned(), until(*wait_ms))
            }
            RunWait::Limit => {
                let message =
                    "a limit that it shares with other runs: they use it up, or it pauses all of them";
                (WaitKind::Limit, message.to_owned(), None)
            }
        };
        let brokers = match wait {
            RunWait::SilentBrokers(brokers, _) => brokers.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        Self { kind, message, brokers, until_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_in_words() {
        let group = GroupName::new("site-a").unwrap();
        let view = |wait| RunWaitView::new(wait, &group, Moment::new(1000).unwrap());
        let none = view(RunWait::NoBroker);
        assert_eq!(
            (none.message.as_str(), none.until_ms),
            ("a broker of the group site-a; none is connected", None)
        );
        let brokers = ["b0", "b1"].map(|name| BrokerName::new(name).unwrap()).into_iter().collect();
        let silent = view(RunWait::SilentBrokers(brokers, 500));
        assert_eq!(silent.message, "the end of the lease of b0, b1; no report comes from there");
        assert_eq!((silent.brokers.len(), silent.until_ms), (2, Some(1500)));
        assert!(view(RunWait::Draining).brokers.is_empty());
    }
}
