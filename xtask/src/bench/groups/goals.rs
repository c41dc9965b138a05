//! Constructors for goals.

use super::super::goal_quantity::GoalQuantity;
use super::super::rows::Goal;

/// Returns a goal of speed as a multiple of a peer's.
pub(super) const fn times(peer: &'static str, at_least: f64, aim: f64) -> Goal {
    against(GoalQuantity::TimesFaster, peer, at_least, aim)
}

/// Returns a goal that compares with a peer.
pub(super) const fn against(judged: GoalQuantity, peer: &'static str, required: f64, aim: f64) -> Goal {
    Goal { judged, peer: Some(peer), marks: Some((required, aim)) }
}

/// Returns a comparison of speed for information only.
pub(super) const fn beside(peer: &'static str) -> Goal {
    Goal { judged: GoalQuantity::TimesFaster, peer: Some(peer), marks: None }
}

/// Returns a goal for a value that stands for itself.
pub(super) const fn alone(judged: GoalQuantity, at_most: f64, aim: f64) -> Goal {
    Goal { judged, peer: None, marks: Some((at_most, aim)) }
}
