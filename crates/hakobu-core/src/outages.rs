//! Counts how often the connection of a copy was lost, and for how long.

use std::time::{Duration, Instant};

/// The connection losses of all runs of one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outages {
    /// The number of losses.
    pub count: u64,
    /// The total time from the moment when a loss was noticed until everything was ready again or was given up.
    pub time: Duration,
    since: Option<Instant>,
}

impl Outages {
    /// Records that a lost connection was noticed at this time. It may have been lost before.
    pub fn begin(&mut self, noticed: Instant) {
        if self.since.is_none() {
            self.count += 1;
            self.since = Some(noticed);
        }
    }

    /// It is there again, or is not waited for any longer.
    pub fn end(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.time += now.saturating_duration_since(since);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_goes_on_is_one() {
        let mut outages = Outages::default();
        outages.end(Instant::now());
        assert_eq!((outages.count, outages.time), (0, Duration::ZERO));
        outages.begin(Instant::now());
        std::thread::sleep(Duration::from_millis(2));
        outages.begin(Instant::now());
        outages.end(Instant::now());
        let first = outages.time;
        assert!(outages.count == 1 && first >= Duration::from_millis(2));
        outages.begin(Instant::now());
        std::thread::sleep(Duration::from_millis(1));
        outages.end(Instant::now());
        outages.end(Instant::now());
        assert!(outages.count == 2 && outages.time > first);
    }
}
