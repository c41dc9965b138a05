//! The capabilities of a tree in an object store.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::extended::Classes;

use super::api::StoreLimits;

/// The number of pieces of a large object that a lane asks for at a time. They come from one request.
const READS_AT_ONCE: u16 = 8;

/// Returns the capabilities of a store with these limits.
pub(crate) fn capabilities(limits: &StoreLimits) -> Capabilities {
    Capabilities {
        extended: Classes::NONE,
        hard_links: false,
        inodes: false,
        remote: true,
        tells_file_systems: false,
        account_names: false,
        writes_in_place: false,
        hashes: false,
        reads_medium: false,
        flushes: true,
        tells_room: false,
        compresses: false,
        lists_in_order: limits.lists_bytewise,
        reads_at_once: READS_AT_ONCE,
        ..Capabilities::posix(true)
    }
}
