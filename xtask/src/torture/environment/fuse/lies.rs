//! The lies of the lying file system.
//!
//! To add a lie, add a field here, its effect in one place of `server.rs`, `content.rs` or `nodes.rs`, and, if it
//! changes the capabilities of the file system, a line in `capabilities.rs`. With all fields at their default the file
//! system is an honest pass-through.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// The number of inode numbers that all files share.
const SHARED_NUMBERS: u64 = 4;

/// The lies of one mount. The default is an honest file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lies {
    /// `st_blocks` is 0 for every regular file, as in compressing and remote file systems.
    pub blocks_zero: bool,
    /// `st_size` is 0 for every regular file, as in procfs. Opens with direct I/O, or nothing could be read.
    pub size_zero: bool,
    /// A read returns fewer bytes than requested before the end of the file. Opens with direct I/O, or the kernel would
    /// request whole pages and take a short result for the end of the file.
    pub short_reads: bool,
    /// A write accepts fewer bytes than it was given. Opens with direct I/O.
    pub short_writes: bool,
    /// The content ends after three quarters of `st_size`. Opens with direct I/O.
    pub early_eof: bool,
    /// The resolution of times in nanoseconds; 0 and 1 are exact.
    pub coarse_time_ns: u64,
    /// `link` fails with `EPERM`, and every file reports one hard link.
    pub no_hard_links: bool,
    /// `close` of a file that was written fails with `EIO`, as when an upload to an object store happens then.
    pub fail_close: bool,
    /// `fsync` of a file fails with `EIO`.
    pub fail_fsync: bool,
    /// Reading the byte at this offset fails with `EIO`.
    pub eio_at: Option<u64>,
    /// Writing at or beyond this offset fails with `ENOSPC`.
    pub enospc_at: Option<u64>,
    /// Files share a few inode numbers, and report at least two hard links.
    pub inode_numbers_lie: bool,
    /// Listing extended attributes fails with `EIO`.
    pub fail_xattr_list: bool,
    /// Reading the value of an extended attribute fails with `EIO`.
    pub fail_xattr_read: bool,
    /// Extended attributes are not supported (`EOPNOTSUPP`).
    pub no_xattrs: bool,
    /// Listing a directory fails with `EIO` after this many names.
    pub fail_list_after: Option<u64>,
    /// A directory lists each name twice, as servers do whose directories change meanwhile.
    pub lists_twice: bool,
    /// Names that differ only in ASCII case are the same.
    pub case_insensitive: bool,
    /// `chown` and `chmod` fail with `EPERM`.
    pub no_owners: bool,
    /// `fallocate` fails with `EOPNOTSUPP`, including punching holes.
    pub no_fallocate: bool,
    /// `SEEK_DATA` and `SEEK_HOLE` are not supported: the kernel then takes the whole file for data.
    pub no_seek_hole: bool,
    /// Files are opened with direct I/O, bypassing the page cache.
    pub direct_io: bool,
    /// Lies about single files apply to one file in this many, by inode number. 0 and 1 mean all files.
    pub one_in: u64,
}

impl Lies {
    /// Returns the lies of sources. Reading through most of them must give exactly the true content and attributes;
    /// [`Self::spoils_reading`] tells the others.
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
            Self { lists_twice: true, one_in: 2, ..honest() },
        ];
        [&often[..], &often, &often, &others].concat()
    }

    /// Returns the lies of targets.
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
            Self { lists_twice: true, one_in: 2, ..honest() },
            Self { fail_close: true, one_in: 3, ..honest() },
            Self { fail_fsync: true, one_in: 3, ..honest() },
            Self { enospc_at: Some(5_000), one_in: 2, ..honest() },
            Self { enospc_at: Some(2_000_000), ..honest() },
        ];
        [&often[..], &often, &often, &others].concat()
    }

    /// Returns true if something cannot be read, so that a run must end with failures, unless the lie does not affect
    /// its entries, like an offset beyond the end of every file.
    #[must_use]
    pub fn spoils_reading(&self) -> bool {
        self.early_eof
            || self.eio_at.is_some()
            || self.fail_xattr_list
            || self.fail_xattr_read
            || self.fail_list_after.is_some()
    }

    /// Returns true if something cannot be written, so that a run must end with failures, with the same exception.
    #[must_use]
    pub fn spoils_writing(&self) -> bool {
        self.fail_close || self.fail_fsync || self.enospc_at.is_some()
    }

    /// Returns true if nothing is a lie.
    #[must_use]
    pub fn is_honest(&self) -> bool {
        *self == Self::default()
    }

    /// Returns true if files are opened with direct I/O.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.direct_io || self.size_zero || self.short_reads || self.short_writes || self.early_eof
    }

    /// Returns true if lies about single files apply to this one.
    #[must_use]
    pub fn holds_for(&self, inode: u64) -> bool {
        self.one_in < 2 || inode.is_multiple_of(self.one_in)
    }

    /// Returns the number of different inode numbers.
    #[must_use]
    pub fn inode_numbers(&self) -> u64 {
        if self.inode_numbers_lie { SHARED_NUMBERS } else { u64::MAX }
    }

    /// Returns the resolution of times in nanoseconds.
    #[must_use]
    pub fn time_step_ns(&self) -> u64 {
        self.coarse_time_ns.max(1)
    }

    /// Returns the offset at which content of this size ends.
    #[must_use]
    pub fn end_of(&self, inode: u64, size: u64) -> u64 {
        if self.early_eof && self.holds_for(inode) { size - size.div_ceil(4) } else { size }
    }

    /// Returns how many bytes of a read or write of `wanted` at `offset` are done: at least one, if any are wanted.
    #[must_use]
    pub fn short(offset: u64, wanted: usize) -> usize {
        if wanted < 2 {
            return wanted;
        }
        // The offset and length decide, so that a run is reproducible. Each is mixed by itself: their exclusive or may
        // stay the same from byte to byte, and a file of megabytes would be read in single bytes.
        let mixed = (offset.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (wanted as u64).wrapping_mul(0xbf58_476d_1ce4_e5b9))
            >> 40;
        match mixed % 4 {
            0 => 1,
            1 => wanted / 2,
            2 => wanted - 1,
            _ => 1 + (mixed as usize) % wanted,
        }
    }

    /// Returns a time rounded down to the resolution.
    #[must_use]
    pub fn rounded(&self, seconds: i64, nanoseconds: u32) -> (i64, u32) {
        let step = i128::from(self.time_step_ns());
        let all = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
        let rounded = all.div_euclid(step) * step;
        (rounded.div_euclid(1_000_000_000) as i64, rounded.rem_euclid(1_000_000_000) as u32)
    }

    /// Replaces the metadata of a file by what the file system reports.
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
    fn a_file_is_not_read_in_single_bytes_to_its_end() {
        for end in [1 << 20, (1 << 22) - 1, 4_194_303, 9_999_999] {
            for start in (0..end).step_by(262_144) {
                let (mut offset, mut steps) = (start, 0);
                while offset < end {
                    offset += Lies::short(offset, (end - offset) as usize) as u64;
                    steps += 1;
                }
                assert!(steps < 500, "{steps} steps from {start} to {end}");
            }
        }
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
