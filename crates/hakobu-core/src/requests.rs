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
}

impl RequestCounts {
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

    /// Returns the requests since an earlier moment.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        since.apply(earlier, u64::saturating_sub);
        since
    }

    fn apply(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        let Self { list, head, get, put, copy, delete, other: others, .. } = other;
        let Self { retries, sent_bytes, received_bytes, kept_digests, .. } = other;
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

/// The sizes that determine how many requests a store takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestCosts {
    /// The maximum size of an object that is stored by one request, in bytes.
    pub whole_bytes_max: u64,
    /// The size of the parts of larger objects, in bytes.
    pub part_bytes: u64,
    /// The size of the ranges in which large objects are read, in bytes.
    pub range_bytes: u64,
    /// The maximum number of keys in one deletion.
    pub keys_per_deletion: u64,
}

/// The changes of a plan that cost requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlannedWork {
    /// Entries with content that are read and stored.
    contents: u64,
    /// Their bytes.
    content_bytes: u64,
    /// Those of them that are too large to be stored by one request, and the requests for these.
    parts: u64,
    /// Ranges in which they are read.
    ranges: u64,
    /// Directories that are made.
    directories: u64,
    /// Entries that get attributes, and further names of files.
    copies: u64,
    /// Entries that are deleted.
    deletions: u64,
}

impl PlannedWork {
    /// Adds a change with the size of its content. `action` is that of a planned change.
    pub fn add(
        &mut self,
        action: &str,
        size_bytes: u64,
        costs: (Option<RequestCosts>, Option<RequestCosts>),
    ) {
        match action {
            "create" | "update" => {
                let (of_source, of_target) = costs;
                self.contents += 1;
                self.content_bytes = self.content_bytes.saturating_add(size_bytes);
                self.ranges +=
                    of_source.map_or(0, |costs| size_bytes.div_ceil(costs.range_bytes.max(1)).max(1));
                self.parts += of_target.map_or(0, |costs| match size_bytes <= costs.whole_bytes_max {
                    true => 1,
                    // An upload is begun and completed.
                    false => size_bytes.div_ceil(costs.part_bytes.max(1)) + 2,
                });
            }
            "directory" | "replace" => self.directories += 1,
            "attributes" | "link" => self.copies += 1,
            "delete" => self.deletions += 1,
            _ => {}
        }
    }

    /// Returns the requests that the changes take at both ends, besides those that the plan itself took. With `rechecks`,
    /// the source is asked again for each entry that was stored.
    pub fn predict(
        &self,
        (source, target): (Option<RequestCosts>, Option<RequestCosts>),
        rechecks: bool,
    ) -> RunRequests {
        let of_source = source.map(|_| RequestCounts {
            get: self.ranges,
            head: if rechecks { self.contents + self.directories } else { 0 },
            received_bytes: self.content_bytes,
            ..RequestCounts::default()
        });
        let of_target = target.map(|costs| RequestCounts {
            put: self.parts + self.directories,
            copy: self.copies,
            delete: self.deletions.div_ceil(costs.keys_per_deletion.max(1)),
            sent_bytes: self.content_bytes,
            ..RequestCounts::default()
        });
        RunRequests { source: of_source.unwrap_or_default(), target: of_target.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COSTS: RequestCosts =
        RequestCosts { whole_bytes_max: 8, part_bytes: 4, range_bytes: 6, keys_per_deletion: 3 };

    #[test]
    fn counts_are_added_and_subtracted_by_kind() {
        let counts = RequestCounts { list: 1, head: 2, get: 3, put: 4, copy: 5, ..RequestCounts::default() };
        let counts =
            RequestCounts { delete: 6, other: 7, retries: 8, sent_bytes: 9, received_bytes: 10, ..counts };
        let mut twice = counts;
        twice.merge(&counts);
        assert_eq!(twice.since(&counts), counts);
        assert_eq!((twice.list, twice.other, twice.received_bytes), (2, 14, 20));
        assert!(counts.since(&counts).is_empty() && !counts.is_empty());
        let kinds: Vec<_> = RequestCounts { copy: 0, ..counts }.kinds().collect();
        assert_eq!(kinds, [("list", 1), ("head", 2), ("get", 3), ("put", 4), ("delete", 6), ("other", 7)]);
    }

    #[test]
    fn a_plan_costs_what_its_changes_take() {
        let mut work = PlannedWork::default();
        let both = (Some(COSTS), Some(COSTS));
        for (action, size_bytes) in
            [("create", 0), ("create", 8), ("update", 9), ("directory", 0), ("attributes", 0)]
        {
            work.add(action, size_bytes, both);
        }
        (0..4).for_each(|_| work.add("delete", 5, both));
        work.add("link", 0, both);
        let RunRequests { source, target } = work.predict(both, true);
        // One empty read, and two ranges each.
        assert_eq!((source.get, source.head, source.received_bytes), (1 + 2 + 2, 4, 17));
        // One request each, and three parts that are begun and completed.
        assert_eq!((target.put, target.copy, target.delete, target.sent_bytes), (1 + 1 + 5 + 1, 2, 2, 17));
        assert_eq!(work.predict((None, None), true), RunRequests::default());
        assert_eq!(work.predict((Some(COSTS), None), false).source.head, 0);
    }
}
