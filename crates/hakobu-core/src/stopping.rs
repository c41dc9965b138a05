//! Whether the user has asked this process to stop. The first signal sets it, and every wait for a peer looks at it, so
//! that none outlasts the signal, whatever the peer sends or does not send.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// When it was asked.
static ASKED: OnceLock<Instant> = OnceLock::new();

/// How long a wait for a peer goes on at a time before it is looked whether to stop.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// A message that is under way has to come at least this fast as a whole: a byte now and then keeps nobody waiting.
const LEAST_BYTES_PER_SECOND: u64 = 1024;

/// Asks everything in this process to stop, for good.
pub fn ask(now: Instant) {
    ASKED.get_or_init(|| now);
}

/// Whether that was asked.
#[must_use]
pub fn is_asked() -> bool {
    ASKED.get().is_some()
}

/// When it was asked.
#[must_use]
pub fn asked_at() -> Option<Instant> {
    ASKED.get().copied()
}

/// The time by which so many bytes that came prolong the wait for the rest of a message.
#[must_use]
pub fn time_for(bytes: u64) -> Duration {
    Duration::from_micros(bytes.saturating_mul(1_000_000) / LEAST_BYTES_PER_SECOND)
}
