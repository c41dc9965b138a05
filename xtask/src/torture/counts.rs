//! What was done, in numbers, for the page.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Numbers that all workers add to.
#[derive(Debug, Default)]
pub struct Counts {
    /// Histories that were played to their end.
    pub histories: AtomicU64,
    /// Steps, without second runs and verifications behind them.
    pub steps: AtomicU64,
    /// Processes that were killed.
    pub kills: AtomicU64,
    /// Faults that took place, kills among them.
    pub faults: AtomicU64,
    /// Violations that are known, and so were passed over.
    pub known: AtomicU64,
    /// Histories that could not be played: the ground failed, not hakobu.
    pub set_aside: AtomicU64,
    /// Histories that found something.
    pub violations: AtomicU64,
    /// Histories by what they were about: a way, a file system, a fault.
    pub by_name: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    /// Counts one more of a name.
    pub fn note(&self, name: &str) {
        if let Ok(mut names) = self.by_name.lock() {
            *names.entry(name.to_owned()).or_default() += 1;
        }
    }
}

impl Counts {
    /// Returns the numbers on one line.
    pub fn summary(&self) -> String {
        use std::sync::atomic::Ordering::Relaxed;
        format!(
            "{} histories, {} steps, {} kills, {} faults, {} B compared, {} known, {} set aside, {} violations",
            self.histories.load(Relaxed),
            self.steps.load(Relaxed),
            self.kills.load(Relaxed),
            self.faults.load(Relaxed),
            super::walk::BYTES_READ.load(Relaxed),
            self.known.load(Relaxed),
            self.set_aside.load(Relaxed),
            self.violations.load(Relaxed),
        )
    }
}
