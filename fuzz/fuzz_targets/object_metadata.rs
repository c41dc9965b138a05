//! Metadata of objects, as lines `name=value` after a byte with the kind of key, and the content of sidecars.

#![no_main]

use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_endpoints::object::metadata::sidecar::{Sidecar, SidecarName};
use hakobu_endpoints::object::metadata::{MetadataConvention, ObjectEntry, ObjectExtended, ObjectMetadata};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((flags, rest)) = bytes.split_first() else { return };
    if let Ok(extended) = hakobu_core::extended::ExtendedRef::decode(rest) {
        let sidecar = Sidecar::new(extended);
        assert_eq!(SidecarName::from_value(&sidecar.name.value()), Some(sidecar.name));
        assert_eq!(sidecar.name.read(rest.to_vec()).unwrap().as_bytes(), rest);
    }
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let pairs = || text.lines().filter_map(|line| line.split_once('='));
    for convention in [MetadataConvention::S3, MetadataConvention::Azure, MetadataConvention::Gcs] {
        let read = convention.decode(flags & 1 != 0, 12, pairs());
        let entry = entry_of(&read);
        assert!(entry.mode <= 0o7777 && entry.mtime.nanoseconds < 1_000_000_000);
        let extended = match &read.extended {
            ObjectExtended::Inline(extended) => Some(extended.as_ref()),
            _ => None,
        };
        // Written again, it is read as the same entry.
        let (digest, checksum) = (read.digest.as_ref(), read.checksum);
        let again =
            convention.encode(&ObjectEntry { metadata: &entry, owner: true, extended, digest, checksum });
        if again.sidecar.is_some()
            || matches!(read.extended, ObjectExtended::Sidecar(_) | ObjectExtended::Malformed)
        {
            continue;
        }
        let is_marker = entry.kind == EntryKind::Directory;
        let read =
            convention.decode(is_marker, 12, again.pairs.iter().map(|(name, value)| (&**name, &**value)));
        assert_eq!(read.malformed, 0);
        assert_eq!(entry_of(&read), entry);
    }
});

/// Returns the entry that metadata describes, with zeros for all that it lacks.
fn entry_of(read: &ObjectMetadata) -> EntryMetadata {
    let is_device = matches!(read.kind, EntryKind::BlockDevice | EntryKind::CharDevice);
    let inode = read.inode.filter(|_| read.kind != EntryKind::Directory);
    EntryMetadata {
        mode: read.mode.unwrap_or(0),
        uid: read.uid.unwrap_or(0),
        gid: read.gid.unwrap_or(0),
        size_bytes: 12,
        mtime: read.mtime.unwrap_or_default(),
        device: read.device.filter(|_| is_device).unwrap_or(0),
        links: if inode.is_some() { 2 } else { 1 },
        inode,
        ..EntryMetadata::new(read.kind)
    }
}
