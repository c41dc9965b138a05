//! Chooses the number of connections: a few at first, more while they increase the rate.

use std::time::Duration;

/// The time for a new number of connections to take effect, and the time for which the rate is then measured. The first
/// is at least twice the start-up time of a connection.
const SETTLE: Duration = Duration::from_millis(400);
const MEASURE: Duration = Duration::from_millis(700);
/// The least share of their ideal gain that more connections must achieve. The gain is ideal if each is as fast as
/// those before.
const WORTH: f64 = 0.2;

/// The measurements so far.
#[derive(Debug)]
pub(super) struct BatchPace {
    most: usize,
    lanes: usize,
    setup: Duration,
    settled: bool,
    /// The time at which the measurement of this number began, and the bytes moved by then.
    since: Option<(Duration, u64)>,
    changed_at: Duration,
    /// The previous number of lanes and their rate.
    before: Option<(usize, f64)>,
}

impl BatchPace {
    /// Begins with `lanes`, and adds up to `most`. `setup` is the start-up time of a connection.
    pub fn new(lanes: usize, most: usize, setup: Duration) -> Self {
        let settled = lanes >= most;
        Self { most, lanes, setup, settled, since: None, changed_at: Duration::ZERO, before: None }
    }

    /// Returns a new number of connections and the reason, if it changes. `now` is the time since the start. `can_grow`
    /// is false if more connections would have nothing to do, or the remote side accepts no more.
    pub fn update(&mut self, now: Duration, moved_bytes: u64, can_grow: bool) -> Option<(usize, String)> {
        if self.settled || !can_grow {
            self.since = None;
            return None;
        }
        if now < self.changed_at + SETTLE.max(self.setup * 2) || moved_bytes == 0 {
            return None;
        }
        let (begin, bytes) = *self.since.get_or_insert((now, moved_bytes));
        let time = now.saturating_sub(begin);
        if time < MEASURE.max(self.setup * 2) {
            return None;
        }
        let rate = moved_bytes.saturating_sub(bytes) as f64 / time.as_secs_f64();
        let fast = |rate: f64| hakobu_core::units::format_rate(rate);
        if let Some((lanes, earlier)) = self.before {
            let hoped = earlier * (self.lanes - lanes) as f64 / lanes as f64;
            if rate < earlier + hoped * WORTH {
                self.settled = true;
                let words = format!("{} with {}, {} with {lanes}", fast(rate), self.lanes, fast(earlier));
                self.lanes = lanes;
                return Some((self.lanes, words));
            }
        }
        self.before = Some((self.lanes, rate));
        let words = format!("{} with {}", fast(rate), self.lanes);
        self.lanes = (self.lanes * 2).min(self.most);
        self.settled = self.before.is_some_and(|(lanes, _)| lanes == self.most);
        (self.since, self.changed_at) = (None, now);
        Some((self.lanes, words))
    }
}

/// Returns the time that a file that cannot be split takes by itself, and the time of the rest on the other
/// connections, if the first is much longer. All are in bytes and bytes per second.
pub(super) fn cannot_end_before(
    file_left: u64,
    rest_left: u64,
    rate_of_one: f64,
    lanes: usize,
) -> Option<(Duration, Duration)> {
    if rate_of_one <= 0.0 {
        return None;
    }
    let seconds = |bytes: u64, rate: f64| Duration::try_from_secs_f64(bytes as f64 / rate).ok();
    let alone = seconds(file_left, rate_of_one)?;
    let rest = seconds(rest_left, rate_of_one * lanes.saturating_sub(1).max(1) as f64)?;
    (alone > rest.mul_f64(1.2) + Duration::from_secs(10)).then_some((alone, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the final number of lanes if each moves `of_each` bytes per second, up to `of_all` in total.
    fn reached(of_each: f64, of_all: f64) -> usize {
        let mut pace = BatchPace::new(4, 16, Duration::from_millis(300));
        let (mut lanes, mut moved) = (4, 0.0);
        for tick in 0..1000 {
            moved += (lanes as f64 * of_each).min(of_all) * 0.2;
            if let Some((now, _)) = pace.update(Duration::from_millis(tick * 200), moved as u64, true) {
                lanes = now;
            }
        }
        lanes
    }

    #[test]
    fn connections_are_added_while_they_help() {
        assert_eq!(reached(5e6, f64::INFINITY), 16);
        // Four use the full bandwidth.
        assert_eq!(reached(5e6, 20e6), 4);
        assert_eq!(reached(5e6, 32e6), 8);
        // A quarter more is still worth twice as many.
        assert_eq!(reached(5e6, 51e6), 16);
    }

    #[test]
    fn a_file_that_takes_longer_than_the_rest_is_told() {
        let (alone, rest) = cannot_end_before(6_000_000_000, 6_000_000_000, 6e6, 8).unwrap();
        assert_eq!((alone.as_secs(), rest.as_secs()), (1000, 142));
        assert!(cannot_end_before(6_000_000, 600_000_000_000, 6e6, 8).is_none());
        assert!(cannot_end_before(6, 6, 0.0, 8).is_none());
    }
}
