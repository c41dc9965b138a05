//! The transitions of a unit, as one pure function: what each asks for, and what it leads to.
//!
//! ```text
//!    offer          lease (epoch + 1)            commit
//!   ───────> ready ──────────────────> leased ───────────> committed: the unit is gone, its last epoch is kept
//!              ^                       │  ^ │ renew
//!              └───────────────────────┘  └─┘
//!              refuse, expire (epoch + 1), unless it was tried too often: then it is given up, and gone
//! ```
//!
//! Each names the epoch that it knows, and is refused if that is not the current one. A lease and a commit may be repeated, as
//! their answer may have been lost: they are answered as before.

use hakobu_core::error::Error;
use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, Moment};
use crate::lease::{ATTEMPTS_MAX, LeaseHolder, UnitState};
use crate::names::{BrokerName, GroupName};

/// The reason for which a broker returns a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RefuseCause {
    /// The broker stops, or has more than it can do. It does not count as an attempt.
    Draining,
    /// The broker could not do the work.
    Failed,
}

/// A transition of a unit that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitTransition {
    /// Leases a ready unit.
    Lease {
        /// The broker that asks.
        broker: BrokerName,
        /// The group of the broker.
        group: GroupName,
        /// The epoch of the offer.
        epoch: Epoch,
        /// The present moment.
        now: Moment,
        /// The end of the lease.
        deadline: Moment,
    },
    /// Ends the unit.
    Commit {
        /// The broker that asks.
        broker: BrokerName,
        /// The epoch of the lease.
        epoch: Epoch,
    },
    /// Returns a unit that the broker does not finish.
    Refuse {
        /// The broker that asks.
        broker: BrokerName,
        /// The epoch of the lease.
        epoch: Epoch,
        /// The reason.
        cause: RefuseCause,
        /// The error of a broker that could not do the work.
        error: Option<Box<Error>>,
    },
    /// Returns a unit whose lease has ended.
    Expire {
        /// The epoch of the lease.
        epoch: Epoch,
        /// The present moment.
        now: Moment,
    },
}

/// The state of a unit before a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnitBefore<'a> {
    /// It is ready or leased.
    Open(&'a UnitState, &'a GroupName),
    /// It was committed in this epoch.
    Committed(Epoch),
    /// The ledger does not know it: it never was, it was given up, or its run has ended.
    Unknown,
}

/// The result of a transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnitDecision {
    /// Nothing changes; the answer is that of the first time.
    Repeat,
    /// The unit has a new state.
    Become(UnitState),
    /// The unit is committed in this epoch.
    Commit(Epoch),
    /// The unit was tried too often, and is removed as failed.
    GiveUp,
    /// The transition is refused.
    Refuse(UnitRefusal),
}

/// The reason for which a transition of a unit is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UnitRefusal {
    /// No such unit, or none any more.
    Unknown,
    /// The unit is committed already, by another lease.
    Committed,
    /// The epoch is not the current one.
    StaleEpoch,
    /// Another broker leases the unit.
    OtherBroker,
    /// The unit is for another group.
    OtherGroup,
    /// Nobody leases the unit.
    NotLeased,
    /// The lease has not ended.
    NotDue,
    /// The lease would have ended already.
    DeadlinePassed,
    /// There is no further epoch.
    EpochsExhausted,
    /// The result names entries that the unit does not have.
    OutsideUnit,
}

impl UnitState {
    /// Returns the state of a unit that is offered for the first time.
    pub fn offered(epoch: Epoch) -> Self {
        Self { epoch, attempts: 0, holder: None }
    }
}

/// Decides a transition.
pub fn decide(before: UnitBefore<'_>, transition: &UnitTransition) -> UnitDecision {
    let (state, group) = match before {
        UnitBefore::Open(state, group) => (state, group),
        UnitBefore::Unknown => return UnitDecision::Refuse(UnitRefusal::Unknown),
        UnitBefore::Committed(last) => {
            let is_repeated = matches!(transition, UnitTransition::Commit { epoch, .. } if *epoch == last);
            return if is_repeated {
                UnitDecision::Repeat
            } else {
                UnitDecision::Refuse(UnitRefusal::Committed)
            };
        }
    };
    let decided = match transition {
        UnitTransition::Lease { broker, group: asking, epoch, now, deadline } => {
            lease(state, (group, asking), broker, *epoch, (*now, *deadline))
        }
        UnitTransition::Commit { broker, epoch } => {
            leased_by(state, broker, *epoch).map(|_| UnitDecision::Commit(*epoch))
        }
        UnitTransition::Refuse { broker, epoch, cause, .. } => {
            leased_by(state, broker, *epoch).and_then(|_| ready_again(state, *cause == RefuseCause::Failed))
        }
        UnitTransition::Expire { epoch, now } => match &state.holder {
            _ if state.epoch != *epoch => Err(UnitRefusal::StaleEpoch),
            None => Err(UnitRefusal::NotLeased),
            Some(holder) if *now < holder.deadline => Err(UnitRefusal::NotDue),
            Some(_) => ready_again(state, true),
        },
    };
    decided.unwrap_or_else(UnitDecision::Refuse)
}

fn lease(
    state: &UnitState,
    (group, asking): (&GroupName, &GroupName),
    broker: &BrokerName,
    epoch: Epoch,
    (now, deadline): (Moment, Moment),
) -> Result<UnitDecision, UnitRefusal> {
    if group != asking {
        return Err(UnitRefusal::OtherGroup);
    }
    if deadline <= now {
        return Err(UnitRefusal::DeadlinePassed);
    }
    let leased = epoch.next().ok_or(UnitRefusal::EpochsExhausted)?;
    match &state.holder {
        None if state.epoch == epoch => Ok(UnitDecision::Become(UnitState {
            epoch: leased,
            attempts: state.attempts,
            holder: Some(LeaseHolder { broker: broker.clone(), deadline }),
        })),
        None => Err(UnitRefusal::StaleEpoch),
        Some(holder) if holder.broker == *broker && state.epoch == leased => match now < holder.deadline {
            true => Ok(UnitDecision::Repeat),
            false => Err(UnitRefusal::DeadlinePassed),
        },
        Some(holder) if holder.broker != *broker => Err(UnitRefusal::OtherBroker),
        Some(_) => Err(UnitRefusal::StaleEpoch),
    }
}

/// Returns the lease that this broker has in this epoch.
fn leased_by<'a>(
    state: &'a UnitState,
    broker: &BrokerName,
    epoch: Epoch,
) -> Result<&'a LeaseHolder, UnitRefusal> {
    if state.epoch != epoch {
        return Err(UnitRefusal::StaleEpoch);
    }
    match &state.holder {
        None => Err(UnitRefusal::NotLeased),
        Some(holder) if holder.broker != *broker => Err(UnitRefusal::OtherBroker),
        Some(holder) => Ok(holder),
    }
}

/// Returns the unit to the ready ones, unless it was tried too often.
fn ready_again(state: &UnitState, counts: bool) -> Result<UnitDecision, UnitRefusal> {
    let attempts = state.attempts.saturating_add(u32::from(counts));
    if attempts >= ATTEMPTS_MAX {
        return Ok(UnitDecision::GiveUp);
    }
    let epoch = state.epoch.next().ok_or(UnitRefusal::EpochsExhausted)?;
    Ok(UnitDecision::Become(UnitState { epoch, attempts, holder: None }))
}

#[cfg(test)]
#[path = "transition_tests.rs"]
mod tests;
