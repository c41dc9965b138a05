//! A ledger that does not work is written on trial, so that its state is known although nothing else is to be written.

use super::{Leader, Then};
use crate::change::LedgerChange;

/// The time between two trials in milliseconds.
const PROBE_EVERY_MS: u64 = 2_000;
/// The mark that is written on trial.
const PROBE_MARK: &str = "probe";

impl Leader {
    /// Has something written now and then while the ledger does not work.
    pub(super) fn probe_ledger(&mut self) {
        let (now, now_ms) = self.now();
        if self.ledger_error().is_none() || now_ms.saturating_sub(self.probed_ms) < PROBE_EVERY_MS {
            return;
        }
        self.probed_ms = now_ms;
        self.pending.push((LedgerChange::SetMark(PROBE_MARK, now.to_string()), Then::Nothing));
    }

    /// Notes that the ledger has taken changes. Those that are refused, or change nothing, write nothing: after an error of
    /// writing, only a trial shows that it works.
    pub(super) fn ledger_works(&mut self, changes: &[LedgerChange]) {
        self.ledger_error = None;
        let is_trial = |change: &LedgerChange| matches!(change, LedgerChange::SetMark(PROBE_MARK, _));
        if changes.iter().any(is_trial) {
            self.write_error = None;
        }
    }
}
