//! The test data that is copied: files, trees, disks and images, or nothing if a method generates its own content.

use crate::table::Unit;

pub const MIB: u64 = 1 << 20;
pub const GIB: u64 = 1 << 30;
/// The file size in bytes from which on a tree is measured in bytes and not in files.
const LARGE_BYTES: u64 = 64 << 20;

/// The length in bytes of the data runs of a disk or image that is not full.
pub const RUN_BYTES: u64 = MIB;
/// The size in bytes of a disk in baselines: one chunk of a lane.
const ONE_CHUNK_BYTES: u64 = 4 * MIB;
/// The size in bytes of the small files of a mixed tree.
pub const SMALL_OF_MIXED_BYTES: u64 = 100 << 10;
/// The length in bytes of a changed piece of a disk. One piece in [`CHANGED_ONE_IN`] is changed.
pub const CHANGED_PIECE_BYTES: u64 = 256 << 10;
pub const CHANGED_ONE_IN: u64 = 100;

/// The backing of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// A loop device on a file in memory.
    Memory,
    /// A loop device on a file on the machine's own disk, bypassing the page cache.
    OwnDisk,
}

/// Test data. Content is random except for zeros where stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BenchSource {
    /// One file.
    File { bytes: u64 },
    /// Files spread evenly over sibling directories.
    Tree { files: u64, directories: u64, file_bytes: u64 },
    /// A [`Self::Tree`] whose files have attributes and access lists. A tenth of them are hard links to others.
    Dressed { files: u64, directories: u64, file_bytes: u64 },
    /// A block device with `data_bytes` of evenly spread data. The rest is zeros that have been written.
    Disk { bytes: u64, data_bytes: u64, medium: Medium },
    /// A file with holes where such a disk has zeros.
    Image { bytes: u64, data_bytes: u64 },
    /// Files of 100 KiB, large files, and a single one of `alone_bytes`, which is left out if that is 0.
    Mixed { small_files: u64, large_files: u64, large_bytes: u64, alone_bytes: u64 },
    /// No source: the method generates this much content itself.
    Made { bytes: u64 },
}

impl BenchSource {
    pub const LARGE: Self = Self::File { bytes: 8 * GIB };
    pub const MIDDLE: Self = Self::File { bytes: 2 * GIB };
    pub const LINK_FILE: Self = Self::File { bytes: 500_000_000 };
    pub const TREE: Self = Self::Tree { files: 100_000, directories: 1000, file_bytes: 10 << 10 };
    /// A million empty files, so that inspecting them is all the work.
    pub const MILLION: Self = Self::Tree { files: 1_000_000, directories: 10_000, file_bytes: 0 };
    /// 2 GB in 20 000 files.
    pub const MIDDLE_FILES: Self = Self::Tree { files: 20_000, directories: 200, file_bytes: 100_000 };
    /// One large file in a tree.
    pub const LARGE_IN_TREE: Self = Self::Tree { files: 1, directories: 0, file_bytes: GIB };
    /// A fifth of 10 000 files of 50 KB.
    pub const NETWORK_FILES: Self = Self::Tree { files: 2_000, directories: 100, file_bytes: 50_000 };
    pub const SMALL_FILES: Self = Self::Tree { files: 100_000, directories: 1000, file_bytes: 1000 };
    pub const DRESSED: Self = Self::Dressed { files: 100_000, directories: 1000, file_bytes: 1000 };
    pub const ONE_DRESSED: Self = Self::Dressed { files: 1, directories: 0, file_bytes: 1 };
    pub const LINK_TREE: Self = Self::Tree { files: 10_000, directories: 100, file_bytes: 4 << 10 };
    /// So few files that a tool may take many round trips for each.
    pub const LINK_SAMPLE: Self = Self::Tree { files: 200, directories: 2, file_bytes: 4 << 10 };
    /// 10 000 files of 100 KiB and 20 of 100 MiB, which several connections can share.
    pub const DIVISIBLE: Self = Self::mixed(10_000, 20, 100 * MIB, 0);
    /// A fortieth of [`Self::DIVISIBLE`], for methods that would take minutes.
    pub const DIVISIBLE_SAMPLE: Self = Self::mixed(250, 1, 50 * MIB, 0);
    /// A tenth of [`Self::DIVISIBLE`], and one file with 20 % of all bytes.
    pub const WITH_ONE_ALONE: Self =
        Self::mixed(1000, 20, 10 * MIB, (1000 * SMALL_OF_MIXED_BYTES + 20 * 10 * MIB) / 4);
    pub const TWO_LARGE: Self = Self::Tree { files: 2, directories: 0, file_bytes: GIB };
    /// The source of baselines, which leaves only login and start.
    pub const ONE_BYTE_FILE: Self = Self::File { bytes: 1 };
    pub const ONE_BYTE_TREE: Self = Self::Tree { files: 1, directories: 0, file_bytes: 1 };

    pub const DISK: Self = Self::disk(4 * GIB, 4 * GIB, Medium::Memory);
    pub const ZEROS_DISK: Self = Self::disk(4 * GIB, tenth(4 * GIB), Medium::Memory);
    pub const OWN_DISK: Self = Self::disk(4 * GIB, 4 * GIB, Medium::OwnDisk);
    pub const IMAGE: Self = Self::Image { bytes: 4 * GIB, data_bytes: 4 * GIB };
    pub const HOLES_IMAGE: Self = Self::Image { bytes: 4 * GIB, data_bytes: tenth(4 * GIB) };
    pub const SPARSE_IMAGE: Self = Self::Image { bytes: 2048 * GIB, data_bytes: GIB };
    pub const MADE: Self = Self::Made { bytes: 4 * GIB };

    const fn disk(bytes: u64, data_bytes: u64, medium: Medium) -> Self {
        Self::Disk { bytes, data_bytes, medium }
    }

    const fn mixed(small_files: u64, large_files: u64, large_bytes: u64, alone_bytes: u64) -> Self {
        Self::Mixed { small_files, large_files, large_bytes, alone_bytes }
    }

    /// Returns the size in bytes, holes included.
    pub fn bytes(self) -> u64 {
        match self {
            Self::File { bytes }
            | Self::Disk { bytes, .. }
            | Self::Image { bytes, .. }
            | Self::Made { bytes } => bytes,
            Self::Tree { files, file_bytes, .. } | Self::Dressed { files, file_bytes, .. } => {
                files * file_bytes
            }
            Self::Mixed { small_files, large_files, large_bytes, alone_bytes } => {
                small_files * SMALL_OF_MIXED_BYTES + large_files * large_bytes + alone_bytes
            }
        }
    }

    /// Returns the number of objects that it becomes in a store: files, and directories with the one that has them all.
    pub fn entries(self) -> u64 {
        match self {
            Self::Tree { files, directories, .. } | Self::Dressed { files, directories, .. } => {
                files + directories + 1
            }
            _ => self.amount(),
        }
    }

    /// Returns true if it is a tree of files.
    pub fn is_tree(self) -> bool {
        matches!(self, Self::Tree { .. } | Self::Dressed { .. } | Self::Mixed { .. })
    }

    /// Returns the number of bytes that are not zeros and therefore have to be transferred.
    pub fn data_bytes(self) -> u64 {
        match self {
            Self::Disk { data_bytes, .. } | Self::Image { data_bytes, .. } => data_bytes,
            _ => self.bytes(),
        }
    }

    /// Returns the bytes that the source, or a copy of it, takes on tmpfs, or a little more. Warmed before each run.
    pub fn memory_bytes(self) -> u64 {
        match self {
            // One page for each file's last bytes, and its inode and name.
            Self::Tree { files, file_bytes, directories }
            | Self::Dressed { files, file_bytes, directories } => {
                files * (file_bytes.next_multiple_of(4096) + 1024) + directories * 4096
            }
            Self::Mixed { small_files, .. } => self.bytes() + small_files * 1024 + MIB,
            // A disk's zeros have been written.
            Self::Disk { bytes, .. } => bytes,
            _ => self.data_bytes().next_multiple_of(MIB),
        }
    }

    /// Returns the smallest source of the same kind, for baselines.
    pub fn least(self) -> Self {
        let bytes = ONE_CHUNK_BYTES;
        match self {
            Self::File { .. } => Self::ONE_BYTE_FILE,
            Self::Tree { .. } | Self::Mixed { .. } => Self::ONE_BYTE_TREE,
            Self::Dressed { .. } => Self::ONE_DRESSED,
            Self::Disk { medium, .. } => Self::disk(bytes, bytes, medium),
            Self::Image { .. } => Self::Image { bytes, data_bytes: bytes },
            Self::Made { .. } => Self::Made { bytes },
        }
    }

    pub fn smaller(self, divisor: u64) -> Self {
        let part = |bytes: u64| (bytes / divisor).max(1);
        // Disks and images consist of whole runs.
        let runs = |bytes: u64| (bytes / divisor / RUN_BYTES).max(4) * RUN_BYTES;
        match self {
            Self::File { bytes } => Self::File { bytes: part(bytes) },
            Self::Tree { files: 1, directories, file_bytes } => {
                Self::Tree { files: 1, directories, file_bytes: part(file_bytes) }
            }
            Self::Tree { files, directories, file_bytes } => {
                Self::Tree { files: part(files), directories: directories / divisor, file_bytes }
            }
            Self::Dressed { files, directories, file_bytes } => {
                Self::Dressed { files: part(files), directories: directories / divisor, file_bytes }
            }
            Self::Mixed { small_files, large_files, large_bytes, alone_bytes } => {
                Self::mixed(part(small_files), large_files, part(large_bytes), alone_bytes / divisor)
            }
            Self::Disk { bytes, data_bytes, medium } => Self::disk(runs(bytes), runs(data_bytes), medium),
            Self::Image { bytes, data_bytes } => {
                Self::Image { bytes: runs(bytes), data_bytes: runs(data_bytes) }
            }
            Self::Made { bytes } => Self::Made { bytes: runs(bytes) },
        }
    }

    /// Returns the unit of speeds.
    pub fn unit(self) -> Unit {
        match self {
            Self::Tree { files: 2.., file_bytes: ..LARGE_BYTES, .. } | Self::Dressed { .. } => {
                Unit::FilesPerSecond
            }
            _ => Unit::BytesPerSecond,
        }
    }

    /// Returns the amount of data, in what [`unit`](Self::unit) counts.
    pub fn amount(self) -> u64 {
        match self {
            Self::Tree { files, .. } | Self::Dressed { files, .. } if self.unit() == Unit::FilesPerSecond => {
                files
            }
            _ => self.bytes(),
        }
    }

    /// Returns the total size in bytes of an image's holes.
    pub fn hole_bytes(self) -> u64 {
        match self {
            Self::Image { bytes, data_bytes } => bytes - data_bytes,
            _ => 0,
        }
    }

    /// Describes the source in words.
    pub fn describe(self) -> String {
        match self {
            Self::File { bytes } => format!("one file of {bytes} random bytes"),
            Self::Tree { files: 1, file_bytes, .. } => {
                format!("one file of {file_bytes} random bytes in a tree")
            }
            Self::Tree { files, directories, file_bytes } => {
                format!("{files} files of {file_bytes} random bytes in {directories} directories")
            }
            Self::Dressed { files, directories, file_bytes } => format!(
                "{files} files of {file_bytes} random bytes in {directories} directories, with attributes, access lists \
                 and hard links"
            ),
            Self::Mixed { small_files, large_files, large_bytes, alone_bytes } => {
                let alone = match alone_bytes {
                    0 => String::new(),
                    bytes => format!(" and one of {bytes}"),
                };
                format!(
                    "{small_files} files of {SMALL_OF_MIXED_BYTES} random bytes, {large_files} of {large_bytes}{alone}"
                )
            }
            Self::Disk { bytes, data_bytes, medium } => {
                let medium = match medium {
                    Medium::Memory => "a loop device in memory",
                    Medium::OwnDisk => "a loop device on the machine's disk, past the page cache",
                };
                format!("{medium}: {bytes} bytes, {}", of_which(bytes, data_bytes, "zeros"))
            }
            Self::Image { bytes, data_bytes } => {
                format!("an image file of {bytes} bytes, {}", of_which(bytes, data_bytes, "a hole"))
            }
            Self::Made { bytes } => format!("{bytes} bytes, made by the method itself"),
        }
    }
}

const fn tenth(bytes: u64) -> u64 {
    bytes / 10 / RUN_BYTES * RUN_BYTES
}

fn of_which(bytes: u64, data_bytes: u64, rest: &str) -> String {
    match bytes - data_bytes {
        0 => "random".to_owned(),
        other => format!("{data_bytes} of them random in runs of {RUN_BYTES}, {other} {rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quick_sizes_are_an_eighth() {
        assert_eq!(BenchSource::LARGE.smaller(8), BenchSource::File { bytes: 1 << 30 });
        let tree = BenchSource::Tree { files: 12_500, directories: 125, file_bytes: 10 << 10 };
        assert_eq!(BenchSource::TREE.smaller(8), tree);
        assert_eq!(BenchSource::ONE_BYTE_FILE.smaller(8), BenchSource::ONE_BYTE_FILE);
        assert_eq!(BenchSource::DISK.smaller(8), BenchSource::disk(GIB / 2, GIB / 2, Medium::Memory));
        let sparse = BenchSource::Image { bytes: 256 * GIB, data_bytes: GIB / 8 };
        assert_eq!(BenchSource::SPARSE_IMAGE.smaller(8), sparse);
    }

    #[test]
    fn few_large_files_are_measured_in_bytes() {
        let measured = |source: BenchSource| (source.unit(), source.amount());
        assert_eq!(measured(BenchSource::TWO_LARGE), (Unit::BytesPerSecond, 2 * GIB));
        assert_eq!(measured(BenchSource::LARGE_IN_TREE), (Unit::BytesPerSecond, GIB));
        assert_eq!(measured(BenchSource::TREE), (Unit::FilesPerSecond, 100_000));
    }

    #[test]
    fn a_mixed_tree_keeps_its_shape() {
        let BenchSource::Mixed { alone_bytes, .. } = BenchSource::WITH_ONE_ALONE else {
            panic!("it is mixed")
        };
        assert_eq!(alone_bytes * 5, BenchSource::WITH_ONE_ALONE.bytes());
        assert_eq!(BenchSource::DIVISIBLE_SAMPLE.bytes() * 40, BenchSource::DIVISIBLE.bytes());
    }

    #[test]
    fn disks_are_made_of_whole_runs_and_holes_are_known() {
        for source in
            [BenchSource::DISK, BenchSource::ZEROS_DISK, BenchSource::HOLES_IMAGE, BenchSource::SPARSE_IMAGE]
        {
            for source in [source, source.smaller(8), source.least()] {
                assert_eq!((source.bytes() % RUN_BYTES, source.data_bytes() % RUN_BYTES), (0, 0));
                assert!(source.data_bytes() <= source.bytes());
            }
        }
        assert_eq!(BenchSource::IMAGE.hole_bytes(), 0);
        assert_eq!(BenchSource::SPARSE_IMAGE.hole_bytes(), 2047 * GIB);
    }
}
