//! Recognises members of ZFS pools. Each has four labels of 256 KiB, two at the beginning and two at the end. A label
//! has a description at 16 KiB, as name and value pairs in XDR, and a ring of uberblocks from 128 KiB on.

use hakobu_core::disk::SignatureKind as Kind;

use super::findings::SignatureMatches;
use crate::block::inspect::medium::{View, be_u32, le_u64};

const LABEL_BYTES: u64 = 256 * 1024;
const PAIRS_AT: u64 = 16 * 1024;
const PAIRS_BYTES: usize = 112 * 1024;
const RING_AT: u64 = 128 * 1024;
const RING_BYTES: usize = 128 * 1024;
/// The smallest size of a slot in the ring in bytes.
const ROOT_BYTES: usize = 1024;
const ROOT_MAGIC: u64 = 0x00ba_b10c;
/// The maximum number of pairs read. No real description has as many.
const PAIRS_MAX: usize = 256;

/// Recognises a member by the first label that is left.
pub fn probe(view: &View<'_>, found: &mut SignatureMatches) {
    let end = view.size_bytes() & !(LABEL_BYTES - 1);
    let labels = [Some(0), Some(LABEL_BYTES), end.checked_sub(2 * LABEL_BYTES), end.checked_sub(LABEL_BYTES)];
    for at in labels.into_iter().flatten() {
        let Some(pairs) = view.bytes(at + PAIRS_AT, PAIRS_BYTES) else { continue };
        let description = Description::read(&pairs);
        if description.is_label || has_root(view, at) {
            let uuid = description.pool_id.map(|id| id.to_string()).unwrap_or_default();
            return found.add(Kind::Zfs, at, uuid, description.pool);
        }
    }
}

fn has_root(view: &View<'_>, label: u64) -> bool {
    let ring = view.bytes(label + RING_AT, RING_BYTES).unwrap_or_default();
    ring.chunks_exact(ROOT_BYTES).any(|root| {
        let magic = le_u64(root, 0);
        magic == ROOT_MAGIC || magic.swap_bytes() == ROOT_MAGIC
    })
}

/// The pool's identification in a label.
#[derive(Default)]
struct Description {
    is_label: bool,
    pool: Vec<u8>,
    pool_id: Option<u64>,
}

impl Description {
    /// Reads the outermost pairs as far as they are valid.
    fn read(bytes: &[u8]) -> Self {
        const XDR: u8 = 1;
        const U64: u32 = 8;
        const STRING: u32 = 9;
        let mut description = Self::default();
        // Encoding, byte order and two unused bytes; then version and flags of the list.
        if bytes.first() != Some(&XDR) || be_u32(bytes, 4) != 0 {
            return description;
        }
        let mut rest = bytes.get(12..).unwrap_or_default();
        for _ in 0..PAIRS_MAX {
            let length = be_u32(rest, 0) as usize;
            let Some(pair) = rest.get(8..length.max(8)).filter(|pair| !pair.is_empty()) else { break };
            let Some((name, value)) = string(pair) else { break };
            // Type and number of elements precede the value.
            let data = value.get(8..).unwrap_or_default();
            match (name, be_u32(value, 0)) {
                (b"name", STRING) => {
                    description.pool = string(data).map(|(pool, _)| pool.to_vec()).unwrap_or_default();
                }
                (b"pool_guid", U64) => {
                    description.pool_id = data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
                    description.is_label = true;
                }
                (b"guid", U64) => description.is_label = true,
                _ => {}
            }
            rest = &rest[length..];
        }
        description
    }
}

/// Splits an XDR string from the bytes that follow it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = be_u32(bytes, 0) as usize;
    let string = bytes.get(4..)?.get(..length)?;
    let padded = 4 + length.next_multiple_of(4);
    Some((string, bytes.get(padded..).unwrap_or_default()))
}
