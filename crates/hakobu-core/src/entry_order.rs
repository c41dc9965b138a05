//! The order of the entries of a directory.

use std::cmp::Ordering;

use crate::entry::EntryKind;

/// Compares two entries in the fixed order: bytewise, directories as `name/`, which is the key order of object stores.
pub fn order((a, a_kind): (&[u8], EntryKind), (b, b_kind): (&[u8], EntryKind)) -> Ordering {
    let common = a.len().min(b.len());
    match a[..common].cmp(&b[..common]) {
        Ordering::Equal => {}
        different => return different,
    }
    let slash = |kind: EntryKind| (kind == EntryKind::Directory).then_some(b'/');
    let next = |name: &[u8], kind| name.get(common).copied().or(slash(kind));
    match next(a, a_kind).cmp(&next(b, b_kind)) {
        Ordering::Equal if a.len() != b.len() => a.len().cmp(&b.len()),
        decided => decided,
    }
}
