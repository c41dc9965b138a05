//! What is on a device, recognised by marks that its formats keep at fixed places.
//!
//! All that is found is told, also what an older use left behind: it is there to warn, and what is
//! left of a RAID may still be somebody's data.

use hakobu_core::disk::{SIGNATURES_MAX, Signature, SignatureKind, TEXT_BYTES_MAX};

use super::medium::View;

mod file_systems;
mod volumes;
mod zfs;

/// What is recognised besides partition tables.
pub fn probe(view: &View<'_>) -> Vec<Signature> {
    let mut found = Found::default();
    file_systems::probe(view, &mut found);
    volumes::probe(view, &mut found);
    zfs::probe(view, &mut found);
    found.0.sort_by_key(|signature| signature.offset_bytes);
    found.0
}

/// Whether it is a file system that begins with a boot sector, which may look like a partition
/// table.
pub fn has_boot_sector(signature: &Signature) -> bool {
    use SignatureKind::{Bitlocker, Exfat, Fat, Ntfs, Refs};
    matches!(signature.kind, Fat | Exfat | Ntfs | Bitlocker | Refs)
}

/// What was recognised so far.
#[derive(Default)]
struct Found(Vec<Signature>);

impl Found {
    fn add(&mut self, kind: SignatureKind, offset_bytes: u64, uuid: String, mut label: Vec<u8>) {
        label.truncate(TEXT_BYTES_MAX);
        if self.0.len() < SIGNATURES_MAX {
            self.0.push(Signature { kind, offset_bytes, uuid, label });
        }
    }
}
