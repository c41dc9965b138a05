//! Chooses how much work a lane takes at a time. On local file systems large portions cost the least. If each operation
//! waits for a file server, portions are small so that all lanes share the waiting.

use crate::capabilities::Capabilities;
use crate::pack::PACK_RECORDS_MAX;

/// The time that one portion should take a lane, in nanoseconds.
const PORTION_NS: u64 = 100_000_000;
/// The approximate number of file server requests for a small file that is read, and for a directory that is listed,
/// not counting those for its entries.
const REQUESTS_PER_FILE: u64 = 10;
const REQUESTS_PER_DIRECTORY: u64 = 8;
/// The minimum number of records in a pack, enough to make its own cost (an answer, a directory record) small.
const PACK_RECORDS_LEAST: u64 = 4;
/// The maximum number of directories listed in one operation, and of entries of other directories that may be sent
/// along. Enough that deep trees cost few round trips, and few enough that both sides are soon at work.
const DIRECTORIES_MAX: u64 = 32;
const PREFETCHED_MAX: u64 = 2 * 1024;
/// The maximum for an object store: it lists all that is below a directory anyway, and listing a directory again costs a
/// request. Some 20 MiB.
const PREFETCHED_IN_STORE_MAX: u64 = 128 * 1024;

/// The maximum amounts of work taken at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkSizes {
    /// The number of files and symbolic links in a pack.
    pub pack_records: u32,
    /// The number of directories in one request, all of which one lane lists.
    pub directories: usize,
    /// The number of entries of directories further down that a remote target sends along.
    pub prefetched: u32,
    /// The number of such entries of a source.
    pub prefetched_source: u32,
    /// The response time of the source's file server in nanoseconds, if it makes portions smaller.
    pub answer_ns: Option<u64>,
}

impl WorkSizes {
    /// Returns the limits for these two endpoints.
    pub fn new(source: &Capabilities, target: &Capabilities) -> Self {
        let requests = |answer_ns: u64| PORTION_NS / answer_ns.max(1);
        // Only the target is asked for listings of directories further down.
        let of_target = target.answer_ns.map_or(u64::MAX, requests);
        let of_slower = source.answer_ns.map_or(u64::MAX, requests).min(of_target);
        // A file server creates entries of one directory one after another, so lanes should use different ones.
        let slow_source = source.answer_ns.filter(|_| target.answer_ns.is_none());
        let of_source = slow_source.map_or(u64::MAX, requests);
        let pack_records =
            (of_source / REQUESTS_PER_FILE).clamp(PACK_RECORDS_LEAST, u64::from(PACK_RECORDS_MAX));
        let prefetched = match target.remote {
            true if is_store(target) => PREFETCHED_IN_STORE_MAX,
            true => of_target.min(PREFETCHED_MAX),
            false => 0,
        };
        // Only a store sends along what is further down.
        let prefetched_source = if is_store(source) { PREFETCHED_IN_STORE_MAX } else { 0 };
        Self {
            pack_records: pack_records as u32,
            directories: (of_slower / REQUESTS_PER_DIRECTORY).clamp(1, DIRECTORIES_MAX) as usize,
            prefetched: prefetched as u32,
            prefetched_source: prefetched_source as u32,
            answer_ns: slow_source.filter(|_| pack_records < u64::from(PACK_RECORDS_MAX)),
        }
    }

    /// Returns the choice and its reason, if a file server made portions smaller.
    pub fn told(&self) -> Option<(String, String)> {
        let answer_ms = self.answer_ns? as f64 / 1e6;
        let choice = format!("packs: at most {} files", self.pack_records);
        let reason = format!(
            "the source's file server takes {answer_ms:.1} ms for an answer, and all lanes share the waiting"
        );
        Some((choice, reason))
    }
}

/// Returns true if listings come from an object store, with all that is below a directory.
fn is_store(able: &Capabilities) -> bool {
    able.lists_in_order || able.shared_names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_file_server_is_taken_in_small_portions() {
        let of = |answer_ns, remote| Capabilities { answer_ns, remote, ..Capabilities::posix(true) };
        let portions = |source, target| {
            let WorkSizes { pack_records, directories, prefetched, .. } =
                WorkSizes::new(&of(source, false), &of(target, true));
            (pack_records, directories, prefetched)
        };
        assert_eq!(portions(None, None), (1024, 32, 2048));
        assert_eq!(portions(None, Some(1_000_000)), (1024, 12, 100));
        assert_eq!(portions(None, Some(100_000_000)), (1024, 1, 1));
        assert_eq!(portions(Some(1_000_000), Some(1_000_000)), (1024, 12, 100));
        assert_eq!(portions(Some(20_000_000), None), (4, 1, 2048));
        assert_eq!(portions(Some(5_000_000), None), (4, 2, 2048));
        assert_eq!(portions(Some(1), Some(0)), (1024, 32, 2048));
        let store = Capabilities { lists_in_order: true, ..of(None, true) };
        let sizes = WorkSizes::new(&of(None, false), &store);
        assert_eq!((sizes.prefetched, sizes.prefetched_source), (131_072, 0));
        let sizes = WorkSizes::new(&store, &of(None, false));
        assert_eq!((sizes.prefetched, sizes.prefetched_source), (0, 131_072));
        // Azure has an order of its own.
        let azure = Capabilities { shared_names: true, ..of(None, true) };
        let sizes = WorkSizes::new(&azure, &azure);
        assert_eq!((sizes.prefetched, sizes.prefetched_source), (131_072, 131_072));
        let told = WorkSizes::new(&of(Some(1_000_000), false), &of(None, false)).told().unwrap();
        assert_eq!(told.0, "packs: at most 10 files");
        assert_eq!(WorkSizes::new(&of(Some(1000), false), &of(None, false)).told(), None);
    }
}
