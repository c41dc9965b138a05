//! Statistics of repeated runs.
//!
//! Only medians and ranks are used: wall-clock times have a long tail to one side, and one disturbed round must not
//! change a figure. Tools are compared by the median of the *ratios within each round*. Rounds are interleaved, so a
//! slower phase of the machine affects both sides of a ratio.

/// Returns the middle value, or the mean of the two middle ones. `None` if `values` is empty or contains a non-finite
/// value.
#[must_use]
pub fn median(values: &[f64]) -> Option<f64> {
    if values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(lower + (upper - lower) / 2.0)
}

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
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[-1.0, -3.0, -2.0]), Some(-2.0));
    }

    #[test]
    fn nothing_and_not_a_number_have_no_median() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, f64::NAN]), None);
        assert_eq!(median(&[1.0, f64::INFINITY]), None);
    }

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
