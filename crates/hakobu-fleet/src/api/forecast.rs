//! The forecast of a run's end, from how much the last complete run of the relationship had to do.

use super::run_view::{RateSample, RunForecast};
use crate::unit_counters::UnitCounters;

/// The number of samples below which nothing is foretold.
const SAMPLES_MIN: usize = 5;
/// The time after which a forecast would be no more than a guess: a year.
const LONGEST_MS: f64 = 365.0 * 86_400_000.0;

/// The amount of work of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WorkAmount {
    /// Entries.
    pub entries: u64,
    /// Bytes.
    pub bytes: u64,
}

impl WorkAmount {
    /// Returns the work that a complete run has done.
    pub fn of(counters: &UnitCounters) -> Self {
        Self {
            entries: counters.entries_scanned,
            bytes: counters.source_read_bytes.saturating_add(counters.bytes_kept),
        }
    }
}

/// Returns the forecast of a run. Its rate is that of the last minutes: the median, and the one that nine of ten samples exceed.
pub fn forecast(
    total: WorkAmount,
    done: WorkAmount,
    samples: impl Iterator<Item = RateSample>,
    now_ms: u64,
) -> Option<RunForecast> {
    let samples: Vec<_> = samples.collect();
    if samples.len() < SAMPLES_MIN || total.entries == 0 {
        return None;
    }
    // Whatever lasts longer decides: many small entries, or many bytes.
    let left = |total: u64, done: u64| total.saturating_sub(done) as f64;
    let entries_left = left(total.entries.max(done.entries), done.entries);
    let bytes_left = left(total.bytes.max(done.bytes), done.bytes);
    let end = |share: f64| {
        let entries =
            time_ms(entries_left, quantile(samples.iter().map(|one| one.entries_per_second), share))?;
        let bytes = time_ms(bytes_left, quantile(samples.iter().map(|one| one.bytes_per_second), share))?;
        Some(now_ms.saturating_add(entries.max(bytes) as u64))
    };
    let (p50_ms, p90_ms) = (end(0.5)?, end(0.1)?);
    let share = |total: u64, done: u64| if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let done = share(total.entries, done.entries).min(share(total.bytes, done.bytes));
    Some(RunForecast { done, p50_ms, p90_ms: p90_ms.max(p50_ms) })
}

/// Returns the time for so much at a rate; none if it is out of sight.
fn time_ms(left: f64, per_second: f64) -> Option<f64> {
    if left <= 0.0 {
        return Some(0.0);
    }
    Some(left / per_second * 1000.0).filter(|ms| ms.is_finite() && *ms <= LONGEST_MS)
}

/// Returns the value below which a share of the values lies.
pub fn quantile(values: impl Iterator<Item = u64>, share: f64) -> f64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    let last = values.len().saturating_sub(1);
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let value = |at: usize| values.get(at).copied().unwrap_or_default() as f64;
    value(below) + (value(above) - value(below)) * (place - place.floor())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(rates: &[(u64, u64)]) -> Vec<RateSample> {
        let sample = |(at, rates): (usize, &(u64, u64))| RateSample {
            at_ms: at as u64,
            entries_per_second: rates.0,
            bytes_per_second: rates.1,
        };
        rates.iter().enumerate().map(sample).collect()
    }

    #[test]
    fn the_slower_of_entries_and_bytes_decides() {
        let total = WorkAmount { entries: 1000, bytes: 10_000 };
        let done = WorkAmount { entries: 500, bytes: 1000 };
        let even = samples(&[(100, 100); 6]);
        let forecast = |samples: &[RateSample]| super::forecast(total, done, samples.iter().copied(), 1000);
        let found = forecast(&even).unwrap();
        assert_eq!((found.p50_ms, found.p90_ms), (91_000, 91_000));
        assert!((found.done - 0.1).abs() < 1e-9);
        let uneven = samples(&[(100, 100), (100, 100), (100, 10), (100, 100), (100, 100), (100, 100)]);
        let found = forecast(&uneven).unwrap();
        assert!(found.p50_ms == 91_000 && found.p90_ms > 91_000, "{found:?}");
        assert_eq!(forecast(&even[..4]), None);
        assert_eq!(forecast(&samples(&[(0, 0); 6])), None, "nothing moves");
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile([4, 2, 8].into_iter(), 0.5), 4.0);
        assert_eq!(quantile([1, 2].into_iter(), 0.5), 1.5);
        assert_eq!(quantile([].into_iter(), 0.5), 0.0);
        assert_eq!(quantile([7].into_iter(), 0.9), 7.0);
    }
}
