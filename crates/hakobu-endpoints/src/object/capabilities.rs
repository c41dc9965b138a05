//! The capabilities of a tree in an object store.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::extended::Classes;
use hakobu_core::listed::{ListedAttributes, StoreClock};

use super::api::{Bucket, ClockOffset, StoreLimits};

/// The number of pieces of a large object that a lane asks for at a time. They come from one request.
const READS_AT_ONCE: u16 = 8;
/// The fraction of a second that listings may lack, in nanoseconds.
const LISTED_STEP_NS: u64 = 1_000_000_000;

/// Returns the capabilities of a bucket, as far as it has been asked.
pub(crate) fn capabilities(bucket: &dyn Bucket) -> Capabilities {
    let limits = bucket.limits();
    Capabilities {
        extended: Classes::USUAL | Classes::SELINUX,
        shared_names: true,
        inodes: false,
        fills_holes: true,
        tells_links: true,
        remote: true,
        tells_file_systems: false,
        account_names: false,
        writes_in_place: false,
        hashes: false,
        attributes_first: true,
        reads_medium: false,
        flushes: true,
        tells_room: false,
        compresses: false,
        copies_within: bucket.copy_place().map(|place| place.number()),
        lists_in_order: limits.lists_bytewise,
        key_order: Some(limits.spelling),
        listed: listed_attributes(limits),
        clock: bucket.clock().map(store_clock),
        reads_at_once: READS_AT_ONCE,
        request_costs: bucket.request_costs(),
        ..Capabilities::posix(true)
    }
}

/// Returns the attributes that listings of a store show.
pub(crate) fn listed_attributes(limits: &StoreLimits) -> ListedAttributes {
    if limits.lists_metadata { ListedAttributes::ALL } else { ListedAttributes::NONE }
}

fn store_clock(ClockOffset { least_ns, most_ns }: ClockOffset) -> StoreClock {
    let ahead_ns = least_ns.midpoint(most_ns);
    let uncertainty_ns = (most_ns.abs_diff(least_ns) / 2).saturating_add(LISTED_STEP_NS);
    StoreClock { behind_ns: ahead_ns.saturating_neg(), uncertainty_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_is_ahead_is_behind_by_less_than_nothing() {
        let clock = store_clock(ClockOffset { least_ns: 5_000_000_000, most_ns: 6_000_000_000 });
        assert_eq!(clock, StoreClock { behind_ns: -5_500_000_000, uncertainty_ns: 1_500_000_000 });
        let widest = store_clock(ClockOffset { least_ns: i64::MIN, most_ns: i64::MAX });
        assert!(widest.uncertainty_ns > 1 << 62);
    }
}
