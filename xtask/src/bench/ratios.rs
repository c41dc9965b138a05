//! Ratios of repeated runs.
//!
//! Tools are compared by the median of the *ratios within each round*. Rounds are interleaved, so a slower phase of the machine
//! affects both sides of a ratio.

/// Returns `numerator[i] / denominator[i]` for every round. `None` if the lengths differ, a ratio would not be
/// finite, or there are no rounds.
#[must_use]
pub fn paired_ratios(numerator: &[f64], denominator: &[f64]) -> Option<Vec<f64>> {
    if numerator.len() != denominator.len() || numerator.is_empty() {
        return None;
    }
    let ratios: Vec<f64> = numerator.iter().zip(denominator).map(|(above, below)| above / below).collect();
    ratios.iter().all(|ratio| ratio.is_finite()).then_some(ratios)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_paired_by_round() {
        // The machine is four times slower in the second round. The ratio of the medians would be 3, but the tool is
        // twice as slow in every round.
        let slow = [2.0, 8.0, 6.0];
        let fast = [1.0, 4.0, 3.0];
        assert_eq!(paired_ratios(&slow, &fast), Some(vec![2.0, 2.0, 2.0]));
    }

    #[test]
    fn ratios_that_mean_nothing_are_refused() {
        assert_eq!(paired_ratios(&[1.0, 2.0], &[1.0]), None);
        assert_eq!(paired_ratios(&[1.0], &[0.0]), None);
        assert_eq!(paired_ratios(&[], &[]), None);
        assert_eq!(paired_ratios(&[f64::NAN], &[1.0]), None);
    }
}
