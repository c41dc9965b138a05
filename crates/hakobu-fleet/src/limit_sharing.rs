//! One limit of the whole fleet, shared among the brokers that need it.
//!
//! Each broker reports what it uses, about once a second, and the leader divides anew. A broker that uses less than it may
//! keeps twice its use; the others share the rest equally. So a broker that begins to need more doubles with each report.
//!
//! The shares in force never exceed the limit, also while messages are on their way: a share that grows takes only what
//! others are known to have given back. Shares are numbered, and a report names the one that its broker has set.

use std::collections::{BTreeMap, VecDeque};

/// The number of unconfirmed shares of a broker that are kept apart. Beyond it, the highest of the oldest two is kept.
const OUTSTANDING_MAX: usize = 16;

/// A share to tell a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimitShare {
    /// The number, which rises with each share of a broker.
    pub number: u64,
    /// The amount per second; 0 to wait.
    pub amount: u64,
}

/// A user of a limit.
#[derive(Debug, Default)]
struct LimitUser {
    last: LimitShare,
    /// The shares that may be in force: the one that was confirmed last, and all after it.
    outstanding: VecDeque<LimitShare>,
    used: u64,
    confirmed: LimitShare,
}

impl LimitUser {
    /// Returns the most that may be in force.
    fn in_force(&self) -> u64 {
        self.outstanding.iter().map(|share| share.amount).max().unwrap_or(0)
    }

    fn give(&mut self, amount: u64) -> LimitShare {
        self.last = LimitShare { number: self.last.number + 1, amount };
        self.outstanding.push_back(self.last);
        if self.outstanding.len() > OUTSTANDING_MAX
            && let Some(oldest) = self.outstanding.pop_front()
            && let Some(next) = self.outstanding.front_mut()
        {
            next.amount = next.amount.max(oldest.amount);
        }
        self.last
    }

    /// Returns how much it would use, if that is known: `None` if it uses all that it has.
    fn demand(&self, least: u64) -> Option<u64> {
        // Four fifths: a limited rate is never used to the last byte.
        let is_limited = u128::from(self.used) * 5 >= u128::from(self.confirmed.amount) * 4;
        (!is_limited).then(|| self.used.saturating_mul(2).saturating_add(least))
    }
}

/// A limit and its users.
#[derive(Debug)]
pub struct LimitSharing<K> {
    total: u64,
    least: u64,
    users: BTreeMap<K, LimitUser>,
}

impl<K: Ord + Clone> LimitSharing<K> {
    /// Creates it with a limit per second, and the least that each user should have.
    pub fn new(total: u64, least: u64) -> Self {
        Self { total, least, users: BTreeMap::new() }
    }

    /// Sets the limit.
    pub fn set_total(&mut self, total: u64) {
        self.total = total;
    }

    /// Adds a user, which has nothing yet.
    pub fn join(&mut self, user: K) {
        self.users.entry(user).or_default();
    }

    /// Removes a user that is known to use nothing any more: it has said so, or its leases have ended.
    pub fn leave(&mut self, user: &K) {
        self.users.remove(user);
    }

    /// Records what a user has used per second, and the number of the share that it has set; 0 for none.
    pub fn report(&mut self, user: &K, used: u64, number: u64) {
        let Some(user) = self.users.get_mut(user) else { return };
        user.used = used;
        // A later number than the last is none of ours.
        if number > user.last.number {
            return;
        }
        while user.outstanding.front().is_some_and(|share| share.number < number) {
            user.outstanding.pop_front();
        }
        if let Some(share) = user.outstanding.front().filter(|share| share.number == number) {
            user.confirmed = *share;
        }
    }

    /// Divides the limit anew, and returns the shares that change. Those that shrink come first.
    pub fn divide(&mut self) -> Vec<(K, LimitShare)> {
        let demands: Vec<Option<u64>> = self.users.values().map(|user| user.demand(self.least)).collect();
        let aims = shares(self.total, self.least, &demands);
        let mut changed = Vec::new();
        for ((name, user), aim) in self.users.iter_mut().zip(&aims) {
            if *aim < user.last.amount && is_worth_it(user.last.amount, *aim, self.total) {
                changed.push((name.clone(), user.give(*aim)));
            }
        }
        let in_force: u128 = self.users.values().map(|user| u128::from(user.in_force())).sum();
        let mut free = u64::try_from(u128::from(self.total).saturating_sub(in_force)).unwrap_or(0);
        // Those that have the least come first: a new user begins with the next division.
        let mut growing: Vec<_> = self.users.iter_mut().zip(&aims).collect();
        growing.sort_by_key(|((_, user), _)| user.last.amount);
        for ((name, user), aim) in growing {
            let before = user.in_force();
            let amount = (*aim).min(before.saturating_add(free));
            if amount > user.last.amount && is_worth_it(user.last.amount, amount, self.total) {
                free -= amount.saturating_sub(before);
                changed.push((name.clone(), user.give(amount)));
            }
        }
        changed
    }

    /// Returns the most that may be in force at this moment.
    pub fn in_force(&self) -> u64 {
        self.users.values().fold(0, |sum, user| sum.saturating_add(user.in_force()))
    }
}

/// Returns false for a change of less than a sixty-fourth of what there is, which is no message worth. A limit that is
/// exceeded, or a user without anything, is.
fn is_worth_it(before: u64, after: u64, total: u64) -> bool {
    before == 0 || after == 0 || before > total || before.abs_diff(after) > before / 64
}

/// Divides a limit: everybody's demand as far as it goes, the rest equally among those whose demand is not known, or among
/// all if it is known of all. Everybody has the least, or an equal part if that is less.
pub fn shares(total: u64, least: u64, demands: &[Option<u64>]) -> Vec<u64> {
    let count = demands.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let least = least.min(total / count);
    let mut amounts = vec![least; demands.len()];
    let mut rest = total - least * count;
    // Those with the smallest demand first: what one does not need is shared by those after it.
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by_key(|index| demands[*index].unwrap_or(u64::MAX));
    for (place, index) in order.iter().enumerate() {
        let equal = rest / (count - place as u64);
        let wanted = demands[*index].unwrap_or(u64::MAX).saturating_sub(least);
        let more = wanted.min(equal);
        amounts[*index] += more;
        rest -= more;
    }
    let spare = rest / count;
    amounts.iter_mut().for_each(|amount| *amount += spare);
    amounts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_rest_goes_to_those_that_need_it() {
        assert_eq!(shares(100, 5, &[]), Vec::<u64>::new());
        assert_eq!(shares(100, 5, &[None]), [100]);
        assert_eq!(shares(100, 5, &[None, None]), [50, 50]);
        assert_eq!(shares(100, 5, &[Some(20), None, None]), [20, 40, 40]);
        assert_eq!(shares(100, 5, &[Some(0), None]), [5, 95]);
        assert_eq!(shares(100, 5, &[Some(20), Some(10)]), [55, 45]);
        assert_eq!(shares(4, 5, &[None, None]), [2, 2]);
        assert_eq!(shares(1, 5, &[None, None]), [0, 1]);
        assert_eq!(shares(u64::MAX, 5, &[None, Some(u64::MAX)]), [u64::MAX / 2, u64::MAX / 2 + 1]);
    }

    /// A broker that uses what it may, up to what it can, and answers one message behind.
    struct Simulated {
        can: u64,
        set: LimitShare,
    }

    fn step(sharing: &mut LimitSharing<usize>, brokers: &mut [Simulated]) {
        for (index, broker) in brokers.iter().enumerate() {
            sharing.report(&index, broker.can.min(broker.set.amount), broker.set.number);
        }
        for (index, share) in sharing.divide() {
            brokers[index].set = share;
        }
    }

    #[test]
    fn a_share_moves_within_seconds() {
        let mut sharing = LimitSharing::new(1_000_000, 10_000);
        let mut brokers: Vec<_> =
            (0..4).map(|_| Simulated { can: u64::MAX, set: LimitShare::default() }).collect();
        (0..4).for_each(|index| sharing.join(index));
        (0..3).for_each(|_| step(&mut sharing, &mut brokers));
        assert!(brokers.iter().all(|broker| broker.set.amount == 250_000));
        // Three become idle: within three seconds the fourth has nearly all.
        brokers[..3].iter_mut().for_each(|broker| broker.can = 0);
        (0..3).for_each(|_| step(&mut sharing, &mut brokers));
        assert!(brokers[3].set.amount >= 950_000, "{:?}", brokers[3].set);
        assert!(brokers[..3].iter().all(|broker| broker.set.amount >= 10_000));
        // They need it again, and a fifth comes.
        brokers[..3].iter_mut().for_each(|broker| broker.can = u64::MAX);
        brokers.push(Simulated { can: u64::MAX, set: LimitShare::default() });
        sharing.join(4);
        (0..4).for_each(|_| step(&mut sharing, &mut brokers));
        assert!(brokers.iter().all(|broker| broker.set.amount >= 190_000), "{sharing:?}");
        // One leaves, and the limit is lowered.
        sharing.leave(&4);
        brokers.pop();
        sharing.set_total(400_000);
        (0..3).for_each(|_| step(&mut sharing, &mut brokers));
        assert!(brokers.iter().all(|broker| (90_000..=100_000).contains(&broker.set.amount)), "{sharing:?}");
    }

    proptest! {
        #[test]
        fn parts_never_exceed_the_whole(
            total in 0u64.., least in 0u64..100_000,
            demands in prop::collection::vec(prop::option::of(0u64..), 1..40),
        ) {
            let parts = shares(total, least, &demands);
            let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
            prop_assert!(sum <= u128::from(total));
            // Nearly nothing is wasted.
            prop_assert!(u128::from(total) - sum < demands.len() as u128);
            let count = demands.len() as u64;
            prop_assert!(parts.iter().all(|part| *part >= least.min(total / count)));
        }

        /// Messages in both directions wait as long as they like, but arrive in order.
        #[test]
        fn shares_in_force_never_exceed_the_limit(
            total in 1u64..1_000_000,
            events in prop::collection::vec((0usize..5, 0u8..5, 0u64..1_000_000), 1..300),
        ) {
            let mut sharing = LimitSharing::new(total, 100);
            let mut to_broker: Vec<VecDeque<LimitShare>> = vec![VecDeque::new(); 5];
            let mut to_leader: Vec<VecDeque<(u64, u64)>> = vec![VecDeque::new(); 5];
            let mut set = [LimitShare::default(); 5];
            (0..5).for_each(|user| sharing.join(user));
            for (user, event, used) in events {
                match event {
                    0 => {
                        for (user, share) in sharing.divide() {
                            to_broker[user].push_back(share);
                        }
                    }
                    1 | 2 => if let Some(share) = to_broker[user].pop_front() { set[user] = share },
                    3 => to_leader[user].push_back((used.min(set[user].amount), set[user].number)),
                    _ => if let Some((used, number)) = to_leader[user].pop_front() {
                        sharing.report(&user, used, number);
                    },
                }
                let sum: u64 = set.iter().map(|share| share.amount).sum();
                prop_assert!(sum <= total, "{sum} > {total}");
                prop_assert!(sharing.in_force() <= total);
            }
        }
    }
}
