//! How much a lane takes at a time. On this machine's own file systems large portions cost the least; where each operation waits
//! for a file server, the waiting has to be shared by all lanes.

use crate::capabilities::Capabilities;
use crate::pack::PACK_RECORDS_MAX;

/// How long a lane should have to do with a portion.
const PORTION_NS: u64 = 100_000_000;
/// About so many requests a file server gets for a small file that is read, and for a directory that is listed besides those for its entries.
const REQUESTS_PER_FILE: u64 = 10;
const REQUESTS_PER_DIRECTORY: u64 = 8;
/// The least of a pack: what comes with each, an answer and a record of its directory, is little beside so many.
const PACK_RECORDS_LEAST: u64 = 4;
/// How many directories are asked for in one operation at the most, and how many entries of others may come along: enough that
/// depth costs few round trips, and so few that both sides are soon at work.
const DIRECTORIES_MAX: u64 = 32;
const PREFETCHED_MAX: u64 = 2 * 1024;

/// The most that is taken at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Portions {
    /// Files and links in a pack.
    pub pack_records: u32,
    /// Directories in one request, all of which one lane lists.
    pub directories: usize,
    /// Entries of directories below, that a target behind a network sends along.
    pub prefetched: u32,
    /// How long the source's file server takes for an answer, in nanoseconds, where that makes portions smaller.
    pub answer_ns: Option<u64>,
}

impl Portions {
    /// Those between two ends.
    pub fn new(source: &Capabilities, target: &Capabilities) -> Self {
        let requests = |answer_ns: u64| PORTION_NS / answer_ns.max(1);
        // Only the target is asked for what is below directories.
        let of_target = target.answer_ns.map_or(u64::MAX, requests);
        let of_slower = source.answer_ns.map_or(u64::MAX, requests).min(of_target);
        // Entries that are made in one directory of a file server wait for each other, so that lanes had better be in several.
        let slow_source = source.answer_ns.filter(|_| target.answer_ns.is_none());
        let of_source = slow_source.map_or(u64::MAX, requests);
        let pack_records =
            (of_source / REQUESTS_PER_FILE).clamp(PACK_RECORDS_LEAST, u64::from(PACK_RECORDS_MAX));
        let prefetched = if target.remote { of_target.min(PREFETCHED_MAX) } else { 0 };
        Self {
            pack_records: pack_records as u32,
            directories: (of_slower / REQUESTS_PER_DIRECTORY).clamp(1, DIRECTORIES_MAX) as usize,
            prefetched: prefetched as u32,
            answer_ns: slow_source.filter(|_| pack_records < u64::from(PACK_RECORDS_MAX)),
        }
    }

    /// The choice and its reason, where it is worth telling.
    pub fn told(&self) -> Option<(String, String)> {
        let answer_ms = self.answer_ns? as f64 / 1e6;
        let choice = format!("packs: at most {} files", self.pack_records);
        let reason = format!(
            "the source's file server takes {answer_ms:.1} ms for an answer, and all lanes share the waiting"
        );
        Some((choice, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_file_server_is_taken_in_small_portions() {
        let of = |answer_ns, remote| Capabilities { answer_ns, remote, ..Capabilities::posix(true) };
        let portions = |source, target| {
            let Portions { pack_records, directories, prefetched, .. } =
                Portions::new(&of(source, false), &of(target, true));
            (pack_records, directories, prefetched)
        };
        assert_eq!(portions(None, None), (1024, 32, 2048));
        assert_eq!(portions(None, Some(1_000_000)), (1024, 12, 100));
        assert_eq!(portions(None, Some(100_000_000)), (1024, 1, 1));
        assert_eq!(portions(Some(1_000_000), Some(1_000_000)), (1024, 12, 100));
        assert_eq!(portions(Some(20_000_000), None), (4, 1, 2048));
        assert_eq!(portions(Some(5_000_000), None), (4, 2, 2048));
        assert_eq!(portions(Some(1), Some(0)), (1024, 32, 2048));
        let told = Portions::new(&of(Some(1_000_000), false), &of(None, false)).told().unwrap();
        assert_eq!(told.0, "packs: at most 10 files");
        assert_eq!(Portions::new(&of(Some(1000), false), &of(None, false)).told(), None);
    }
}
