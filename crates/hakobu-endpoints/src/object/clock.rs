//! The store's clock, measured by the dates of its answers.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::api::ClockOffset;

/// The age that a date may have: it has whole seconds, and many servers make it once a second.
const DATE_AGE_MAX: Duration = Duration::from_secs(2);

/// The interval of differences that all answers so far allow.
#[derive(Debug, Default)]
pub(crate) struct ClockInterval(Mutex<Option<ClockOffset>>);

impl ClockInterval {
    /// Narrows the interval by an answer that is dated `date` by the store, and that was made at some time between
    /// `sent` and `received` of this machine's clock.
    pub(crate) fn add(&self, date: SystemTime, sent: SystemTime, received: SystemTime) {
        let sample = ClockOffset {
            least_ns: difference_ns(date, received),
            most_ns: difference_ns(date + DATE_AGE_MAX, sent),
        };
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let narrowed = known.map_or(sample, |known| ClockOffset {
            least_ns: known.least_ns.max(sample.least_ns),
            most_ns: known.most_ns.min(sample.most_ns),
        });
        // A clock was set in between, or the store has several machines: cover all that was seen.
        let both = |known: ClockOffset| ClockOffset {
            least_ns: known.least_ns.min(sample.least_ns),
            most_ns: known.most_ns.max(sample.most_ns),
        };
        *known = if narrowed.least_ns <= narrowed.most_ns { Some(narrowed) } else { known.map(both) };
    }

    pub(crate) fn offset(&self) -> Option<ClockOffset> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `one - other` in nanoseconds, as far as 64 bits go.
fn difference_ns(one: SystemTime, other: SystemTime) -> i64 {
    let since_1970 = |time: SystemTime| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    (since_1970(one) - since_1970(other)).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_000_000) + Duration::from_millis(ms)
    }

    fn ms(offset: Option<ClockOffset>) -> (i64, i64) {
        let offset = offset.unwrap();
        (offset.least_ns / 1_000_000, offset.most_ns / 1_000_000)
    }

    #[test]
    fn each_answer_narrows_the_interval() {
        // The store is 10.2 s ahead.
        let clock = ClockInterval::default();
        assert_eq!(clock.offset(), None);
        clock.add(at(15_000), at(5_000), at(5_100));
        assert_eq!(ms(clock.offset()), (9_900, 12_000));
        clock.add(at(16_000), at(5_900), at(5_950));
        assert_eq!(ms(clock.offset()), (10_050, 12_000));
        clock.add(at(16_000), at(6_700), at(6_790));
        assert_eq!(ms(clock.offset()), (10_050, 11_300));
    }

    #[test]
    fn a_clock_that_was_set_widens_it() {
        let clock = ClockInterval::default();
        clock.add(at(5_000), at(5_000), at(5_000));
        clock.add(at(65_000), at(5_000), at(5_000));
        assert_eq!(ms(clock.offset()), (0, 62_000));
    }
}
