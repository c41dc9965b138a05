//! Targets: what is asked of a lane that writes, and what it answers.

use super::change::Change;
use super::draft::{Begin, Begun, Check, DraftId};
use super::lane::{Lane, Operation};
use super::source::Portion;
use crate::counters::Beyond;
use crate::digest::{BlockValue, Digest};
use crate::entry::{Account, Attributes, Metadata};
use crate::error::{Error, Result};
use crate::extended::Extended;
use crate::extent::Extent;
use crate::handle::{Cursor, SharedFile};
use crate::listing::{Detail, DirectoryListing};
use crate::losses::Loss;
use crate::moved::Copied;
use crate::path::EntryPath;
use crate::piece_buffer::PieceBuffer;
use crate::tag::TagKey;

/// A lane of a target. It owns the buffers that content is read into, since it knows when they are free again.
pub trait TargetLane: Lane<TargetOp> {
    /// Returns an empty buffer of one piece. [`TargetOp::Write`] gives it back.
    fn piece_buffer(&mut self) -> PieceBuffer;

    /// Returns a buffer for a pack, with whatever an earlier pack has left in it. [`TargetOp::Store`] gives it back.
    fn pack_buffer(&mut self) -> Vec<u8>;

    /// Gives back a buffer that was not used up.
    fn recycle(&mut self, buffer: PieceBuffer);

    /// Returns what is known of the far end of the lane's connection; nothing where there is none.
    fn beyond(&mut self) -> Beyond {
        Beyond::default()
    }
}

impl Operation for TargetOp {
    type Outcome = TargetOutcome;
}

/// Something that a lane of a target can be asked to do.
#[derive(Debug)]
pub enum TargetOp {
    /// Describe one entry, without following a link.
    Inspect {
        /// Which entry.
        path: EntryPath,
        /// What is told of it.
        detail: Detail,
    },
    /// List directories, complete or with an error each. The far side may add descendants as long
    /// as all listings together stay below `budget` entries.
    List {
        /// Which directories.
        directories: Vec<EntryPath>,
        /// How many entries may be added on the way down.
        budget: u32,
        /// What is told of each entry.
        detail: Detail,
    },
    /// List a directory in portions, in the order of [`Listing`](crate::listing::Listing): answered with
    /// [`TargetOutcome::Portion`]. Asked only where [`Capabilities::lists_in_order`](crate::capabilities::Capabilities::lists_in_order)
    /// says so.
    Portion {
        /// Which directory.
        directory: EntryPath,
        /// What the last portion left; none: from the beginning.
        from: Option<Cursor>,
        /// The most entries of a portion.
        entries: usize,
        /// What is told of each entry.
        detail: Detail,
    },
    /// Write the files and links of a pack.
    Store {
        /// The pack, as [`crate::pack::PackBuilder`] made it.
        pack: Vec<u8>,
    },
    /// The same.
    Digest {
        /// The directory.
        directory: EntryPath,
        /// The names in it.
        names: Vec<Vec<u8>>,
        /// The key of the tags that are taken in the place of digests.
        key: Option<TagKey>,
    },
    /// Tell the numbers that users and groups have here: answered with [`TargetOutcome::Numbers`].
    Numbers {
        /// Their names, each with what it is; the numbers are those of the source.
        names: Vec<(Account, Vec<u8>)>,
    },
    /// Begin a draft: answered with [`TargetOutcome::Begun`] when it keeps a journal.
    Begin {
        /// Its number from now on.
        draft: DraftId,
        /// What it is.
        begin: Begin,
    },
    /// Tell the values of what the target has in this range of a draft: answered with [`TargetOutcome::Signed`] or, for blocks,
    /// with [`TargetOutcome::BlocksSigned`]. A draft
    /// that is made of another file has the content of that in the range afterwards.
    Sign {
        /// The draft, of which there is something already.
        draft: DraftId,
        /// The range: at most a chunk; for blocks one piece.
        extent: Extent,
        /// The values of its blocks instead of those of its pieces.
        blocks: bool,
    },
    /// Tell where the hole ends that this range of what the target has begins with: answered with
    /// [`TargetOutcome::HoleUntil`]. Nothing of it is read.
    Hole {
        /// The draft, of which there is something already.
        draft: DraftId,
        /// The range.
        extent: Extent,
    },
    /// Change some blocks of a piece that was signed. Answered only if it fails.
    Patch {
        /// The draft.
        draft: DraftId,
        /// The piece.
        extent: Extent,
        /// The blocks: the lowest bit is the first one.
        changed: u64,
        /// Their bytes, one after another.
        buffer: PieceBuffer,
        /// The BLAKE3 value that the piece then has.
        value: Digest,
    },
    /// Tell the sums of the whole blocks in this range of the file that a draft is made of ([`crate::moved`]): answered
    /// with [`TargetOutcome::Sums`].
    Sum {
        /// The draft: an [`DraftKind::Update`].
        draft: DraftId,
        /// The range of the old file: at most a chunk.
        extent: Extent,
        /// How long the blocks are: a power of two, at most a chunk.
        block_bytes: u64,
    },
    /// Write pieces that are put together out of the file that a draft is made of, and of bytes. Answered only if it
    /// cannot be. If the pieces are not what they should be, [`TargetOp::Complete`] fails with
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt), and the chunk is to be written.
    Assemble {
        /// The draft.
        draft: DraftId,
        /// The pieces: at most a chunk.
        extent: Extent,
        /// What is taken from the old file, in order: at most [`COPIES_MAX`](crate::moved::COPIES_MAX).
        copies: Vec<Copied>,
        /// The bytes between that, one after another.
        buffer: PieceBuffer,
        /// The BLAKE3 of the values that the pieces then have.
        value: Digest,
    },
    /// Make a range of a draft read as zeros. Answered as [`TargetOp::Write`] is.
    Zero {
        /// The draft.
        draft: DraftId,
        /// The range.
        extent: Extent,
        /// Whether to answer when it succeeds.
        acknowledge: bool,
    },
    /// Everything in a range has been written by this lane, made zero, or is to be kept as the
    /// target has it. Always answered; a journal remembers it.
    Complete {
        /// The draft.
        draft: DraftId,
        /// The range: one chunk, or several that are zeros.
        extent: Extent,
        /// The BLAKE3 value of the whole chunk, where it was taken.
        value: Option<Digest>,
        /// Whether a journal may remember it. If not, a later run does it again.
        kept: bool,
    },
    /// A draft that was begun with [`UNKNOWN_BYTES`](crate::extent::UNKNOWN_BYTES) has this size. All of it has been
    /// written by now, or will be by this lane.
    Length {
        /// The draft.
        draft: DraftId,
        /// Its size.
        size_bytes: u64,
    },
    /// Write a piece of a draft. A completion comes with `acknowledge` or on failure; it covers all
    /// earlier writes of this lane to the draft.
    Write {
        /// The draft.
        draft: DraftId,
        /// Where in the file.
        offset: u64,
        /// The bytes.
        buffer: PieceBuffer,
        /// How to check them.
        check: Check,
        /// Whether to answer when it succeeds.
        acknowledge: bool,
    },
    /// Let a draft share the blocks of a whole file instead of writing them: no byte is read.
    /// Fails with `Unsupported` where the file systems cannot do that; the draft is then as empty
    /// as before.
    Clone {
        /// The draft.
        draft: DraftId,
        /// The file, of the draft's size.
        from: SharedFile,
    },
    /// Give a draft its attributes and make it visible.
    Finish {
        /// The draft.
        draft: DraftId,
        /// What to set; nothing on a device.
        attributes: Attributes,
        /// The extended attributes to set; without, they are left as they come.
        extended: Option<Extended>,
        /// The digest of the whole, if it was taken.
        digest: Option<Digest>,
    },
    /// Throw a draft away.
    Abandon {
        /// The draft.
        draft: DraftId,
        /// Leave what a later run can use.
        keep: bool,
    },
    /// Make changes in order.
    Apply {
        /// The changes.
        changes: Vec<Change>,
    },
    /// Everything has been written.
    Barrier {
        /// Bring it to stable storage.
        durable: bool,
        /// All that the job is about was looked at, and nothing of it failed.
        whole: bool,
    },
}

/// What came of it.
#[derive(Debug)]
pub enum TargetOutcome {
    /// The entry, or `None` if there is no such entry.
    Inspected(Option<Metadata>),
    /// The listings, first those asked for, in order, then descendants.
    Listed(Vec<DirectoryListing>),
    /// Entries of a directory.
    Portion(Portion),
    /// Where the hole ends, within the range that was asked about; its beginning if there is data, or nobody can tell.
    HoleUntil(u64),
    /// Written, cloned, begun, finished, abandoned, or brought to stable storage.
    Done,
    /// A draft that keeps a journal has been begun.
    Begun(Box<Begun>),
    /// The number of each name, if it has one.
    Numbers(Vec<Option<u32>>),
    /// The BLAKE3 of each entry, or why there is none.
    Digests(Vec<Result<Digest>>),
    /// The values of the pieces in a range, in order ([`crate::digest::piece_value`]).
    Signed(Vec<Digest>),
    /// The values of the blocks in a piece, in order ([`crate::digest::block_value`]).
    BlocksSigned(Vec<BlockValue>),
    /// The sums of blocks in a range, in order.
    Sums(Vec<u64>),
    /// Stored, applied or finished, except for these.
    Stored {
        /// The entries that failed: their index among the pack's entries or the changes.
        failures: Vec<(u32, Error)>,
        /// What could not be kept.
        losses: Vec<Loss>,
    },
}
