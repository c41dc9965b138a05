//! The request to stop this process. The first signal sets it. Every wait for a peer checks it, so no wait outlasts the
//! signal, whatever the peer sends or does not send.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time at which stopping was requested.
static ASKED: OnceLock<Instant> = OnceLock::new();

/// The interval at which a wait for a peer checks whether to stop.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The minimum average rate of a message in progress. Without it, a peer that sends a byte now and then could stall a
/// reader.
const LEAST_BYTES_PER_SECOND: u64 = 1024;

/// Asks everything in this process to stop. The request cannot be withdrawn.
pub fn ask(now: Instant) {
    ASKED.get_or_init(|| now);
}

/// Returns true if stopping was requested.
#[must_use]
pub fn is_asked() -> bool {
    ASKED.get().is_some()
}

/// Returns the time at which stopping was requested.
#[must_use]
pub fn asked_at() -> Option<Instant> {
    ASKED.get().copied()
}

/// Returns the time by which the arrival of `bytes` bytes extends the wait for the rest of a message.
#[must_use]
pub fn time_for(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / LEAST_BYTES_PER_SECOND)
}
