//! Properties that hold for all sequences of transitions of one unit.

use proptest::prelude::*;

use super::*;

fn broker(number: u8) -> BrokerName {
    BrokerName::new(format!("broker-{number}")).unwrap()
}

fn group(number: u8) -> GroupName {
    GroupName::new(format!("group-{number}")).unwrap()
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn moment(number: u64) -> Moment {
    Moment::new(number).unwrap()
}

/// A transition in a form that does not know the current epoch: `lag` says how far behind it is.
#[derive(Clone, Debug)]
struct Attempt {
    kind: u8,
    broker: u8,
    group: u8,
    lag: u64,
    now: u64,
    seconds: u64,
    is_failure: bool,
}

impl Attempt {
    fn transition(&self, current: Epoch) -> UnitTransition {
        let (broker, epoch) = (broker(self.broker), epoch(current.get().saturating_sub(self.lag)));
        let (now, deadline) = (moment(self.now), moment(self.now + self.seconds));
        match self.kind {
            0..=2 => UnitTransition::Lease { broker, group: group(self.group), epoch, now, deadline },
            3 => UnitTransition::Commit { broker, epoch },
            4 => {
                let cause = if self.is_failure { RefuseCause::Failed } else { RefuseCause::Draining };
                UnitTransition::Refuse { broker, epoch, cause, error: None }
            }
            _ => UnitTransition::Expire { epoch, now },
        }
    }
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let lag = prop_oneof![6 => Just(0u64), 1 => Just(1), 1 => Just(2)];
    let group = prop_oneof![9 => Just(0u8), 1 => Just(1)];
    let attempt = (0..6u8, 0..2u8, group, lag, 0..100u64, 0..50u64, any::<bool>());
    let attempt = attempt.prop_map(|(kind, broker, group, lag, now, seconds, is_failure)| Attempt {
        kind,
        broker,
        group,
        lag,
        now,
        seconds,
        is_failure,
    });
    proptest::collection::vec(attempt, 0..120)
}

/// Returns the epoch that a transition names.
fn named(transition: &UnitTransition) -> Epoch {
    match transition {
        UnitTransition::Lease { epoch, .. }
        | UnitTransition::Commit { epoch, .. }
        | UnitTransition::Refuse { epoch, .. }
        | UnitTransition::Expire { epoch, .. } => *epoch,
    }
}

/// Checks that a decision may follow from a state.
fn check(state: &UnitState, transition: &UnitTransition, decision: &UnitDecision) {
    let named = named(transition);
    match (transition, decision) {
        (_, UnitDecision::Refuse(_)) => {}
        (UnitTransition::Lease { broker, group: asking, now, deadline, .. }, UnitDecision::Become(after)) => {
            assert!(state.holder.is_none() && named == state.epoch && *asking == group(0));
            assert_eq!(after.epoch.get(), state.epoch.get() + 1);
            let holder = after.holder.as_ref().unwrap();
            assert!(holder.broker == *broker && holder.deadline == *deadline && *deadline > *now);
            assert_eq!(after.attempts, state.attempts);
        }
        (UnitTransition::Lease { broker, now, .. }, UnitDecision::Repeat) => {
            let holder = state.holder.as_ref().unwrap();
            assert!(
                holder.broker == *broker && named.get() + 1 == state.epoch.get() && *now < holder.deadline
            );
        }
        (UnitTransition::Commit { broker, .. }, UnitDecision::Commit(committed)) => {
            assert!(state.holder.as_ref().unwrap().broker == *broker);
            assert!(named == state.epoch && *committed == state.epoch);
        }
        (UnitTransition::Refuse { .. } | UnitTransition::Expire { .. }, UnitDecision::Become(after)) => {
            assert!(state.holder.is_some() && named == state.epoch && after.holder.is_none());
            assert_eq!(after.epoch.get(), state.epoch.get() + 1);
            assert!(after.attempts >= state.attempts && after.attempts < ATTEMPTS_MAX);
        }
        (UnitTransition::Refuse { .. } | UnitTransition::Expire { .. }, UnitDecision::GiveUp) => {
            assert!(state.holder.is_some() && named == state.epoch && state.attempts + 1 == ATTEMPTS_MAX);
        }
        other => panic!("{other:?} in {state:?}"),
    }
    if let UnitTransition::Expire { now, .. } = transition
        && !matches!(decision, UnitDecision::Refuse(_))
    {
        assert!(state.holder.as_ref().unwrap().deadline <= *now);
    }
}

proptest! {
    #[test]
    fn only_the_holder_of_the_current_epoch_changes_anything(attempts in attempts()) {
        let (mut state, group) = (UnitState::offered(epoch(3)), group(0));
        let mut committed = None;
        for attempt in &attempts {
            let current = committed.unwrap_or(state.epoch);
            let transition = attempt.transition(current);
            let before = match committed {
                Some(last) => UnitBefore::Committed(last),
                None => UnitBefore::Open(&state, &group),
            };
            let decision = decide(before, &transition);
            if let Some(last) = committed {
                let is_repeated = matches!(transition, UnitTransition::Commit { .. }) && named(&transition) == last;
                let expected =
                    if is_repeated { UnitDecision::Repeat } else { UnitDecision::Refuse(UnitRefusal::Committed) };
                prop_assert_eq!(decision, expected);
                continue;
            }
            check(&state, &transition, &decision);
            match decision {
                UnitDecision::Become(after) => state = after,
                UnitDecision::Commit(last) => committed = Some(last),
                UnitDecision::GiveUp => break,
                UnitDecision::Repeat | UnitDecision::Refuse(_) => {}
            }
        }
    }

    #[test]
    fn a_repeated_lease_is_the_lease(lag in 0..3u64, seconds in 1..50u64) {
        let state = UnitState::offered(epoch(5));
        let lease = |by: u8, from: u64| UnitTransition::Lease {
            broker: broker(by), group: group(0), epoch: epoch(from), now: moment(10), deadline: moment(10 + seconds),
        };
        let UnitDecision::Become(leased) = decide(UnitBefore::Open(&state, &group(0)), &lease(0, 5)) else {
            panic!("it was ready")
        };
        prop_assert_eq!(decide(UnitBefore::Open(&leased, &group(0)), &lease(0, 5)), UnitDecision::Repeat);
        let other = decide(UnitBefore::Open(&leased, &group(0)), &lease(1, 5 + lag));
        prop_assert_eq!(other, UnitDecision::Refuse(UnitRefusal::OtherBroker));
    }
}

#[test]
fn a_zombie_has_no_say() {
    let held = UnitState {
        epoch: epoch(7),
        attempts: 1,
        holder: Some(LeaseHolder { broker: broker(1), deadline: moment(50) }),
    };
    let refused = |transition| decide(UnitBefore::Open(&held, &group(0)), &transition);
    let stale = UnitDecision::Refuse(UnitRefusal::StaleEpoch);
    let (zombie, old) = (broker(0), epoch(5));
    assert_eq!(refused(UnitTransition::Commit { broker: zombie.clone(), epoch: old }), stale);
    let cause = RefuseCause::Failed;
    assert_eq!(
        refused(UnitTransition::Refuse { broker: zombie.clone(), epoch: old, cause, error: None }),
        stale
    );
    let other = UnitDecision::Refuse(UnitRefusal::OtherBroker);
    assert_eq!(refused(UnitTransition::Commit { broker: zombie, epoch: epoch(7) }), other);
}

#[test]
fn draining_is_no_attempt_and_failing_is_one() {
    let mut state = UnitState::offered(epoch(0));
    let round = |state: &UnitState, cause| {
        let (group, by) = (group(0), broker(0));
        let (now, deadline) = (moment(0), moment(9));
        let lease = UnitTransition::Lease {
            broker: by.clone(),
            group: group.clone(),
            epoch: state.epoch,
            now,
            deadline,
        };
        let UnitDecision::Become(leased) = decide(UnitBefore::Open(state, &group), &lease) else { panic!() };
        let refuse = UnitTransition::Refuse { broker: by, epoch: leased.epoch, cause, error: None };
        decide(UnitBefore::Open(&leased, &group), &refuse)
    };
    for _ in 0..2 * ATTEMPTS_MAX {
        let UnitDecision::Become(after) = round(&state, RefuseCause::Draining) else { panic!() };
        state = after;
    }
    assert_eq!(state.attempts, 0);
    for _ in 1..ATTEMPTS_MAX {
        let UnitDecision::Become(after) = round(&state, RefuseCause::Failed) else { panic!() };
        state = after;
    }
    assert_eq!(round(&state, RefuseCause::Failed), UnitDecision::GiveUp);
}

#[test]
fn the_last_epoch_is_the_end() {
    let last = UnitState::offered(epoch(crate::limits::NUMBER_MAX));
    let (now, deadline) = (moment(0), moment(9));
    let lease =
        UnitTransition::Lease { broker: broker(0), group: group(0), epoch: last.epoch, now, deadline };
    let decision = decide(UnitBefore::Open(&last, &group(0)), &lease);
    assert_eq!(decision, UnitDecision::Refuse(UnitRefusal::EpochsExhausted));
}
