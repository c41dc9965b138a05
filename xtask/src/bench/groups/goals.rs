//! Constructors for goals that compare with a peer.

use super::super::rows::Goal;

pub(super) const fn times(peer: &'static str, at_least: f64, aim: f64) -> Goal {
    Goal::Times { peer, at_least, aim }
}

pub(super) const fn fewer_bytes(peer: &'static str, at_least: f64, aim: f64) -> Goal {
    Goal::TimesFewerBytes { peer, at_least, aim }
}

pub(super) const fn beside(peer: &'static str) -> Goal {
    Goal::Beside { peer }
}
