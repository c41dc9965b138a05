//! How long bytes take to move, with what is held in memory on their way.

use super::measured::Measured;
use super::prediction::{Prediction, Stage, StageRate, certain, slower};

/// A large file's data is made stable about so often.
const FLUSH_EVERY: f64 = 1.0;
/// So long a copy goes on with the lanes that it began with, until it has found out that more carry more.
const TUNING_SECONDS: f64 = 10.0;

#[derive(Clone, Copy)]
pub(super) enum Held {
    Bytes(u64),
    Seconds(f64),
}

/// What is held in memory at the end of the copy, and is written then.
pub(super) fn held(measured: &Measured<'_>, journaled: bool, bytes: u64) -> Held {
    let system = measured.target.and_then(|target| target.held_bytes);
    match journaled {
        true => Held::Seconds(FLUSH_EVERY),
        false => Held::Bytes(system.unwrap_or(bytes).min(bytes)),
    }
}

/// Seconds to move so many bytes: to the target's memory at the pace of everything before, and from there to its medium,
/// which begins once some are held.
pub(super) fn moving(made: &Prediction, measured: &Measured<'_>, bytes: u64, held: Held) -> f64 {
    let of_write = |stage: &&StageRate| stage.stage == Stage::TargetWrite;
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
                // A lane makes stable what all have written, and does nothing else meanwhile: the line stays busy, and a limit is made up for.
                Held::Seconds(_) if !matches!(before.stage, Stage::Network | Stage::Limit) => {
                    1.0 / (1.0 / before.bytes_per_second + 1.0 / (write * f64::from(measured.lanes())))
                }
                _ => before.bytes_per_second,
            };
            let held = match held {
                Held::Bytes(held) => (held as f64).min(bytes),
                Held::Seconds(seconds) => (before * seconds).min(bytes),
            };
            match write < before {
                true => held / before + bytes / write,
                false => tuned + bytes / before + held / write,
            }
        }
    }
}

/// What it takes longer to find out that more lanes carry more than it begins with.
pub(super) fn tuned_seconds(measured: &Measured<'_>, slowest: &StageRate, bytes: u64) -> f64 {
    let Some(way) = measured.way.filter(|_| slowest.stage == Stage::Network) else { return 0.0 };
    let first = way.up_to(measured.lanes()).and_then(|step| step.sent.bytes_per_second());
    let Some(first) = first.filter(|first| *first < slowest.bytes_per_second) else { return 0.0 };
    let at_first = (bytes as f64).min(first * TUNING_SECONDS);
    at_first / first - at_first / slowest.bytes_per_second
}
