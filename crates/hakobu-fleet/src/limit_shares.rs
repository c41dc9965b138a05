//! Divides a limit among those who need it.

/// The amount per second that somebody used lately, who may go on with twice as much. `None` if that is not known.
pub type RecentUse = Option<u64>;

/// Divides a limit: everybody gets twice what they used lately and the least, as far as it goes, and the rest is shared
/// equally among those whose use is not known, or among all if it is known of all. So who begins to need more has twice as
/// much after each report. Together the parts are never more than the limit.
pub fn limit_shares(total: u64, least: u64, used: &[RecentUse]) -> Vec<u64> {
    let count = used.len() as u64;
    if count == 0 {
        return Vec::new();
    }
    let least = least.min(total / count);
    let wanted: Vec<u64> =
        used.iter().map(|used| used.map_or(u64::MAX, |used| used.saturating_mul(2))).collect();
    let mut amounts = vec![least; used.len()];
    let mut rest = total - least * count;
    // Those that want least come first: what one does not need is shared by those after it.
    let mut order: Vec<usize> = (0..used.len()).collect();
    order.sort_by_key(|index| wanted[*index]);
    for (place, index) in order.iter().enumerate() {
        let equal = rest / (count - place as u64);
        let more = wanted[*index].min(equal);
        amounts[*index] += more;
        rest -= more;
    }
    let spare = rest / count;
    amounts.iter_mut().for_each(|amount| *amount += spare);
    amounts
}

/// A part of a limit: the recent use, and the share that was told last.
#[derive(Clone, Copy, Debug, Default)]
pub struct LimitUse {
    /// The amount per second that was used lately.
    pub used: RecentUse,
    /// The share.
    pub share: u64,
}

impl LimitUse {
    /// Returns the recent use, and at least the eighth of an equal part if the share holds it.
    fn needed(&self, total: u64, count: usize) -> RecentUse {
        let is_held = |used: u64| self.share > 0 && used.saturating_mul(2) >= self.share;
        let eighth = total / (count as u64).max(1) / 8;
        self.used.map(|used| if is_held(used) { used.max(eighth) } else { used })
    }
}

/// Returns the next share of one part of a limit: none, or at least `least`. `kept` is what is held beside these parts.
///
/// A part that uses most of its share is held by it, however small it is, so it goes on with a quarter of an equal part at least.
/// Otherwise one that rested for a moment would begin again with `least`, and have little for many reports.
///
/// Nobody is told more than the others have not: so all shares together are within the limit at any time, and a part that comes
/// waits until the others were told to use less.
pub fn next_share(total: u64, least: u64, parts: &[LimitUse], kept: u64, index: usize) -> u64 {
    let used: Vec<RecentUse> = parts.iter().map(|part| part.needed(total, parts.len())).collect();
    let wanted = limit_shares(total, least, &used).get(index).copied().unwrap_or_default();
    let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
    let taken = others.map(|(_, part)| part.share).fold(kept, u64::saturating_add);
    let share = wanted.min(total.saturating_sub(taken));
    if share < least { 0 } else { share }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_rest_goes_to_those_that_need_it() {
        assert_eq!(limit_shares(100, 5, &[]), Vec::<u64>::new());
        assert_eq!(limit_shares(100, 5, &[None]), [100]);
        assert_eq!(limit_shares(100, 5, &[None, None]), [50, 50]);
        assert_eq!(limit_shares(100, 5, &[Some(10), None, None]), [25, 37, 38]);
        assert_eq!(limit_shares(100, 5, &[Some(0), None]), [5, 95]);
        assert_eq!(limit_shares(100, 5, &[Some(50), Some(40)]), [50, 50]);
        assert_eq!(limit_shares(100, 5, &[Some(10), Some(5)]), [55, 45]);
        assert_eq!(limit_shares(4, 5, &[None, None]), [2, 2]);
        assert_eq!(limit_shares(u64::MAX, 5, &[None, Some(u64::MAX)]), [u64::MAX / 2, u64::MAX / 2 + 1]);
    }

    #[test]
    fn a_share_moves_within_seconds() {
        let can = |shares: &[u64], can: &[u64]| -> Vec<RecentUse> {
            shares.iter().zip(can).map(|(share, can)| Some(*share.min(can))).collect()
        };
        let mut shares = limit_shares(1_000_000, 10_000, &[None; 4]);
        assert_eq!(shares, [250_000; 4]);
        shares = limit_shares(1_000_000, 10_000, &can(&shares, &[0, 0, 0, u64::MAX]));
        shares = limit_shares(1_000_000, 10_000, &can(&shares, &[0, 0, 0, u64::MAX]));
        assert!(shares[3] >= 900_000, "{shares:?}");
        for _report in 0..6 {
            shares = limit_shares(1_000_000, 10_000, &can(&shares, &[u64::MAX; 4]));
        }
        assert!(shares.iter().all(|share| *share >= 240_000), "{shares:?}");
    }

    #[test]
    fn a_part_that_comes_waits_for_what_others_have() {
        let alone = LimitUse { used: None, share: 0 };
        let mut parts = vec![LimitUse { share: next_share(100, 10, &[alone], 0, 0), used: Some(100) }, alone];
        assert_eq!(parts[0].share, 100);
        assert_eq!(next_share(100, 10, &parts, 0, 1), 0, "the first one has it all");
        parts[0].share = next_share(100, 10, &parts, 0, 0);
        assert_eq!(parts[0].share, 50);
        assert_eq!(next_share(100, 10, &parts, 0, 1), 50);
        // A share that somebody keeps who has no part any more is not given out either.
        assert_eq!(next_share(100, 10, &parts, 35, 1), 15);
        assert_eq!(next_share(100, 10, &parts, 45, 1), 0, "less than the least");
        assert_eq!(next_share(100, 10, &parts, 0, 7), 0);
    }

    #[test]
    fn a_part_that_rested_is_not_held_back_for_long() {
        let mut parts = [1, 199, 199].map(|share| LimitUse { used: Some(share), share });
        for _report in 0..4 {
            for index in 0..3 {
                parts[index].share = next_share(400, 1, &parts, 0, index);
                parts[index].used = Some(parts[index].share);
            }
        }
        assert!(parts[0].share >= 100, "{parts:?}");
        // One that needs nothing has next to nothing.
        parts[0].used = Some(0);
        for index in 0..3 {
            parts[index].share = next_share(400, 1, &parts, 0, index);
        }
        assert!(parts[0].share <= 2, "{parts:?}");
    }

    proptest! {
        #[test]
        fn shares_that_were_told_never_exceed_the_whole(
            total in 10u64..1_000_000, steps in prop::collection::vec((0u8..8, prop::option::of(0u64..1_000_000)), 1..200),
        ) {
            let mut parts: Vec<LimitUse> = Vec::new();
            for (at, used) in steps {
                let index = usize::from(at);
                match parts.get_mut(index) {
                    None => parts.push(LimitUse::default()),
                    Some(_) if used.is_none() => drop(parts.swap_remove(index)),
                    Some(part) => part.used = used,
                }
                let index = index.min(parts.len().saturating_sub(1));
                if !parts.is_empty() {
                    parts[index].share = next_share(total, 1, &parts, 0, index);
                }
                prop_assert!(parts.iter().map(|part| part.share).sum::<u64>() <= total);
            }
            // If nothing changes any more, all of it is given out, and everybody has some.
            for _round in 0..2 {
                for index in 0..parts.len() {
                    parts[index].share = next_share(total, 1, &parts, 0, index);
                }
            }
            let given: u64 = parts.iter().map(|part| part.share).sum();
            prop_assert!(parts.is_empty() || total - given < parts.len() as u64, "{parts:?}");
            prop_assert!(parts.iter().all(|part| part.share > 0), "{parts:?}");
        }

        #[test]
        fn parts_never_exceed_the_whole(
            total in 0u64.., least in 0u64..100_000,
            used in prop::collection::vec(prop::option::of(0u64..), 1..40),
        ) {
            let parts = limit_shares(total, least, &used);
            let sum: u128 = parts.iter().map(|part| u128::from(*part)).sum();
            prop_assert!(sum <= u128::from(total));
            // Nearly nothing is wasted.
            prop_assert!(u128::from(total) - sum < used.len() as u128);
            let count = used.len() as u64;
            prop_assert!(parts.iter().all(|part| *part >= least.min(total / count)));
        }
    }
}
