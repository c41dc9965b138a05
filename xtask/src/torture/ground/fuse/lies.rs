//! What the lying file system may lie about.
//!
//! To add a lie: a field here, its effect in one place of `server.rs`, `content.rs` or `nodes.rs`, and, if it changes what the
//! file system holds, a line in `holds.rs`. All fields at their default make an honest pass-through.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// How many inode numbers all files share.
const SHARED_NUMBERS: u64 = 4;

/// The lies of one mount. The default is an honest file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lies {
    /// `st_blocks` is 0 for every regular file, as compressing and remote file systems do.
    pub blocks_zero: bool,
    /// `st_size` is 0 for every regular file, as in procfs. Opens with direct I/O, or nobody could read anything.
    pub size_zero: bool,
    /// A read returns fewer bytes than were asked for, though not at the end of the file. Opens with direct I/O: else the
    /// kernel asks for whole pages and takes a short answer for the end of the file.
    pub short_reads: bool,
    /// A write takes fewer bytes than it was given. Opens with direct I/O.
    pub short_writes: bool,
    /// The content ends after three quarters of what `st_size` says. Opens with direct I/O.
    pub early_eof: bool,
    /// Times are kept in steps of so many nanoseconds; 0 and 1 are exact.
    pub coarse_time_ns: u64,
    /// `link` fails with `EPERM`, and every file says that it has one name.
    pub no_hard_links: bool,
    /// `close` of a file that was written fails with `EIO`, as where the upload to an object store happens then.
    pub fail_close: bool,
    /// `fsync` of a file fails with `EIO`.
    pub fail_fsync: bool,
    /// Reading the byte at this offset fails with `EIO`.
    pub eio_at: Option<u64>,
    /// Writing at or behind this offset fails with `ENOSPC`.
    pub enospc_at: Option<u64>,
    /// Files share a few inode numbers, and say that they have two names.
    pub inode_numbers_lie: bool,
    /// Listing extended attributes fails with `EIO`.
    pub fail_xattr_list: bool,
    /// Reading the value of an extended attribute fails with `EIO`.
    pub fail_xattr_read: bool,
    /// Extended attributes are not supported at all (`EOPNOTSUPP`).
    pub no_xattrs: bool,
    /// A directory's listing fails with `EIO` after so many names.
    pub fail_list_after: Option<u64>,
    /// Names that differ in ASCII case alone are one name.
    pub case_insensitive: bool,
    /// `chown` and `chmod` fail with `EPERM`.
    pub no_owners: bool,
    /// `fallocate` fails with `EOPNOTSUPP`, punching holes included.
    pub no_fallocate: bool,
    /// `SEEK_DATA` and `SEEK_HOLE` are not supported: the kernel then takes the whole file for data.
    pub no_seek_hole: bool,
    /// Every open file is read and written past the page cache.
    pub direct_io: bool,
    /// The lies about single files hold for one in so many of them (by inode number). 0 and 1 are all.
    pub one_in: u64,
}

impl Lies {
    /// Lies that a source may tell: reading through most of them must give exactly the true content and attributes;
    /// [`Self::spoils_reading`] says where it cannot.
    #[must_use]
    pub fn of_sources() -> Vec<Self> {
        let honest = Self::default;
        let often = [
            Self { blocks_zero: true, ..honest() },
            Self { size_zero: true, ..honest() },
            Self { short_reads: true, ..honest() },
            Self { coarse_time_ns: 2_000_000_000, ..honest() },
        ];
        let others = vec![
            honest(),
            Self { blocks_zero: true, size_zero: true, ..honest() },
            Self { short_reads: true, blocks_zero: true, ..honest() },
            Self { direct_io: true, ..honest() },
            Self { no_seek_hole: true, ..honest() },
            Self { no_xattrs: true, ..honest() },
            Self { inode_numbers_lie: true, ..honest() },
            Self { early_eof: true, one_in: 3, ..honest() },
            Self { eio_at: Some(5_000), one_in: 2, ..honest() },
            Self { eio_at: Some(2_000_000), ..honest() },
            Self { fail_xattr_list: true, one_in: 3, ..honest() },
            Self { fail_xattr_read: true, one_in: 2, ..honest() },
            Self { fail_list_after: Some(3), one_in: 2, ..honest() },
        ];
        [&often[..], &often, &often, &others].concat()
    }

    /// Lies that a target may tell.
    #[must_use]
    pub fn of_targets() -> Vec<Self> {
        let honest = Self::default;
        let often = [
            Self { blocks_zero: true, ..honest() },
            Self { short_reads: true, short_writes: true, ..honest() },
            Self { no_hard_links: true, ..honest() },
            Self { fail_close: true, ..honest() },
            Self { fail_fsync: true, ..honest() },
        ];
        let others = vec![
            honest(),
            Self { direct_io: true, ..honest() },
            Self { coarse_time_ns: 1_000_000_000, ..honest() },
            Self { coarse_time_ns: 2_000_000_000, ..honest() },
            Self { coarse_time_ns: 100, ..honest() },
            Self { no_xattrs: true, ..honest() },
            Self { no_owners: true, ..honest() },
            Self { no_fallocate: true, no_seek_hole: true, ..honest() },
            Self { inode_numbers_lie: true, ..honest() },
            Self { case_insensitive: true, ..honest() },
            Self { fail_close: true, one_in: 3, ..honest() },
            Self { fail_fsync: true, one_in: 3, ..honest() },
            Self { enospc_at: Some(5_000), one_in: 2, ..honest() },
            Self { enospc_at: Some(2_000_000), ..honest() },
        ];
        [&often[..], &often, &often, &others].concat()
    }

    /// True where something cannot be read, so that a run must end with failures; unless it has nothing to do with what it is
    /// about, as with an offset behind the end of every file.
    #[must_use]
    pub fn spoils_reading(&self) -> bool {
        self.early_eof
            || self.eio_at.is_some()
            || self.fail_xattr_list
            || self.fail_xattr_read
            || self.fail_list_after.is_some()
    }

    /// True where something cannot be written, so that a run must end with failures; likewise.
    #[must_use]
    pub fn spoils_writing(&self) -> bool {
        self.fail_close || self.fail_fsync || self.enospc_at.is_some()
    }

    /// True when nothing is a lie.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        *self == Self::default()
    }

    /// True when files are opened past the page cache.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.direct_io || self.size_zero || self.short_reads || self.short_writes || self.early_eof
    }

    /// True when the lies about single files hold for this one.
    #[must_use]
    pub fn holds_for(&self, inode: u64) -> bool {
        self.one_in < 2 || inode.is_multiple_of(self.one_in)
    }

    /// How many different inode numbers there are.
    #[must_use]
    pub fn inode_numbers(&self) -> u64 {
        if self.inode_numbers_lie { SHARED_NUMBERS } else { u64::MAX }
    }

    /// The step of times, in nanoseconds.
    #[must_use]
    pub fn time_step_ns(&self) -> u64 {
        self.coarse_time_ns.max(1)
    }

    /// Where content ends that has this size on the backing file system.
    #[must_use]
    pub fn end_of(&self, inode: u64, size: u64) -> u64 {
        if self.early_eof && self.holds_for(inode) { size - size.div_ceil(4) } else { size }
    }

    /// How many bytes of a read or a write of `wanted` at `offset` are done: at least one.
    #[must_use]
    pub fn short(offset: u64, wanted: usize) -> usize {
        if wanted < 2 {
            return wanted;
        }
        // A few bits of the offset decide, so that a run can be repeated.
        let mixed = (offset ^ wanted as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        match mixed % 4 {
            0 => 1,
            1 => wanted / 2,
            2 => wanted - 1,
            _ => 1 + (mixed as usize) % wanted,
        }
    }

    /// A moment, rounded down to the step.
    #[must_use]
    pub fn rounded(&self, seconds: i64, nanoseconds: u32) -> (i64, u32) {
        let step = i128::from(self.time_step_ns());
        let all = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let rounded = all.div_euclid(step) * step;
        (rounded.div_euclid(1_000_000_000) as i64, rounded.rem_euclid(1_000_000_000) as u32)
    }

    /// What the file system says of a file, in place of the truth.
    pub fn told(&self, stat: &mut Stat) {
        let regular = rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file();
        let mine = regular && self.holds_for(stat.st_ino);
        if mine && self.blocks_zero {
            stat.st_blocks = 0;
        }
        if mine && self.size_zero {
            stat.st_size = 0;
        }
        if regular && self.no_hard_links {
            stat.st_nlink = 1;
        }
        if mine && self.inode_numbers_lie {
            stat.st_ino = 1_000 + stat.st_ino % SHARED_NUMBERS;
            stat.st_nlink = stat.st_nlink.max(2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Lies;

    #[test]
    fn a_short_result_is_never_empty_nor_too_long() {
        for offset in (0..1 << 20).step_by(4_093) {
            for wanted in [1, 2, 3, 4_096, 131_072] {
                let got = Lies::short(offset, wanted);
                assert!((1..=wanted).contains(&got), "{got} of {wanted} at {offset}");
            }
        }
        assert_eq!(Lies::short(7, 0), 0);
    }

    #[test]
    fn times_before_1970_are_rounded_down() {
        let lies = Lies { coarse_time_ns: 2_000_000_000, ..Lies::default() };
        assert_eq!(lies.rounded(-1, 500_000_000), (-2, 0));
        assert_eq!(lies.rounded(3, 1), (2, 0));
        assert_eq!(Lies::default().rounded(-1, 5), (-1, 5));
    }

    #[test]
    fn content_that_ends_early_ends_within_the_file() {
        let lies = Lies { early_eof: true, ..Lies::default() };
        assert_eq!(
            (lies.end_of(1, 0), lies.end_of(1, 1), lies.end_of(1, 4), lies.end_of(1, 100)),
            (0, 0, 3, 75)
        );
    }
}
