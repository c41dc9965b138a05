//! The processor time and the memory of a process, and the share of this machine's processors that is in use.

use std::fs;

use anyhow::{Context, Result};

/// The length of the kernel's tick in seconds, as it is shown to programs.
const TICK_SECONDS: f64 = 0.01;

/// Returns the seconds that a process has spent on processors.
///
/// # Errors
/// Returns an error if it has ended.
pub(super) fn processor_seconds(id: u32) -> Result<f64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).context("a process has ended")?;
    process_ticks(&stat).map(|ticks| ticks as f64 * TICK_SECONDS).context("the kernel shows no time")
}

/// Returns the largest memory of a process so far in bytes.
///
/// # Errors
/// Returns an error if it has ended.
pub(super) fn peak_bytes(id: u32) -> Result<f64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).context("a process has ended")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<f64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map(|kib| kib * 1024.0).context("the kernel shows no memory")
}

/// The time that this machine's processors have spent, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineTicks {
    idle: u64,
    all: u64,
}

impl MachineTicks {
    pub(super) fn now() -> Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("reading /proc/stat")?;
        machine_ticks(&stat).context("the kernel shows no time")
    }

    /// Returns the share that was in use since another moment.
    pub(super) fn share_since(self, before: Self) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64
    }
}

fn process_ticks(stat: &str) -> Option<u64> {
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}

fn machine_ticks(stat: &str) -> Option<MachineTicks> {
    let fields = stat.lines().next()?.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0));
    let fields: Vec<u64> = fields.collect();
    // Waiting for a disk is idle, too. Times of guests are in those of the user.
    let idle = fields.get(3)? + fields.get(4)?;
    Some(MachineTicks { idle, all: fields.iter().take(8).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_from_recorded_files() {
        assert_eq!(process_ticks("7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 23 0 0"), Some(123));
        let ticks = |text: &str| machine_ticks(text).unwrap();
        let before = ticks("cpu  100 0 50 800 50 0 0 0 40 0\n");
        let after = ticks("cpu  170 0 50 820 60 0 0 0 90 0\n");
        assert!((after.share_since(before) - 0.7).abs() < 1e-9);
    }
}
