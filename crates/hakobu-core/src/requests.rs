//! The requests that a store is sent, which it may charge for, and those that a plan would send.

use serde::{Deserialize, Serialize};

/// Requests by kind, and the bytes of their bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequestCounts {
    /// Pages of listings, of objects, parts and uploads.
    pub list: u64,
    /// Metadata of one object.
    pub head: u64,
    /// Content of one object.
    pub get: u64,
    /// Objects and parts stored, uploads begun and completed.
    pub put: u64,
    /// Copies inside the store.
    pub copy: u64,
    /// Deletions, each of one or many keys, and aborted uploads.
    pub delete: u64,
    /// All others.
    pub other: u64,
    /// Requests among them that were sent again.
    pub retries: u64,
    /// Bytes of bodies sent.
    pub sent_bytes: u64,
    /// Bytes of bodies received.
    pub received_bytes: u64,
    /// Contents that were not read, because their digests are kept with them.
    pub kept_digests: u64,
    /// Objects with content that were stored without a checksum that the store compared.
    pub unchecked: u64,
}

impl RequestCounts {
    /// No request.
    pub const NONE: Self = Self {
        list: 0,
        head: 0,
        get: 0,
        put: 0,
        copy: 0,
        delete: 0,
        other: 0,
        retries: 0,
        sent_bytes: 0,
        received_bytes: 0,
        kept_digests: 0,
        unchecked: 0,
    };

    /// Returns true if no request was sent.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the kinds of requests that were sent, by name, with their numbers.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Self { list, head, get, put, copy, delete, other, .. } = *self;
        [
            ("list", list),
            ("head", head),
            ("get", get),
            ("put", put),
            ("copy", copy),
            ("delete", delete),
            ("other", other),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }

    /// Adds the requests of another part of the run.
    pub fn merge(&mut self, more: &Self) {
        self.apply(more, u64::saturating_add);
    }

    /// Returns both together.
    #[must_use]
    pub fn plus(mut self, more: &Self) -> Self {
        self.merge(more);
        self
    }

    /// Returns that many times the requests.
    #[must_use]
    pub fn times(&self, times: u64) -> Self {
        let mut product = *self;
        product.apply(&Self::default(), |count, _| count.saturating_mul(times));
        product
    }

    /// Returns the requests since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.apply(earlier, u64::saturating_sub);
        since
    }

    fn apply(&mut self, other: &Self, change: impl Fn(u64, u64) -> u64) {
        let Self { list, head, get, put, copy, delete, other: others, .. } = other;
        let Self { retries, sent_bytes, received_bytes, kept_digests, unchecked, .. } = other;
        for (count, change_by) in [
            (&mut self.list, list),
            (&mut self.head, head),
            (&mut self.get, get),
            (&mut self.put, put),
            (&mut self.copy, copy),
            (&mut self.delete, delete),
            (&mut self.other, others),
            (&mut self.retries, retries),
            (&mut self.sent_bytes, sent_bytes),
            (&mut self.received_bytes, received_bytes),
            (&mut self.kept_digests, kept_digests),
            (&mut self.unchecked, unchecked),
        ] {
            *count = change(*count, *change_by);
        }
    }
}

/// The requests at both ends of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunRequests {
    /// Those that the source was sent.
    pub source: RequestCounts,
    /// Those that the target was sent.
    pub target: RequestCounts,
}

impl RunRequests {
    /// Adds the requests of another part of the run.
    pub fn merge(&mut self, more: &Self) {
        self.source.merge(&more.source);
        self.target.merge(&more.target);
    }
}

/// The requests that pieces of work take at a store, and the sizes that determine how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCosts {
    /// The maximum size of an object that is stored by one request, in bytes.
    pub whole_bytes_max: u64,
    /// The usual size of the parts of larger objects, in bytes. Larger parts have a multiple of half of that.
    pub part_bytes: u64,
    /// The maximum number of parts of an object.
    pub parts_max: u64,
    /// The size of the ranges in which large objects are read, in bytes.
    pub range_bytes: u64,
    /// The maximum size of an object that one request copies inside the store, in bytes.
    pub copy_bytes_max: u64,
    /// The size of the parts in which larger objects are copied inside the store, in bytes.
    pub copied_part_bytes: u64,
    /// The maximum number of keys in one deletion.
    pub keys_per_deletion: u64,
    /// The beginning and the end of an object in parts.
    pub upload: RequestCounts,
    /// One of its parts.
    pub part: RequestCounts,
    /// New attributes for an existing object.
    pub attributes: RequestCounts,
    /// The object of a new directory, with its attributes.
    pub directory: RequestCounts,
    /// New attributes for the object of an existing directory.
    pub existing_directory: RequestCounts,
    /// The extended attributes of an object that keeps them while its other attributes change.
    pub kept_attributes: RequestCounts,
    /// The removal of an empty directory.
    pub removed_directory: RequestCounts,
    /// All attributes of a directory.
    pub directory_look: RequestCounts,
}

impl RequestCosts {
    /// Returns what it takes to store an object of that size.
    pub fn stored(&self, size_bytes: u64) -> RequestCounts {
        let bytes = RequestCounts { sent_bytes: size_bytes, ..RequestCounts::default() };
        let requests = match size_bytes <= self.whole_bytes_max {
            true => RequestCounts { put: 1, ..RequestCounts::default() },
            false => self.upload.plus(&self.part.times(size_bytes.div_ceil(self.part_of(size_bytes)))),
        };
        bytes.plus(&requests)
    }

    /// Returns the size of the parts of an object.
    fn part_of(&self, size_bytes: u64) -> u64 {
        let least = size_bytes.div_ceil(self.parts_max.max(1));
        let step = (self.part_bytes / 2).max(1);
        self.part_bytes.max(least.div_ceil(step).saturating_mul(step)).max(1)
    }

    /// Returns what it takes the store to copy an object of that size by itself.
    pub fn copied(&self, size_bytes: u64) -> RequestCounts {
        let copies = |copy| RequestCounts { copy, ..RequestCounts::default() };
        match size_bytes <= self.copy_bytes_max {
            true => copies(1),
            false => self.upload.plus(&copies(size_bytes.div_ceil(self.copied_part_bytes.max(1)))),
        }
    }

    /// Returns what it takes at most to read an object of that size, if lanes read it in runs of `run_bytes`.
    pub fn read(&self, size_bytes: u64, run_bytes: u64) -> RequestCounts {
        let get = size_bytes.div_ceil(self.range_bytes.min(run_bytes).max(1)).max(1);
        RequestCounts { get, received_bytes: size_bytes, ..RequestCounts::default() }
    }

    /// Returns what it takes to delete that many objects in one operation.
    pub fn deleted(&self, keys: u64) -> RequestCounts {
        RequestCounts { delete: keys.div_ceil(self.keys_per_deletion.max(1)), ..RequestCounts::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_and_subtracted_by_kind() {
        let counts = RequestCounts { list: 1, head: 2, get: 3, put: 4, copy: 5, ..RequestCounts::default() };
        let counts = RequestCounts { delete: 6, other: 7, retries: 8, sent_bytes: 9, ..counts };
        let counts = RequestCounts { received_bytes: 10, unchecked: 11, ..counts };
        let mut twice = counts;
        twice.merge(&counts);
        assert_eq!(twice.since(&counts), counts);
        assert_eq!((twice.list, twice.other, twice.received_bytes, twice.unchecked), (2, 14, 20, 22));
        assert!(counts.since(&counts).is_empty() && !counts.is_empty());
        let kinds: Vec<_> = RequestCounts { copy: 0, ..counts }.kinds().collect();
        assert_eq!(kinds, [("list", 1), ("head", 2), ("get", 3), ("put", 4), ("delete", 6), ("other", 7)]);
    }

    #[test]
    fn large_objects_take_a_request_for_each_part() {
        let none = RequestCounts::default();
        let costs = RequestCosts {
            whole_bytes_max: 8,
            part_bytes: 8,
            parts_max: 3,
            range_bytes: 6,
            copy_bytes_max: 10,
            copied_part_bytes: 4,
            keys_per_deletion: 3,
            upload: RequestCounts { put: 2, ..none },
            part: RequestCounts { put: 1, ..none },
            attributes: none,
            directory: none,
            existing_directory: none,
            kept_attributes: none,
            removed_directory: none,
            directory_look: none,
        };
        // No more parts than allowed: those of 25 bytes have 12.
        for (size_bytes, put) in
            [(0, 1), (8, 1), (9, 2 + 2), (24, 2 + 3), (25, 2 + 3), (36, 2 + 3), (37, 2 + 3)]
        {
            let expected = RequestCounts { put, sent_bytes: size_bytes, ..none };
            assert_eq!(costs.stored(size_bytes), expected, "{size_bytes}");
        }
        assert_eq!(costs.part_of(37), 16);
        assert_eq!(
            [0, 10].map(|size_bytes| costs.copied(size_bytes)),
            [RequestCounts { copy: 1, ..none }; 2]
        );
        assert_eq!(costs.copied(11), RequestCounts { put: 2, copy: 3, ..none });
        for (size_bytes, run_bytes, get) in [(0, 4, 1), (6, 100, 1), (7, 100, 2), (7, 4, 2), (9, 4, 3)] {
            assert_eq!(costs.read(size_bytes, run_bytes).get, get, "{size_bytes} {run_bytes}");
        }
        assert_eq!([0, 1, 3, 4].map(|keys| costs.deleted(keys).delete), [0, 1, 1, 2]);
    }
}
