//! A bounded collection of the signatures recognised on a device.

use hakobu_core::disk::{SIGNATURES_MAX, Signature, SignatureKind, TEXT_BYTES_MAX};

/// The signatures recognised so far.
#[derive(Default)]
pub(super) struct SignatureMatches(pub(super) Vec<Signature>);

impl SignatureMatches {
    /// Adds a signature, up to [`SIGNATURES_MAX`]. A long label is truncated.
    pub(super) fn add(&mut self, kind: SignatureKind, offset_bytes: u64, uuid: String, mut label: Vec<u8>) {
        label.truncate(TEXT_BYTES_MAX);
        if self.0.len() < SIGNATURES_MAX {
            self.0.push(Signature { kind, offset_bytes, uuid, label });
        }
    }
}
