//! The words of errors, texts as PostgreSQL keeps them, and the numbers of new units.

pub(super) const READING: &str = "reading the ledger";
pub(super) const WRITING: &str = "writing the ledger";

/// Numbers of units that were taken and not given yet.
#[derive(Debug, Default)]
pub(super) struct UnitNumbers {
    next: u64,
    left: u64,
}

impl UnitNumbers {
    const BLOCK: u64 = 1000;

    pub(super) fn begin(&mut self, first: u64) {
        (self.next, self.left) = (first, Self::BLOCK);
    }

    pub(super) fn next(&mut self) -> Option<u64> {
        self.left = self.left.checked_sub(1)?;
        self.next += 1;
        Some(self.next - 1)
    }
}

/// Returns a text as PostgreSQL keeps it: without zero bytes.
pub(super) fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}
