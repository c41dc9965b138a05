//! The space that a run needs at the target, compared with what is free there.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};

use crate::capabilities::Capabilities;
use crate::error::{Error, ErrorKind, ErrorStep};
use crate::units::format_lack;

/// The remedy for a lack of space.
pub const FREE_SPACE: &str =
    "free space at the target, copy to another file system, or leave something out (--exclude)";
/// The remedy for a lack of inodes.
const FREE_INODES: &str = "free inodes at the target (delete files), copy to another file system, or leave something out (--exclude)";

/// How content takes space at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    /// It needs as much as it has bytes.
    Needed,
    /// It may share blocks with the source.
    Shared,
    /// A draft of an earlier run may hold some of it already.
    Drafted,
}

/// The space that the entries of one listing need, minus that of the entries that they replace. It is summed by one lane, so
/// that lanes share no counter for each entry.
#[derive(Debug, Default)]
pub(super) struct SpaceNeed {
    needed_bytes: i64,
    shared_bytes: i64,
    drafted_bytes: i64,
    inodes: u64,
    /// True if something is replaced, so that the need of the run may become smaller again.
    replaces: bool,
    /// True if the target has directories on other file systems.
    spans: bool,
}

impl SpaceNeed {
    /// Adds the bytes of an entry, minus those of the one that it replaces.
    pub fn add(&mut self, bytes: i64, space: Space) {
        let sum = match space {
            Space::Needed => &mut self.needed_bytes,
            Space::Shared => &mut self.shared_bytes,
            Space::Drafted => &mut self.drafted_bytes,
        };
        *sum = sum.saturating_add(bytes);
    }

    /// Adds an entry that the target lacks.
    pub fn add_inode(&mut self) {
        self.inodes += 1;
    }

    /// Records that the target has entries, which may be replaced.
    pub fn meets_entries(&mut self) {
        self.replaces = true;
    }

    /// Records that the target has a directory on another file system.
    pub fn meets_file_system(&mut self) {
        self.spans = true;
    }
}

/// The space that is needed for what was scanned so far.
#[derive(Debug, Default)]
pub(super) struct Room {
    needed_bytes: AtomicI64,
    shared_bytes: AtomicI64,
    drafted_bytes: AtomicI64,
    inodes: AtomicU64,
    replaces: AtomicBool,
    spans: AtomicBool,
    told: AtomicBool,
}

/// A lack of space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// The run cannot succeed.
    Certain(Error),
    /// It may succeed, for this reason in words.
    Possible(String),
}

impl Room {
    /// Adds the need of a listing.
    pub fn add(&self, need: &SpaceNeed) {
        self.needed_bytes.fetch_add(need.needed_bytes, Relaxed);
        self.shared_bytes.fetch_add(need.shared_bytes, Relaxed);
        self.drafted_bytes.fetch_add(need.drafted_bytes, Relaxed);
        self.inodes.fetch_add(need.inodes, Relaxed);
        self.replaces.fetch_or(need.replaces, Relaxed);
        self.spans.fetch_or(need.spans, Relaxed);
    }

    /// Returns true the first time.
    pub fn is_told_first(&self) -> bool {
        !self.told.swap(true, Relaxed)
    }

    /// Compares the need so far with what was free when the run began. Unless all is scanned, only a lack that nothing
    /// further can make up for is returned.
    pub fn lack(&self, target: &Capabilities, all_scanned: bool) -> Option<Lack> {
        if !all_scanned && self.replaces.load(Relaxed) {
            return None;
        }
        let is_one = target.tells_file_systems && !self.spans.load(Relaxed);
        let refused = |words, remedy: &str| {
            let error =
                Error::new(ErrorKind::Refused, "checking free space", words).in_step(ErrorStep::Write);
            Lack::Certain(error.hint(remedy))
        };
        let inodes = self.inodes.load(Relaxed);
        if let Some(free) = target.free_inodes.filter(|free| inodes > *free) {
            let words =
                format!("{inodes} new files and directories are needed, the file system has room for {free}");
            let possible = |reason| all_scanned.then(|| Lack::Possible(with(&words, reason)));
            return match () {
                () if !is_one => possible("elsewhere"),
                () if target.clones => possible("grown"),
                () => Some(refused(words, FREE_INODES)),
            };
        }
        let free = target.free_bytes?;
        let exceeds = |bytes: i64| u64::try_from(bytes).is_ok_and(|bytes| bytes > free);
        let needed = self.needed_bytes.load(Relaxed);
        let drafted = needed.saturating_add(self.drafted_bytes.load(Relaxed));
        let all = drafted.saturating_add(self.shared_bytes.load(Relaxed));
        let words = |bytes: i64| format_lack(bytes.unsigned_abs(), free);
        if exceeds(needed) && is_one && !target.clones {
            return Some(refused(words(needed), FREE_SPACE));
        }
        let reason = match () {
            () if !all_scanned || !exceeds(all) => return None,
            () if exceeds(needed) && !is_one => "elsewhere",
            () if exceeds(needed) => "stored",
            () if exceeds(drafted) => "drafted",
            () => "shared",
        };
        Some(Lack::Possible(with(&words(all), reason)))
    }
}

/// Adds the condition under which there is room after all.
fn with(words: &str, reason: &str) -> String {
    let condition = match reason {
        "elsewhere" => "enough of it goes to other file systems mounted there",
        "stored" => "the file system compresses it or shares its blocks",
        "grown" => "the file system makes more inodes than it reports",
        "drafted" => "enough of it is there from an earlier run",
        _ => "large files can share their blocks with the source",
    };
    format!("{words}; there is room only if {condition}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(free_bytes: u64, free_inodes: u64) -> Capabilities {
        Capabilities {
            clones: false,
            tells_file_systems: true,
            free_bytes: Some(free_bytes),
            free_inodes: Some(free_inodes),
            ..Capabilities::posix(true)
        }
    }

    fn room(needed: i64, drafted: i64, shared: i64) -> Room {
        let (room, mut need) = (Room::default(), SpaceNeed::default());
        need.add(needed, Space::Needed);
        need.add(drafted, Space::Drafted);
        need.add(shared, Space::Shared);
        room.add(&need);
        room
    }

    fn add(room: &Room, change: impl FnOnce(&mut SpaceNeed)) {
        let mut need = SpaceNeed::default();
        change(&mut need);
        room.add(&need);
    }

    fn is_certain(room: &Room, target: &Capabilities, all_scanned: bool) -> Option<bool> {
        room.lack(target, all_scanned).map(|lack| matches!(lack, Lack::Certain(_)))
    }

    #[test]
    fn only_what_surely_does_not_fit_is_refused() {
        let (small, plain) = (target(100, 9), |needed| room(needed, 0, 0));
        assert_eq!(is_certain(&plain(100), &small, true), None);
        assert_eq!(is_certain(&plain(101), &small, true), Some(true));
        assert_eq!(is_certain(&room(100, 1, 0), &small, true), Some(false), "a draft may hold it");
        assert_eq!(is_certain(&room(100, 0, 1), &small, true), Some(false), "blocks may be shared");
        let packing = Capabilities { clones: true, ..small.clone() };
        assert_eq!(is_certain(&plain(101), &packing, true), Some(false), "it may be compressed");
        let unknown = Capabilities { tells_file_systems: false, ..small.clone() };
        assert_eq!(is_certain(&plain(101), &unknown, true), Some(false), "a mount may be in it");
        let spread = plain(101);
        add(&spread, SpaceNeed::meets_file_system);
        assert_eq!(is_certain(&spread, &small, true), Some(false));
        // Replaced files count, and unknown free space decides nothing.
        assert_eq!(is_certain(&plain(101 - 1), &small, true), None);
        let silent = Capabilities { free_bytes: None, free_inodes: None, ..small };
        assert_eq!(is_certain(&plain(101), &silent, true), None);
    }

    #[test]
    fn before_all_is_scanned_only_a_new_place_is_judged() {
        let small = target(100, 9);
        let new = room(101, 0, 0);
        assert_eq!(is_certain(&new, &small, false), Some(true));
        assert_eq!(is_certain(&room(0, 101, 0), &small, false), None);
        add(&new, SpaceNeed::meets_entries);
        assert_eq!(is_certain(&new, &small, false), None, "a large file may be replaced by a small one");
        assert_eq!(is_certain(&new, &small, true), Some(true));
    }

    #[test]
    fn every_new_entry_needs_an_inode() {
        let (room, two) = (Room::default(), target(100, 2));
        (0..2).for_each(|_| add(&room, SpaceNeed::add_inode));
        assert_eq!(is_certain(&room, &two, true), None);
        add(&room, SpaceNeed::add_inode);
        assert_eq!(is_certain(&room, &two, true), Some(true));
        assert_eq!(is_certain(&room, &Capabilities { clones: true, ..two.clone() }, true), Some(false));
        assert_eq!(is_certain(&room, &Capabilities { tells_file_systems: false, ..two }, true), Some(false));
    }
}
