//! How many bytes of content a grant still allows.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use hakobu_core::Result;
use hakobu_core::grant::Grant;

/// What has been taken of a grant's bytes.
#[derive(Debug, Default)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    /// Takes content bytes from the grant.
    ///
    /// # Errors
    /// `BeyondGrant`.
    pub(crate) fn take(&self, grant: &Grant, bytes: u64) -> Result<()> {
        if grant.bytes_max.is_none() {
            return Ok(());
        }
        // Never beyond the limit, not even for a moment: sums of hostile sizes would come round.
        let within = |taken: u64| {
            let sum = taken.checked_add(bytes)?;
            grant.check_bytes(sum).ok().map(|()| sum)
        };
        match self.0.fetch_update(Relaxed, Relaxed, within) {
            Ok(_) => Ok(()),
            Err(taken) => grant.check_bytes(taken.saturating_add(bytes)),
        }
    }

    /// Gives back content bytes that were taken and are not at the target.
    pub(crate) fn give_back(&self, grant: &Grant, bytes: u64) {
        if grant.bytes_max.is_some() {
            self.0.fetch_sub(bytes, Relaxed);
        }
    }
}
