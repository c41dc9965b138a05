//! The attributes that listings carry, and the clock of a store whose listings have the times of uploads instead.

use crate::entry::{EntryKind, EntryMetadata, FileTime};

/// The attributes that the entries of a listing carry, as opposed to those of an entry that is asked for by itself.
///
/// In a listing without times, `mtime` and `ctime` are the time of the upload, by the clock of the store. An entry that
/// is asked for by itself has its stored `mtime`, and as `ctime` the time of the upload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListedAttributes {
    /// Times of the last change of content.
    pub times: bool,
    /// Permissions.
    pub modes: bool,
    /// Owners and groups.
    pub owners: bool,
    /// Kinds. Otherwise all that is no directory is listed as a file: a symbolic link with the length of its text, and
    /// a named pipe or device node as an empty one.
    pub kinds: bool,
    /// The hash of the extended attributes.
    pub extended: bool,
}

impl ListedAttributes {
    /// All attributes, as in a listing of a file system.
    pub const ALL: Self = Self { times: true, modes: true, owners: true, kinds: true, extended: true };
    /// No attributes: names, sizes and times of uploads, and which entries are directories.
    pub const NONE: Self = Self { times: false, modes: false, owners: false, kinds: false, extended: false };

    /// Returns true if an entry that is listed as one kind may be of another.
    pub fn may_be(self, listed: EntryKind, kind: EntryKind) -> bool {
        let is_hidden = !matches!(kind, EntryKind::Directory | EntryKind::Socket);
        listed == kind || !self.kinds && listed == EntryKind::File && is_hidden
    }

    /// Returns true if an entry is still the version that was listed, as far as the listing shows. `now` is what the
    /// entry is when it is asked for by itself.
    pub fn same_version(self, listed: &EntryMetadata, now: &EntryMetadata) -> bool {
        self.may_be(listed.kind, now.kind)
            && listed.size_bytes == now.size_bytes
            && (!self.times || listed.mtime == now.mtime)
            && listed.ctime == now.ctime
    }
}

impl Default for ListedAttributes {
    fn default() -> Self {
        Self::ALL
    }
}

/// The clock of a store, compared with that of the machine that opened it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreClock {
    /// The time by which it is behind, in nanoseconds; negative if it is ahead.
    pub behind_ns: i64,
    /// The uncertainty of an upload's time in either direction, in nanoseconds: that of the measurement, and the fraction
    /// of a second that the store does not list.
    pub uncertainty_ns: u64,
}

impl StoreClock {
    /// Returns the earliest and the latest moment that a time of an upload can stand for, in nanoseconds since 1970 by
    /// the clock of the machine that opened the store. `more_ns` adds to the uncertainty.
    pub fn moments(&self, uploaded: FileTime, more_ns: u64) -> (i128, i128) {
        let at_ns = uploaded.as_nanoseconds() + i128::from(self.behind_ns);
        let within_ns = i128::from(self.uncertainty_ns) + i128::from(more_ns);
        (at_ns - within_ns, at_ns + within_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_listing_does_not_show_is_no_other_version() {
        let file = EntryMetadata { size_bytes: 5, ..EntryMetadata::new(EntryKind::File) };
        let later = FileTime { seconds: 1, nanoseconds: 0 };
        let link = EntryMetadata { kind: EntryKind::Symlink, mtime: later, ..file };
        assert!(
            ListedAttributes::NONE.same_version(&file, &link)
                && ListedAttributes::NONE.same_version(&file, &file)
        );
        assert!(
            !ListedAttributes::ALL.same_version(&file, &link)
                && ListedAttributes::ALL.same_version(&link, &link)
        );
        for other in [
            EntryMetadata { size_bytes: 6, ..link },
            EntryMetadata { ctime: later, ..link },
            EntryMetadata { kind: EntryKind::Directory, ..link },
            EntryMetadata { kind: EntryKind::Socket, ..link },
        ] {
            assert!(!ListedAttributes::NONE.same_version(&file, &other), "{other:?}");
        }
        assert!(!ListedAttributes::NONE.same_version(&link, &file), "a kind that was seen");
        let times = ListedAttributes { times: true, ..ListedAttributes::NONE };
        assert!(!times.same_version(&file, &link));
    }

    #[test]
    fn the_moments_of_an_upload_are_by_the_clock_of_this_machine() {
        let uploaded = FileTime { seconds: 100, nanoseconds: 7 };
        let ahead = StoreClock { behind_ns: -60_000_000_000, uncertainty_ns: 500 };
        assert_eq!(ahead.moments(uploaded, 0), (39_999_999_507, 40_000_000_507));
        assert_eq!(ahead.moments(uploaded, 7), (39_999_999_500, 40_000_000_514));
        let behind = StoreClock { behind_ns: i64::MAX, uncertainty_ns: u64::MAX };
        let last = FileTime { seconds: i64::MAX, nanoseconds: 999_999_999 };
        assert!(behind.moments(last, u64::MAX).0 < behind.moments(last, 0).1);
    }
}
