//! The state of the control plane itself: what keeps the fleet from working, until it works again.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::problem::Problem;
use crate::bus::BusTrouble;
use crate::ids::Moment;

/// The part of the control plane that does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TroubleKind {
    /// The ledger: nothing new is saved or given out.
    Ledger,
    /// The connection to NATS for a group: its brokers get nothing new, or learn of work late.
    Nats,
}

/// A part of the control plane that does not work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TroubleView {
    /// The part.
    pub kind: TroubleKind,
    /// The group, if it is about the brokers of one.
    #[serde(default)]
    pub group: Option<String>,
    /// The moment since which it does not work, in milliseconds since 1970.
    pub since_ms: u64,
    /// The cause and the remedy.
    pub problem: Problem,
}

/// The state of the control plane.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FleetStatus {
    /// The parts that do not work; none if all do.
    pub troubles: Vec<TroubleView>,
}

impl TroubleView {
    /// Creates one of the ledger that was seen now.
    pub(super) fn of_ledger(problem: Problem, now: Moment) -> Self {
        Self { kind: TroubleKind::Ledger, group: None, since_ms: now.get(), problem }
    }

    /// Creates one of a way to brokers that was seen now.
    pub(super) fn of_bus(trouble: &BusTrouble, now: Moment) -> Self {
        let (group, problem) = (Some(trouble.group.to_string()), Problem::from(&trouble.error));
        Self { kind: TroubleKind::Nats, group, since_ms: now.get(), problem }
    }

    fn is_about(&self, other: &Self) -> bool {
        self.kind == other.kind && self.group == other.group
    }
}

impl FleetStatus {
    /// Takes what was seen in its place. A trouble that goes on keeps the moment at which it was first seen. Returns true if
    /// anything has changed.
    pub(super) fn replace(&mut self, mut troubles: Vec<TroubleView>) -> bool {
        for trouble in &mut troubles {
            if let Some(before) = self.troubles.iter().find(|before| before.is_about(trouble)) {
                trouble.since_ms = before.since_ms;
            }
        }
        let is_other = self.troubles != troubles;
        self.troubles = troubles;
        is_other
    }

    /// Returns true if a part works.
    pub(super) fn works(&self, kind: TroubleKind) -> bool {
        self.troubles.iter().all(|trouble| trouble.kind != kind)
    }
}

#[cfg(test)]
mod tests {
    use hakobu_core::error::{Error, ErrorKind};

    use super::*;
    use crate::names::GroupName;

    #[test]
    fn a_trouble_that_goes_on_keeps_its_beginning() {
        let seen = |message: &str, at: u64| {
            let problem = Problem { message: message.to_owned(), ..Problem::default() };
            TroubleView::of_ledger(problem, Moment::new(at).unwrap())
        };
        let mut status = FleetStatus::default();
        assert!(!status.replace(Vec::new()) && status.works(TroubleKind::Ledger));
        assert!(status.replace(vec![seen("full", 1)]) && !status.works(TroubleKind::Ledger));
        assert!(!status.replace(vec![seen("full", 2)]), "nothing has changed");
        assert!(status.replace(vec![seen("gone", 3)]));
        assert_eq!((status.troubles[0].since_ms, &*status.troubles[0].problem.message), (1, "gone"));
        assert!(status.replace(Vec::new()));
        assert!(status.replace(vec![seen("full", 4)]));
        assert_eq!(status.troubles[0].since_ms, 4);
        // Those of groups are told apart.
        let away = |group: &str, at: u64| {
            let error = Error::new(ErrorKind::ConnectionLost, "connecting to NATS", "no server answers");
            let trouble = BusTrouble { group: GroupName::new(group).unwrap(), error };
            TroubleView::of_bus(&trouble, Moment::new(at).unwrap())
        };
        assert!(status.replace(vec![away("a", 5)]) && status.works(TroubleKind::Ledger));
        assert!(status.replace(vec![away("a", 6), away("b", 6)]));
        let since: Vec<_> = status.troubles.iter().map(|trouble| trouble.since_ms).collect();
        assert_eq!(since, [5, 6]);
    }
}
