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

    proptest! {
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
