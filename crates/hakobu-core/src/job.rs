//! What a run has to do: which entries of the source go where below the target's root.

use crate::compression::Compression;
use crate::digest::Algorithm;
use crate::endpoint::{DraftKind, Earlier};
use crate::entry::Inode;
use crate::extended::Classes;
use crate::filter::FilterRules;
use crate::losses::LossKind;
use crate::pace::Limits;
use crate::path::EntryPath;

/// One thing to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// Which of the source's roots.
    pub root: u16,
    /// The entry below that root: one name, or the root itself for the contents of a directory.
    pub source: EntryPath,
    /// Where it lands below the target's root; the root itself for contents that go into it.
    pub target: EntryPath,
    /// What is written to. Anything but [`DraftKind::File`] takes the content of one file or
    /// device, and nothing else.
    pub place: DraftKind,
}

/// What a run does with the content of large files and devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Write all of it.
    #[default]
    Copy,
    /// Compare what is in place with the source, and write what differs.
    Delta,
    /// Compare, and write nothing.
    Compare,
    /// Take the digest of one file or device, holes and all; it goes to a sink.
    Digest(Algorithm),
}

impl Mode {
    /// Whether nothing is written.
    pub fn only_reads(self) -> bool {
        self == Mode::Compare || self.is_digest()
    }

    /// Whether only a digest is taken.
    pub fn is_digest(self) -> bool {
        matches!(self, Mode::Digest(_))
    }
}

/// What a run does with entries that only the target has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removal {
    /// Leave them; of a directory only itself is counted, not what is in it.
    #[default]
    Leave,
    /// Count them, all that directories hold among them. What is in the way of something of another kind is counted
    /// with them, and that entry is left out.
    Count,
    /// Remove them, and bring nothing over.
    Remove,
}

/// How a big file is brought up to date that the target has in another version, where trees are synchronised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// All of it is sent.
    #[default]
    Whole,
    /// What differs is sent, and becomes a new file with what the old one has.
    Changes,
    /// What differs is written into the file where it lies. That goes for files of every size.
    InPlace,
}

impl Update {
    /// What is written to.
    pub fn draft_kind(self) -> DraftKind {
        match self {
            Update::Whole => DraftKind::File,
            Update::Changes => DraftKind::Update,
            Update::InPlace => DraftKind::InPlace,
        }
    }
}

/// A share of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// How many of a million.
    pub per_million: u32,
    /// Another one takes other files.
    pub seed: u64,
}

impl Sample {
    /// Whether a file is among them.
    pub fn takes(self, path: &EntryPath) -> bool {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.seed.to_le_bytes()).update(path.as_bytes());
        let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
        u64::from(u32::from_le_bytes([a, b, c, d])) * 1_000_000 < u64::from(self.per_million) << 32
    }
}

/// A run: everything the engine needs besides the two endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// What to copy.
    pub items: Vec<Item>,
    /// A directory at the target to make first, with ordinary permissions.
    pub make_directory: Option<EntryPath>,
    /// How many lanes to begin with, 1 to [`LANES_MAX`].
    pub lanes: u16,
    /// How many there may become, if that is more: how many move most is tried while the run goes on.
    pub lanes_max: u16,
    /// Whether to take digests.
    pub digest: bool,
    /// Whether blocks may be shared with the source instead of being read and written.
    pub clone: bool,
    /// Whether to flush the target to stable storage in the end.
    pub durable: bool,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Kinds of loss that must not happen: an entry that would lose one of them fails.
    pub require: Vec<LossKind>,
    /// What is done with content.
    pub mode: Mode,
    /// What to do about what an earlier run has left of what the user named.
    pub earlier: Earlier,
    /// Read everything back from the medium before it counts as written.
    pub verify_medium: bool,
    /// The source is in use, so it may have changed since an earlier run.
    pub live: bool,
    /// Read ranges of bad sectors as zeros, and name them, instead of failing.
    pub skip_unreadable: bool,
    /// What is done with entries that only the target has.
    pub removal: Removal,
    /// How many entries may be removed: so many were agreed to. The run ends before one more goes.
    pub removals_max: u64,
    /// Which entries take part. What is left out is neither brought over nor removed.
    pub filter: FilterRules,
    /// Which extended attributes are kept, as far as both ends can. The others are left alone, and are no loss.
    pub extended: Classes,
    /// Whether owner and group are those of the same name at the target, not of the same number.
    pub by_name: bool,
    /// Whether owner and group are compared, where nothing is written.
    pub owners: bool,
    /// Whether files of one size are taken as equal only if their content is, whatever their times say.
    pub compare_content: bool,
    /// Of which files the content is compared, where nothing is written; of all without.
    pub sample: Option<Sample>,
    /// Whether directories on other file systems are left empty: neither listed, nor anything removed in them.
    pub one_file_system: bool,
    /// Whether names of one inode are names of one inode at the target as well.
    pub hard_links: bool,
    /// How a file of a tree is brought up to date.
    pub update: Update,
    /// Whether pieces that differ are compared once more in blocks: that pays where the ends are apart.
    pub blocks: bool,
    /// What it is held to, as it begins.
    pub limits: Limits,
    /// Whether content is compressed on its way to another machine.
    pub compression: Compression,
    /// Directories of the target, where it is on the source's machine: they are not read if the source turns out to lead to
    /// them by another name.
    pub target_directories: Vec<Inode>,
    /// The file systems of the source, where it is on the target's machine: a file on one of these that has further names may
    /// be one of the source by another of them.
    pub source_file_systems: Vec<u64>,
}

impl Job {
    /// Whether holes are hashed however long they are: who asks for a digest, or that every byte is read and not
    /// shared, has the time.
    pub fn hashes_holes(&self) -> bool {
        self.mode.is_digest() || !self.clone && !self.verify_medium
    }
}

/// The most lanes of one run.
pub const LANES_MAX: u16 = 64;
