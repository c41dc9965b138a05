//! Drafts: files that are being written and not yet visible, and existing places that are written through the same
//! operations.

use crate::digest::{Digest, Subtree};
use crate::entry::{Attributes, Inode};
use crate::extended::Extended;
use crate::extent::Extent;
use crate::path::EntryPath;
use crate::tag::TagKey;

/// The number of a draft within a session, chosen by the engine.
pub type DraftId = u64;

/// The kind of place that a draft writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftKind {
    /// A new file, which becomes visible when it is finished.
    #[default]
    File,
    /// An existing character device that discards its input, such as `/dev/null`.
    Sink,
    /// An existing block device.
    Device,
    /// An existing regular file, changed in place.
    InPlace,
    /// An existing file or block device that is only compared, never written.
    Compare,
    /// The standard output of the process that opened the target. It accepts bytes in order, from one lane.
    Stream,
    /// A new file that reuses equal content of the existing file of its name, and replaces that when it is finished.
    Update,
}

impl DraftKind {
    /// Returns true if there is existing content, which can be compared and kept.
    pub fn is_there(self) -> bool {
        matches!(self, Self::Device | Self::InPlace | Self::Compare | Self::Update)
    }

    /// Returns true if it is a file that is not visible before it is finished.
    pub fn is_new_file(self) -> bool {
        matches!(self, Self::File | Self::Update)
    }
}

/// The treatment of an earlier run's journal of the same draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Earlier {
    /// Resume; start over if it was for another version of the source.
    #[default]
    Continue,
    /// Resume; fail with `SourceChanged` if it was for another version.
    Refuse,
    /// Discard it.
    Forget,
}

/// The attributes that a draft will have when it is finished, for a target that has to store them at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftAttributes {
    /// The attributes.
    pub attributes: Attributes,
    /// The extended attributes to set, if they were read.
    pub extended: Option<Extended>,
    /// The inode at the source, if the draft will be one of its names.
    pub inode: Option<Inode>,
}

/// The parameters for the beginning of a draft.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftParameters {
    /// The path at which it will be visible when it is finished, or at which it exists.
    pub path: EntryPath,
    /// The final size in bytes; [`UNKNOWN_BYTES`](crate::extent::UNKNOWN_BYTES) for a stream.
    pub size_bytes: u64,
    /// The kind of place that it writes to.
    pub kind: DraftKind,
    /// A hash that identifies the version of the source. With it the target may keep a journal, so that a later run can
    /// resume.
    pub version: Option<Digest>,
    /// The treatment of an earlier run's journal.
    pub earlier: Earlier,
    /// True if the source has holes, so that space is not allocated in advance.
    pub sparse: bool,
    /// True if everything is read back from the medium and checked before it counts as written.
    pub verify_medium: bool,
    /// The key of the tags that represent existing and new content; `None` if BLAKE3 values do.
    pub tag_key: Option<TagKey>,
}

impl DraftParameters {
    /// Returns the parameters for a new file without a journal.
    pub fn file(path: EntryPath, size_bytes: u64) -> Self {
        Self { path, size_bytes, ..Self::default() }
    }
}

/// A draft that another run has begun and left to others ([`TargetOp::ShareDraft`](super::TargetOp::ShareDraft)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedDraft {
    /// The path at which it will be visible when it is finished.
    pub path: EntryPath,
    /// Its name, in the directory of that path.
    pub name: Vec<u8>,
    /// The size in bytes.
    pub size_bytes: u64,
    /// True if the source has holes.
    pub sparse: bool,
    /// True if this range may have been written before, so that zeros must be written as well.
    pub is_stale: bool,
    /// True if all of it is written: it is finished or discarded now. Otherwise it stays when it is abandoned.
    pub is_complete: bool,
}

/// The work that an earlier run has done on a draft with a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EarlierWork {
    /// The completed ranges: whole chunks, in order, not adjacent to each other.
    pub done: Vec<Extent>,
    /// The BLAKE3 subtrees of these ranges, as in [`crate::digest::Forest`]; empty if no digest was computed.
    pub subtrees: Vec<Subtree>,
    /// The values of some of the chunks, to check whether the source is unchanged.
    pub samples: Vec<(Extent, Digest)>,
}

/// The data by which the target checks a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// The CRC-64 of the bytes, if the target requires it.
    pub crc: u64,
    /// The piece's BLAKE3 value ([`crate::digest::piece_value`]), if it was computed.
    pub value: Option<Digest>,
}
