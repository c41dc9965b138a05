//! Recognises the contents of a device by magic numbers that formats keep at fixed offsets.
//!
//! All findings are reported, including remnants of earlier uses: they serve as a warning, and the remnants of a RAID
//! may still be somebody's data.

mod file_systems;
mod findings;
mod volumes;
mod zfs;

use hakobu_core::disk::{Signature, SignatureKind};

use super::medium::View;
use findings::SignatureMatches;

/// Returns everything recognised apart from partition tables.
pub fn probe(view: &View<'_>) -> Vec<Signature> {
    let mut found = SignatureMatches::default();
    file_systems::probe(view, &mut found);
    volumes::probe(view, &mut found);
    zfs::probe(view, &mut found);
    found.0.sort_by_key(|signature| signature.offset_bytes);
    found.0
}

/// Returns true for a file system that begins with a boot sector, which may look like a partition table.
pub fn has_boot_sector(signature: &Signature) -> bool {
    use SignatureKind::{Bitlocker, Exfat, Fat, Ntfs, Refs};
    matches!(signature.kind, Fat | Exfat | Ntfs | Bitlocker | Refs)
}
