//! Predicts the duration of moving bytes, including data that is held in memory in between.

use super::measured::Measurements;
use super::prediction::{Prediction, StageRate, TransferStage, certain, slower};

/// The interval in seconds at which the data of a large file is made stable.
const FLUSH_EVERY: f64 = 1.0;
/// The time in seconds until a copy has found out that more lanes are faster.
const TUNING_SECONDS: f64 = 10.0;

#[derive(Clone, Copy)]
pub(super) enum RateLimitCause {
    Bytes(u64),
    Seconds(f64),
}

/// Returns the data that is still in memory at the end of the copy, and is written then.
pub(super) fn held(measured: &Measurements<'_>, journaled: bool, bytes: u64) -> RateLimitCause {
    let system = measured.target.and_then(|target| target.held_bytes);
    match journaled {
        true => RateLimitCause::Seconds(FLUSH_EVERY),
        false => RateLimitCause::Bytes(system.unwrap_or(bytes).min(bytes)),
    }
}

/// Returns the seconds to move `bytes`: into the target's memory at the rate of the stages before it, and from there
/// to its medium, which starts once some data is held.
pub(super) fn moving(
    made: &Prediction,
    measured: &Measurements<'_>,
    bytes: u64,
    held: RateLimitCause,
) -> f64 {
    let of_write = |stage: &&StageRate| stage.stage == TransferStage::TargetWrite;
    let write = certain(made).find(of_write).map(|stage| stage.bytes_per_second);
    let before = certain(made).filter(|stage| !of_write(stage)).min_by(slower);
    let tuned = before.map_or(0.0, |before| tuned_seconds(measured, before, bytes));
    let bytes = bytes as f64;
    match (before, write) {
        (Some(before), None) => tuned + bytes / before.bytes_per_second,
        (None, Some(write)) => bytes / write,
        (None, None) => 0.0,
        (Some(before), Some(write)) => {
            let before = match held {
                // A lane that syncs waits for the data of all lanes and does nothing else meanwhile. A network link
                // stays busy, and a rate limit is made up for.
                RateLimitCause::Seconds(_)
                    if !matches!(before.stage, TransferStage::Network | TransferStage::Limit) =>
                {
                    1.0 / (1.0 / before.bytes_per_second + 1.0 / (write * f64::from(measured.lanes())))
                }
                _ => before.bytes_per_second,
            };
            let held = match held {
                RateLimitCause::Bytes(held) => (held as f64).min(bytes),
                RateLimitCause::Seconds(seconds) => (before * seconds).min(bytes),
            };
            match write < before {
                true => held / before + bytes / write,
                false => tuned + bytes / before + held / write,
            }
        }
    }
}

/// Returns the additional seconds until the copy has found out that more lanes than at the start are faster.
pub(super) fn tuned_seconds(measured: &Measurements<'_>, slowest: &StageRate, bytes: u64) -> f64 {
    let Some(way) = measured.way.filter(|_| slowest.stage == TransferStage::Network) else { return 0.0 };
    let first = way.up_to(measured.lanes()).and_then(|step| step.sent.bytes_per_second());
    let Some(first) = first.filter(|first| *first < slowest.bytes_per_second) else { return 0.0 };
    let at_first = (bytes as f64).min(first * TUNING_SECONDS);
    at_first / first - at_first / slowest.bytes_per_second
}
