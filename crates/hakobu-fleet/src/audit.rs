//! The audit log: who did what, and whether it was allowed.

use hakobu_core::error::Result;

use crate::ids::{Moment, RowNumber};
use crate::limits::check_at_most;

/// The maximum length of each text of a record in bytes.
pub const AUDIT_TEXT_BYTES_MAX: usize = 1024;
/// The maximum length of the object's name in bytes.
pub const AUDIT_OBJECT_BYTES_MAX: usize = 4096;

/// The record of a change that somebody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// The moment.
    pub when: Moment,
    /// The person or token that asked.
    pub who: String,
    /// The action, as the interface names it.
    pub action: String,
    /// The thing that it was about, as bytes.
    pub object: Vec<u8>,
    /// Further words; no secrets.
    pub detail: String,
}

/// A record as kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The number, from which the list goes on.
    pub number: RowNumber,
    /// The record.
    pub entry: AuditEntry,
    /// The name of the refusal, if the change was refused.
    pub refused: Option<String>,
}

impl AuditEntry {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of an audit record's object", self.object.len(), AUDIT_OBJECT_BYTES_MAX)?;
        [&self.who, &self.action, &self.detail].into_iter().try_for_each(|text| {
            check_at_most("the bytes of an audit record", text.len(), AUDIT_TEXT_BYTES_MAX)
        })
    }
}
