//! The requests that pieces of work take at each provider's stores.

use hakobu_core::requests::{RequestCosts, RequestCounts};

use super::api::StoreLimits;
use super::source::RANGE_BYTES;
use super::target::{COPIED_PART_BYTES, PART_BYTES};

/// Returns requests of four kinds: LIST, HEAD, PUT and DELETE.
const fn requests(list: u64, head: u64, put: u64, delete: u64) -> RequestCounts {
    RequestCounts { list, head, put, delete, ..RequestCounts::NONE }
}

/// Returns the costs of a store with directories' objects whose keys end with a slash. In S3 they are all there is to say.
pub(super) const fn costs(limits: &StoreLimits) -> RequestCosts {
    RequestCosts {
        whole_bytes_max: PART_BYTES,
        part_bytes: PART_BYTES,
        parts_max: limits.parts_max as u64,
        range_bytes: RANGE_BYTES,
        copy_bytes_max: limits.copy_bytes_max,
        copied_part_bytes: COPIED_PART_BYTES,
        keys_per_deletion: limits.delete_batch as u64,
        // It is begun and completed.
        upload: requests(0, 0, 2, 0),
        part: requests(0, 0, 1, 0),
        attributes: RequestCounts { copy: 1, ..requests(0, 1, 0, 0) },
        directory: requests(0, 0, 1, 0),
        existing_directory: requests(0, 0, 1, 0),
        kept_attributes: requests(0, 1, 0, 0),
        removed_directory: requests(1, 0, 0, 1),
        // No object has the name without a slash, something begins with it, and that may be its own object.
        directory_look: requests(1, 2, 0, 0),
    }
}

/// Returns the costs of Azure.
pub(super) const fn azure_costs(limits: &StoreLimits) -> RequestCosts {
    RequestCosts {
        keys_per_deletion: 1,
        // The list of blocks.
        upload: requests(0, 0, 1, 0),
        attributes: requests(0, 1, 1, 0),
        // An object that is there already is looked at, because it may be a file, and gets other metadata.
        existing_directory: requests(0, 1, 2, 0),
        removed_directory: requests(1, 1, 0, 1),
        directory_look: requests(0, 1, 0, 0),
        ..costs(limits)
    }
}

/// Returns the costs of Google's servers.
pub(super) const fn google_costs(limits: &StoreLimits) -> RequestCosts {
    RequestCosts {
        keys_per_deletion: 1,
        // The digest is added to an object that is complete.
        upload: RequestCounts { copy: 1, ..requests(0, 0, 2, 0) },
        ..costs(limits)
    }
}

/// Returns the costs of servers with Google's interface and without uploads in parts.
pub(super) const fn composing_costs(limits: &StoreLimits) -> RequestCosts {
    RequestCosts {
        upload: RequestCounts { get: 1, ..requests(1, 0, 2, 1) },
        part: requests(0, 0, 1, 1),
        ..google_costs(limits)
    }
}
