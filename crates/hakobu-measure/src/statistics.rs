//! Statistics of repeated runs.
//!
//! Only medians and ranks are used: wall-clock times have a long tail to one side, and one disturbed round must not
//! change a figure.

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
}
