//! Drafts: files that are being written and not yet visible, and existing places that are written in the same way.

use crate::digest::{Digest, Subtree};
use crate::extent::Extent;
use crate::path::EntryPath;
use crate::tag::TagKey;

/// The number of a draft within a session, chosen by the engine.
pub type DraftId = u64;

/// What a draft writes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftKind {
    /// A new file, which becomes visible when it is finished.
    #[default]
    File,
    /// An existing character device that swallows what it is given, such as `/dev/null`.
    Sink,
    /// An existing block device.
    Device,
    /// An existing regular file, changed where it lies.
    InPlace,
    /// An existing file or block device that is only compared, never written.
    Compare,
    /// The standard output of the process that opened the target: it takes its bytes in order,
    /// from one lane.
    Stream,
    /// A new file that takes over what is equal in the file of its name, and becomes visible in its place when it
    /// is finished.
    Update,
}

impl DraftKind {
    /// Whether content is there already, which can be compared and kept.
    pub fn is_there(self) -> bool {
        matches!(self, Self::Device | Self::InPlace | Self::Compare | Self::Update)
    }

    /// Whether it is a file that nobody sees before it is finished.
    pub fn is_new_file(self) -> bool {
        matches!(self, Self::File | Self::Update)
    }
}

/// What to do about an earlier run's journal of the same draft.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Earlier {
    /// Go on where it ended; begin anew if it was for another version of the source.
    #[default]
    Continue,
    /// Go on where it ended; fail with `SourceChanged` if it was for another version.
    Refuse,
    /// Forget it.
    Forget,
}

/// How a draft begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begin {
    /// Where it will be visible once it is finished, or where it is.
    pub path: EntryPath,
    /// How many bytes it will have; [`UNKNOWN_BYTES`](crate::extent::UNKNOWN_BYTES) for a stream.
    pub size_bytes: u64,
    /// What it writes to.
    pub kind: DraftKind,
    /// What stands for the version of the source. With it the target may keep a journal, so that
    /// a later run need not begin anew.
    pub version: Option<Digest>,
    /// What to do about an earlier run's journal.
    pub earlier: Earlier,
    /// The source has holes: no room is taken for all of it beforehand.
    pub sparse: bool,
    /// Read everything back from the medium, and check it, before it counts as written.
    pub verify_medium: bool,
    /// The values of what is there, and of what it is made into, are tags under this key; without one they are of BLAKE3.
    pub tag_key: Option<TagKey>,
}

impl Begin {
    /// A new file without a journal.
    pub fn file(path: EntryPath, size_bytes: u64) -> Self {
        Self { path, size_bytes, ..Self::default() }
    }
}

/// What an earlier run has done of a draft that keeps a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Ranges that are complete: whole chunks, in order, none touching another.
    pub done: Vec<Extent>,
    /// BLAKE3 subtrees of these, as [`crate::digest::Forest`] has them; empty where no digest was
    /// taken.
    pub subtrees: Vec<Subtree>,
    /// The values of some of the chunks, to find out whether the source is still the same.
    pub samples: Vec<(Extent, Digest)>,
}

/// How the target checks a piece.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// CRC-64 of the bytes, where the target wants it.
    pub crc: u64,
    /// The piece's BLAKE3 value ([`crate::digest::piece_value`]), where it was taken.
    pub value: Option<Digest>,
}
