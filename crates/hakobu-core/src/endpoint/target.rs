//! The operations of a target's lane and their outcomes.

use super::change::Change;
use super::draft::{Check, DraftAttributes, DraftId, DraftParameters, EarlierWork, SharedDraft};
use super::lane::{Lane, Operation};
use super::source::ListingPage;
use crate::block_table::Copied;
use crate::counters::RemoteStats;
use crate::digest::{BlockValue, Digest};
use crate::entry::{AccountId, Attributes, EntryMetadata, Inode};
use crate::error::{Error, Result};
use crate::extended::Extended;
use crate::extent::Extent;
use crate::handle::{Cursor, SharedFile};
use crate::listing::{Detail, DirectoryListing};
use crate::losses::Loss;
use crate::path::EntryPath;
use crate::piece_buffer::PieceBuffer;
use crate::tag::TagKey;

/// A lane of a target. It owns the buffers that content is read into, because it knows when they are free again.
pub trait TargetLane: Lane<TargetOp> {
    /// Returns an empty buffer of one piece. [`TargetOp::Write`] returns it to the lane.
    fn piece_buffer(&mut self) -> PieceBuffer;

    /// Returns a buffer for a pack, which may contain data of earlier packs. [`TargetOp::WritePack`] returns it to the
    /// lane.
    fn pack_buffer(&mut self) -> Vec<u8>;

    /// Returns an unused buffer to the lane.
    fn recycle(&mut self, buffer: PieceBuffer);

    /// Returns the statistics of the lane's connection and its remote end; all zero if there is none.
    fn beyond(&mut self) -> RemoteStats {
        RemoteStats::default()
    }
}

impl Operation for TargetOp {
    type Outcome = TargetOutcome;
}

/// An operation of a target's lane.
#[derive(Debug)]
pub enum TargetOp {
    /// Describes one entry, without following a symbolic link.
    Stat {
        /// The entry.
        path: EntryPath,
        /// The details to report.
        detail: Detail,
    },
    /// Lists directories, each completely or with an error. The endpoint may add descendants as long as all listings
    /// together have fewer than `budget` entries.
    List {
        /// The directories.
        directories: Vec<EntryPath>,
        /// The number of entries that may be added by descending.
        budget: u32,
        /// The details to report of each entry.
        detail: Detail,
    },
    /// Lists a directory in pages, in the order of [`Listing`](crate::listing::Listing). The outcome is
    /// [`TargetOutcome::Page`]. Only used if
    /// [`Capabilities::lists_in_order`](crate::capabilities::Capabilities::lists_in_order) is set.
    Page {
        /// The directory.
        directory: EntryPath,
        /// The cursor after the previous page; `None` for the beginning.
        from: Option<Cursor>,
        /// The maximum number of entries in a page.
        entries: usize,
        /// The details to report of each entry.
        detail: Detail,
    },
    /// Writes the files and symbolic links of a pack.
    WritePack {
        /// The pack, as built by [`crate::pack::PackBuilder`].
        pack: Vec<u8>,
        /// The indices of entries that are names of inodes with several, with the inode at the source, in order. Not sent
        /// over the wire.
        inodes: Vec<(u32, Inode)>,
    },
    /// Computes the digests of small files, and of the texts of symbolic links, in one directory, or their tags if
    /// there is a key. Without one, a digest that a store keeps with an object, and that is proven to be that of its
    /// content, takes the place of reading. The outcome is [`TargetOutcome::Digests`].
    Digest {
        /// The directory.
        directory: EntryPath,
        /// The names in it.
        names: Vec<Vec<u8>>,
        /// The key of the tags that replace digests.
        key: Option<TagKey>,
    },
    /// Looks up the numbers of users and groups on this machine. The outcome is [`TargetOutcome::Numbers`].
    Numbers {
        /// The names, each with its account at the source.
        names: Vec<(AccountId, Vec<u8>)>,
    },
    /// Begins a draft. The outcome is [`TargetOutcome::Begun`] if it has a journal.
    Begin {
        /// The number of the draft from now on.
        draft: DraftId,
        /// The parameters.
        begin: DraftParameters,
        /// The attributes that it will have when it is finished, if they are known. They are not sent over the wire.
        attributes: Option<Box<DraftAttributes>>,
    },
    /// Opens a draft that another run has left, to write ranges of it, or to finish or discard it. Not sent over the wire.
    JoinDraft {
        /// The number of the draft from now on.
        draft: DraftId,
        /// The draft.
        shared: SharedDraft,
    },
    /// Leaves a draft to other runs: what was written to it is on stable storage, and it stays. The outcome is
    /// [`TargetOutcome::DraftShared`]. Not sent over the wire.
    ShareDraft {
        /// The draft.
        draft: DraftId,
    },
    /// Computes the values of the existing content in this range of a draft. The outcome is [`TargetOutcome::Hashes`]
    /// or, for blocks, [`TargetOutcome::BlockHashes`]. A draft that is based on another file has that file's content
    /// in the range afterwards.
    HashRange {
        /// The draft, which must have existing content.
        draft: DraftId,
        /// The range: at most a chunk, or one piece for blocks.
        extent: Extent,
        /// True to get the values of blocks instead of those of pieces.
        blocks: bool,
    },
    /// Finds the end of the hole at the beginning of this range of the existing content. The outcome is
    /// [`TargetOutcome::HoleUntil`]. Nothing is read.
    Hole {
        /// The draft, which must have existing content.
        draft: DraftId,
        /// The range.
        extent: Extent,
    },
    /// Changes some blocks of a piece whose values were requested. Completes only on failure.
    Patch {
        /// The draft.
        draft: DraftId,
        /// The piece.
        extent: Extent,
        /// The blocks as a mask: the lowest bit is the first block.
        changed: u64,
        /// The bytes of these blocks, one after another.
        buffer: PieceBuffer,
        /// The BLAKE3 value of the resulting piece.
        value: Digest,
    },
    /// Computes the sums of the whole blocks in this range of the file that a draft is based on ([`crate::block_table`]). The
    /// outcome is [`TargetOutcome::Sums`].
    WeakSums {
        /// The draft, which must be a [`DraftKind::Update`](super::DraftKind::Update).
        draft: DraftId,
        /// The range of the old file, at most a chunk.
        extent: Extent,
        /// The block size in bytes: a power of two, at most a chunk.
        block_bytes: u64,
    },
    /// Writes pieces that are assembled from the file that a draft is based on and from new bytes. Completes only on
    /// failure. If the result is wrong, [`TargetOp::Complete`] fails with
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt), and the chunk must be written in full.
    Assemble {
        /// The draft.
        draft: DraftId,
        /// The pieces, at most a chunk.
        extent: Extent,
        /// The ranges of the old file, in order: at most [`COPIES_MAX`](crate::block_table::COPIES_MAX).
        copies: Vec<Copied>,
        /// The bytes between those ranges, one after another.
        buffer: PieceBuffer,
        /// The BLAKE3 of the values of the resulting pieces.
        value: Digest,
    },
    /// Makes a range of a draft read as zeros. Completes in the same way as [`TargetOp::Write`].
    Zero {
        /// The draft.
        draft: DraftId,
        /// The range.
        extent: Extent,
        /// True to complete also on success.
        acknowledge: bool,
    },
    /// Marks a range as complete: this lane has written it or made it zero, or the target's content is kept. Always
    /// completes; a journal records it.
    Complete {
        /// The draft.
        draft: DraftId,
        /// The range: one chunk, or several chunks of zeros.
        extent: Extent,
        /// The BLAKE3 value of the whole chunk, if it was computed.
        value: Option<Digest>,
        /// True if a journal may record it. If not, a later run does it again.
        kept: bool,
    },
    /// Sets the size of a draft that was begun with [`UNKNOWN_BYTES`](crate::extent::UNKNOWN_BYTES). All of it has been
    /// written, or will be written by this lane.
    SetLength {
        /// The draft.
        draft: DraftId,
        /// The size in bytes.
        size_bytes: u64,
    },
    /// Writes a piece of a draft. Completes with `acknowledge` or on failure; the completion covers all earlier writes
    /// of this lane to the draft.
    Write {
        /// The draft.
        draft: DraftId,
        /// The offset in the file.
        offset: u64,
        /// The bytes.
        buffer: PieceBuffer,
        /// The data by which to check them.
        check: Check,
        /// True to complete also on success.
        acknowledge: bool,
    },
    /// Makes a draft share the blocks of a whole file instead of writing them; no byte is read. Fails with
    /// `Unsupported` if the file systems cannot do that; the draft is then still empty.
    Reflink {
        /// The draft.
        draft: DraftId,
        /// The file, which has the draft's size.
        from: SharedFile,
    },
    /// Makes entries of a directory by copying them inside the store, with everything that it keeps of them. The outcome is
    /// [`TargetOutcome::PackWritten`]. An entry fails with `Unsupported` if the store does not copy it.
    CopyInStore {
        /// The directory.
        directory: EntryPath,
        /// The names in it, and the entries to copy.
        copies: Vec<(Vec<u8>, SharedFile)>,
    },
    /// Sets the attributes of a draft and makes it visible.
    Finish {
        /// The draft.
        draft: DraftId,
        /// The attributes to set; ignored for a device.
        attributes: Attributes,
        /// The extended attributes to set; `None` leaves those that a new file has.
        extended: Option<Extended>,
        /// The digest of the whole, if it was computed.
        digest: Option<Digest>,
    },
    /// Discards a draft.
    Abandon {
        /// The draft.
        draft: DraftId,
        /// True to keep what a later run can use.
        keep: bool,
    },
    /// Applies changes in order.
    Apply {
        /// The changes.
        changes: Vec<Change>,
    },
    /// Marks the point at which everything has been written.
    Barrier {
        /// True to bring it to stable storage.
        durable: bool,
        /// True if everything that the job covers was examined and nothing failed.
        whole: bool,
    },
}

/// The outcome of an operation of a target's lane.
#[derive(Debug)]
pub enum TargetOutcome {
    /// The entry, or `None` if it does not exist.
    Stat(Option<EntryMetadata>),
    /// The listings: first the requested ones in order, then descendants.
    Listed(Vec<DirectoryListing>),
    /// A page of a directory.
    Page(ListingPage),
    /// The end of the hole, within the requested range; the beginning of the range if there is data, or if holes cannot
    /// be detected.
    HoleUntil(u64),
    /// Written, cloned, begun, finished, abandoned, or brought to stable storage.
    Done,
    /// A draft with a journal has been begun.
    Begun(Box<EarlierWork>),
    /// A draft is left to other runs. It has this name in its directory.
    DraftShared(Vec<u8>),
    /// The number of each name, if it has one.
    Numbers(Vec<Option<u32>>),
    /// The BLAKE3 or tag of each entry, or an error.
    Digests(Vec<Result<Digest>>),
    /// The values of the pieces in a range, in order ([`crate::digest::piece_value`]).
    Hashes(Vec<Digest>),
    /// The values of the blocks in a piece, in order ([`crate::digest::block_value`]).
    BlockHashes(Vec<BlockValue>),
    /// The sums of blocks in a range, in order.
    Sums(Vec<u64>),
    /// Stored, applied or finished, except for these entries.
    PackWritten {
        /// The entries that failed: their indices among the pack's entries or the changes.
        failures: Vec<(u32, Error)>,
        /// The properties that could not be kept.
        losses: Vec<Loss>,
    },
}
