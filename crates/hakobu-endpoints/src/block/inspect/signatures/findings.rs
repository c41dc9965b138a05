//! The signatures that were recognised on a device so far.

use hakobu_core::disk::{SIGNATURES_MAX, Signature, SignatureKind, TEXT_BYTES_MAX};

/// What was recognised so far.
#[derive(Default)]
pub(super) struct Found(pub(super) Vec<Signature>);

impl Found {
    /// Adds one, up to the most that are told.
    pub(super) fn add(&mut self, kind: SignatureKind, offset_bytes: u64, uuid: String, mut label: Vec<u8>) {
        label.truncate(TEXT_BYTES_MAX);
        if self.0.len() < SIGNATURES_MAX {
            self.0.push(Signature { kind, offset_bytes, uuid, label });
        }
    }
}
