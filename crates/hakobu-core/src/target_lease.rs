//! The time for which a run may change its target, if another run gets its work afterwards.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, ErrorKind, Result};

/// The end of a lease that was ended before its time.
const ENDED: u64 = 0;

/// The time for which a run may change its target. Clones are of one lease. Once it is over, nothing more gets a final name,
/// because another run may have begun with the same work.
///
/// The clock has to count while the machine sleeps (`CLOCK_BOOTTIME`), and is read for each name: a process that was stopped
/// then learns the end of its lease before anything else.
#[derive(Clone)]
pub struct TargetLease {
    key: [u8; 8],
    is_of_items: bool,
    is_repeated: bool,
    end_ns: Arc<AtomicU64>,
    now_ns: fn() -> u64,
}

impl TargetLease {
    /// Creates a lease that ends at a moment of the clock. `key`: no other lease of the job has it. It is part of the names of
    /// drafts, so that two runs with the same work never write one file.
    pub fn new(key: [u8; 8], now_ns: fn() -> u64, end_ns: u64) -> Self {
        Self { key, is_of_items: false, is_repeated: false, end_ns: Arc::new(AtomicU64::new(end_ns)), now_ns }
    }

    /// Creates a lease that does not end by itself.
    pub fn endless(key: [u8; 8]) -> Self {
        Self::new(key, || 1, u64::MAX)
    }

    /// Returns the lease of a run that begins with what the user named. It is alone in the directories beside that.
    #[must_use]
    pub fn of_items(mut self) -> Self {
        self.is_of_items = true;
        self
    }

    /// Returns true if the run begins with what the user named.
    pub fn is_of_items(&self) -> bool {
        self.is_of_items
    }

    /// Returns the lease of work with which an earlier lease may have begun: it may have left drafts in directories that nobody
    /// lists, and have written to ranges of a draft.
    #[must_use]
    pub fn repeated(mut self) -> Self {
        self.is_repeated = true;
        self
    }

    /// Returns true if an earlier lease may have begun with the work.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// Returns the key.
    pub fn key(&self) -> [u8; 8] {
        self.key
    }

    /// Sets a later end, unless the lease was ended.
    pub fn prolong(&self, end_ns: u64) {
        let later = |end: u64| (end != ENDED).then(|| end.max(end_ns));
        let _ended = self.end_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }

    /// Ends it now and for good.
    pub fn end(&self) {
        self.end_ns.store(ENDED, Ordering::Release);
    }

    /// Returns true if it is over.
    pub fn is_over(&self) -> bool {
        (self.now_ns)() >= self.end_ns.load(Ordering::Acquire)
    }

    /// Checks that it is not over.
    ///
    /// # Errors
    /// `BeyondGrant`
    pub fn check(&self) -> Result<()> {
        match self.is_over() {
            false => Ok(()),
            true => {
                let words = "the lease of this work is over, and another run may have begun with it";
                let error = Error::new(ErrorKind::BeyondGrant, "changing the target", words);
                Err(error.hint("nothing is to be done if another run takes it over"))
            }
        }
    }
}

impl fmt::Debug for TargetLease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TargetLease").field("key", &self.key).field("end_ns", &self.end_ns).finish()
    }
}

/// Two are equal if they are clones of one lease.
impl PartialEq for TargetLease {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.end_ns, &other.end_ns)
    }
}

impl Eq for TargetLease {}

#[cfg(test)]
mod tests {
    use super::*;

    static NOW: AtomicU64 = AtomicU64::new(10);

    #[test]
    fn a_lease_is_prolonged_until_it_is_ended() {
        let lease = TargetLease::new([1; 8], || NOW.load(Ordering::Relaxed), 11);
        assert!(!lease.is_over() && lease.check().is_ok());
        NOW.store(11, Ordering::Relaxed);
        assert_eq!(lease.check().unwrap_err().kind, ErrorKind::BeyondGrant);
        let clone = lease.clone();
        clone.prolong(13);
        lease.prolong(12);
        NOW.store(12, Ordering::Relaxed);
        assert!(!lease.is_over(), "an earlier end changes nothing");
        clone.end();
        lease.prolong(20);
        assert!(lease.is_over() && lease == clone && lease != TargetLease::endless([1; 8]));
        assert!(!TargetLease::endless([2; 8]).is_over());
    }
}
