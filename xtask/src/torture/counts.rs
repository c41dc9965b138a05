//! Counters for the page.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Counters that all workers share.
#[derive(Debug, Default)]
pub struct Counts {
    /// Histories that were played to the end.
    pub histories: AtomicU64,
    /// Steps, without the verifications and second runs that follow them.
    pub steps: AtomicU64,
    /// Faults that killed processes.
    pub kills: AtomicU64,
    /// Faults that took place, including kills.
    pub faults: AtomicU64,
    /// Known violations, which were passed over.
    pub known: AtomicU64,
    /// Histories that could not be played because the test environment failed, not hakobu.
    pub set_aside: AtomicU64,
    /// Histories with a violation.
    pub violations: AtomicU64,
    /// The number of histories by subject: hosts and transport, file system, fault.
    pub by_name: Mutex<BTreeMap<String, u64>>,
}

impl Counts {
    /// Adds one to the count of a name.
    pub fn note(&self, name: &str) {
        if let Ok(mut names) = self.by_name.lock() {
            *names.entry(name.to_owned()).or_default() += 1;
        }
    }
}

impl Counts {
    /// Returns all numbers on one line.
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
