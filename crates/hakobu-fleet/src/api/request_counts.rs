//! The numbers of requests, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The limits of the classes of durations, in milliseconds.
pub const DURATION_CLASSES_MS: [u64; 9] = [1, 5, 10, 25, 50, 100, 250, 1000, 5000];

/// The numbers of requests since the start.
#[derive(Debug, Default)]
pub struct ApiRequestCounts {
    /// By the first digit of the status.
    statuses: [AtomicU64; 6],
    /// Each class has those of the classes below.
    durations: [AtomicU64; DURATION_CLASSES_MS.len()],
    sum_us: AtomicU64,
    /// Attempts to sign in that failed.
    pub refused_logins: AtomicU64,
}

impl ApiRequestCounts {
    /// Counts a request.
    pub fn count(&self, status: u16, time: Duration) {
        let class = usize::from(status / 100).min(self.statuses.len() - 1);
        self.statuses[class].fetch_add(1, Ordering::Relaxed);
        let ms = time.as_millis();
        for (limit, count) in DURATION_CLASSES_MS.iter().zip(&self.durations) {
            if ms <= u128::from(*limit) {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    /// Returns the numbers by the first digit of the status.
    pub fn by_status(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.statuses.iter().enumerate().skip(1).map(|(class, count)| (class, count.load(Ordering::Relaxed)))
    }

    /// Returns the numbers by class of duration, and the sum in seconds.
    pub fn durations(&self) -> (Vec<(u64, u64)>, f64) {
        let classes = DURATION_CLASSES_MS.iter().zip(&self.durations);
        let classes = classes.map(|(limit, count)| (*limit, count.load(Ordering::Relaxed))).collect();
        (classes, self.sum_us.load(Ordering::Relaxed) as f64 / 1e6)
    }
}
