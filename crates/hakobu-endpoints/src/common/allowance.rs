//! Counts the bytes of content that a grant still allows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hakobu_core::Result;
use hakobu_core::grant::Grant;

/// The number of bytes taken of a grant.
#[derive(Debug, Default)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    /// Takes content bytes from the grant.
    ///
    /// # Errors
    /// `BeyondGrant` if the grant does not allow as many.
    pub(crate) fn take(&self, grant: &Grant, bytes: u64) -> Result<()> {
        if grant.bytes_max.is_none() {
            return Ok(());
        }
        // The counter never exceeds the limit, not even for a moment, because hostile sums could overflow.
        let within = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            grant.check_bytes(sum).ok().map(|()| sum)
        };
        match self.0.fetch_update(Relaxed, Relaxed, within) {
            Ok(_) => Ok(()),
            Err(taken) => grant.check_bytes(taken.saturating_add(bytes)),
        }
    }

    /// Returns content bytes that were taken but are not at the target.
    pub(crate) fn give_back(&self, grant: &Grant, bytes: u64) {
        if grant.bytes_max.is_some() {
            self.0.fetch_sub(bytes, Relaxed);
        }
    }
}
