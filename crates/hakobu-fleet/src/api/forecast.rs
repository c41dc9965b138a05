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
    /// Bytes of files that are dealt with, those that are unchanged among them: a run in which little has changed is foretold from
    /// one in which everything was new.
    pub bytes: u64,
}

/// The rates of a run in one second or so.
#[derive(Clone, Copy, Debug)]
pub struct RunSample {
    /// The rates that are shown.
    pub shown: RateSample,
    /// The bytes a second of files that are dealt with.
    pub settled_per_second: u64,
}

impl WorkAmount {
    /// Returns the work that a complete run has done.
    pub fn of(counters: &UnitCounters) -> Self {
        Self { entries: counters.figures().entries_done, bytes: counters.bytes_settled() }
    }
}

/// Returns the forecast of a run. Its rate is that of the last minutes: the median of means over some seconds, and the mean that
/// nine of ten exceed. Work that is done in bursts has seconds without any.
pub fn forecast(
    total: WorkAmount,
    done: WorkAmount,
    samples: impl Iterator<Item = RunSample>,
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
    let entry_rates = means(samples.iter().map(|one| one.shown.entries_per_second));
    let byte_rates = means(samples.iter().map(|one| one.settled_per_second));
    let end = |share: f64| {
        let entries = time_ms(entries_left, quantile(entry_rates.iter().copied(), share))?;
        let bytes = time_ms(bytes_left, quantile(byte_rates.iter().copied(), share))?;
        Some(now_ms.saturating_add(entries.max(bytes) as u64))
    };
    let (p50_ms, p90_ms) = (end(0.5)?, end(0.1)?);
    let share = |total: u64, done: u64| if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let done = share(total.entries, done.entries).min(share(total.bytes, done.bytes));
    Some(RunForecast { done, p50_ms, p90_ms: p90_ms.max(p50_ms) })
}

/// Returns the means of neighbouring values: of five, or of a tenth of all if that is more.
fn means(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let values: Vec<u64> = values.collect();
    let length = SAMPLES_MIN.max(values.len() / 10);
    let mean = |some: &[u64]| some.iter().map(|value| u128::from(*value)).sum::<u128>() / length as u128;
    values.windows(length).map(|some| u64::try_from(mean(some)).unwrap_or(u64::MAX)).collect()
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

    fn samples(rates: &[(u64, u64)]) -> Vec<RunSample> {
        let sample = |(at, rates): (usize, &(u64, u64))| RunSample {
            shown: RateSample { at_ms: at as u64, entries_per_second: rates.0, bytes_per_second: 0 },
            settled_per_second: rates.1,
        };
        rates.iter().enumerate().map(sample).collect()
    }

    fn amount(entries: u64, bytes: u64) -> WorkAmount {
        WorkAmount { entries, bytes }
    }

    #[test]
    fn the_slower_of_entries_and_bytes_decides() {
        let (total, done) = (amount(1000, 10_000), amount(500, 1000));
        let even = samples(&[(100, 100); 12]);
        let forecast = |samples: &[RunSample]| super::forecast(total, done, samples.iter().copied(), 1000);
        let found = forecast(&even).unwrap();
        assert_eq!((found.p50_ms, found.p90_ms), (91_000, 91_000));
        assert!((found.done - 0.1).abs() < 1e-9);
        let mut uneven = even.clone();
        uneven[0].settled_per_second = 10;
        let found = forecast(&uneven).unwrap();
        assert!(found.p50_ms == 91_000 && found.p90_ms > 91_000, "{found:?}");
        assert_eq!(forecast(&even[..4]), None);
        assert_eq!(forecast(&samples(&[(0, 0); 6])), None, "nothing moves");
    }

    #[test]
    fn work_in_bursts_is_foretold() {
        let burst = |at: usize| if at.is_multiple_of(5) { (500, 500) } else { (0, 0) };
        let bursts: Vec<_> = (0..60).map(burst).collect();
        let bursts = samples(&bursts);
        let found = forecast(amount(1000, 10_000), amount(500, 1000), bursts.into_iter(), 1000).unwrap();
        assert!((80_000..=120_000).contains(&found.p50_ms), "{found:?}");
        assert!((found.p50_ms..=120_000).contains(&found.p90_ms), "{found:?}");
    }

    #[test]
    fn a_run_that_changes_little_is_foretold_from_one_that_copied_all() {
        let first =
            UnitCounters { entries_created: 1000, source_read_bytes: 1_000_000, ..Default::default() };
        let delta = UnitCounters {
            entries_unchanged: 500,
            source_read_bytes: 10,
            bytes_unchanged: 499_990,
            ..Default::default()
        };
        let delta = WorkAmount { entries: 500, ..WorkAmount::of(&delta) };
        let rates = samples(&[(100, 100_000); 6]);
        let found = forecast(WorkAmount::of(&first), delta, rates.into_iter(), 0).unwrap();
        assert_eq!((found.p50_ms, found.p90_ms), (5_000, 5_000));
        assert!((found.done - 0.5).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn quantiles_lie_between_values() {
        assert_eq!(quantile([4, 2, 8].into_iter(), 0.5), 4.0);
        assert_eq!(quantile([1, 2].into_iter(), 0.5), 1.5);
        assert_eq!(quantile([].into_iter(), 0.5), 0.0);
        assert_eq!(quantile([7].into_iter(), 0.9), 7.0);
    }
}
