//! The work of a run: the entries to copy, their places below the target's root, and the options.

use crate::compression::Compression;
use crate::digest::Algorithm;
use crate::endpoint::{DraftKind, Earlier};
use crate::entry::Inode;
use crate::extended::Classes;
use crate::filter::FilterRules;
use crate::losses::LossKind;
use crate::pace::RunLimits;
use crate::path::EntryPath;

/// One entry to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobItem {
    /// The index of the source's root.
    pub root: u16,
    /// The entry below that root: one name, or the root itself for the contents of a directory.
    pub source: EntryPath,
    /// The place below the target's root; the root itself for the contents of a directory.
    pub target: EntryPath,
    /// The kind of place that is written to. Anything but [`DraftKind::File`] accepts only the content of one file or
    /// device.
    pub place: DraftKind,
}

/// The treatment of the content of large files and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Write everything.
    #[default]
    Copy,
    /// Compare the existing content with the source, and write what differs.
    Delta,
    /// Compare, and write nothing.
    Compare,
    /// Compute the digest of one file or device, holes included; the content goes to a sink.
    Digest(Algorithm),
}

impl Mode {
    /// Returns true if nothing is written.
    pub fn only_reads(self) -> bool {
        self == Mode::Compare || self.is_digest()
    }

    /// Returns true if only a digest is computed.
    pub fn is_digest(self) -> bool {
        matches!(self, Mode::Digest(_))
    }
}

/// The treatment of extra entries, which only the target has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// Leave them. An extra directory counts as one entry, without its contents.
    #[default]
    Leave,
    /// Count them, including everything inside directories. An entry that blocks one of another kind is counted too,
    /// and the blocked entry is left out.
    Count,
    /// Remove them, and copy nothing.
    Remove,
}

/// The method of updating a large file that has another version at the target, when trees are synchronised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// Send the whole file.
    #[default]
    Whole,
    /// Send what differs. The result is a new file that also uses content of the old one.
    Changes,
    /// Send what differs, and write it into the existing file. Applies to files of every size.
    InPlace,
}

impl Update {
    /// Returns the kind of draft that is written to.
    pub fn draft_kind(self) -> DraftKind {
        match self {
            Update::Whole => DraftKind::File,
            Update::Changes => DraftKind::Update,
            Update::InPlace => DraftKind::InPlace,
        }
    }
}

/// A random share of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSample {
    /// The share in parts per million.
    pub per_million: u32,
    /// The seed; a different one selects different files.
    pub seed: u64,
}

impl FileSample {
    /// Returns true if the sample contains the file.
    pub fn takes(self, path: &EntryPath) -> bool {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes()).update(path.as_bytes());
        let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
        u64::from(u32::from_le_bytes([a, b, c, d])) * 1_000_000 < u64::from(self.per_million) << 32
    }
}

/// A run: everything that the engine needs besides the two endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// The entries to copy.
    pub items: Vec<JobItem>,
    /// A directory at the target to create first, with default permissions.
    pub make_directory: Option<EntryPath>,
    /// The number of lanes at the start, 1 to [`LANES_MAX`].
    pub lanes: u16,
    /// The maximum number of lanes, if it is larger. The run searches for the number that transfers most.
    pub lanes_max: u16,
    /// True if digests are computed.
    pub digest: bool,
    /// True if blocks may be shared with the source instead of being read and written.
    pub clone: bool,
    /// True if the target is flushed to stable storage at the end.
    pub durable: bool,
    /// True if the run only reports what it would do.
    pub dry_run: bool,
    /// The kinds of loss that must not happen: an entry that would suffer one of them fails.
    pub require: Vec<LossKind>,
    /// The treatment of content.
    pub mode: Mode,
    /// The treatment of an earlier run's journal for something that the user named.
    pub earlier: Earlier,
    /// True if everything is read back from the medium before it counts as written.
    pub verify_medium: bool,
    /// True if the source is in use, so that it may have changed since an earlier run.
    pub live: bool,
    /// True if unreadable ranges are read as zeros and reported, instead of failing.
    pub skip_unreadable: bool,
    /// The treatment of extra entries.
    pub removal: Removal,
    /// The maximum number of entries to remove, as agreed by the user. The run ends before it would remove more.
    pub removals_max: u64,
    /// The filter that selects entries. Excluded entries are neither copied nor removed.
    pub filter: FilterRules,
    /// The extended attributes to preserve, as far as both ends can. Others are not touched, and are not a loss.
    pub extended: Classes,
    /// True if owner and group are mapped by name instead of by number.
    pub by_name: bool,
    /// True if owner and group are compared, in a run that writes nothing.
    pub owners: bool,
    /// True if files of the same size are equal only if their content is, whatever their times.
    pub compare_content: bool,
    /// The sample of files whose content is compared, in a run that writes nothing; `None` for all files.
    pub sample: Option<FileSample>,
    /// True if directories on other file systems are left empty: they are not listed, and nothing in them is removed.
    pub one_file_system: bool,
    /// True if hard links are preserved.
    pub hard_links: bool,
    /// The method of updating a file of a tree.
    pub update: Update,
    /// True if differing pieces are compared again in blocks, which pays off over a network.
    pub blocks: bool,
    /// The limits at the start of the run.
    pub limits: RunLimits,
    /// The compression of content on its way to another machine.
    pub compression: Compression,
    /// Directories of the target if it is on the source's machine. They are not read if the source leads to them by
    /// another name.
    pub target_directories: Vec<Inode>,
    /// The file systems of the source if it is on the target's machine. A file with several hard links on one of these
    /// may be a file of the source under another name.
    pub source_file_systems: Vec<u64>,
    /// True if each change of an entry is reported as an event.
    pub itemize: bool,
    /// True if all content is read, even if a store keeps its digest.
    pub full: bool,
}

impl Job {
    /// Returns true if holes of any length are hashed. That takes time, which is acceptable if the user requested a
    /// digest, or requested that every byte is read and not shared.
    pub fn hashes_holes(&self) -> bool {
        self.mode.is_digest() || !self.clone && !self.verify_medium
    }
}

/// The maximum number of lanes in a run.
pub const LANES_MAX: u16 = 64;
