//! The operations of a source's lane and their outcomes.

use std::sync::Arc;

use super::lane::{Lane, Operation};
use crate::digest::Digest;
use crate::entry::{AccountId, EntryMetadata};
use crate::error::{Error, Result};
use crate::extended::{Extended, ExtendedAsk};
use crate::extent::Extent;
use crate::handle::{Cursor, SharedFile};
use crate::listing::{Detail, DirectoryListing, Listing};
use crate::losses::Loss;
use crate::path::EntryPath;
use crate::piece_buffer::PieceBuffer;
use crate::tag::TagKey;

/// A lane of a source. Buffers come with the operations, so that the content can be passed on without a copy.
pub trait SourceLane: Lane<SourceOp> {}

impl<L: Lane<SourceOp>> SourceLane for L {}

impl Operation for SourceOp {
    type Outcome = SourceOutcome;
}

/// A file at the source as seen by the scan. Reading it fails if it has become another version.
#[derive(Debug)]
pub struct SourceFile {
    /// The index of the source's root.
    pub root: u16,
    /// The path below that root.
    pub path: EntryPath,
    /// The metadata from the scan.
    pub metadata: EntryMetadata,
    /// True if unreadable ranges are read as zeros and reported, instead of failing.
    pub tolerant: bool,
}

/// Entries of one directory that are sent in one pack.
#[derive(Debug)]
pub struct Picks {
    /// The listing of the source directory.
    pub listing: Arc<Listing>,
    /// The selected entries.
    pub entries: Vec<Pick>,
    /// The name at the target if it differs from that at the source. Only for a pack of one entry.
    pub target_name: Option<Vec<u8>>,
}

/// A selected entry of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// The index in the listing.
    pub index: u32,
    /// True if the target has an entry of that name.
    pub replaces: bool,
}
/// An operation of a source's lane.
#[derive(Debug)]
pub enum SourceOp {
    /// Describes one entry, without following a symbolic link.
    Stat {
        /// The index of the root.
        root: u16,
        /// The entry.
        path: EntryPath,
        /// The details to report.
        detail: Detail,
    },
    /// Lists directories, each completely or with an error. The endpoint may add descendants as long as all listings
    /// together have fewer than `budget` entries.
    List {
        /// The index of the root.
        root: u16,
        /// The directories.
        directories: Vec<EntryPath>,
        /// The number of entries that may be added by descending.
        budget: u32,
        /// The details to report of each entry.
        detail: Detail,
    },
    /// Lists a directory in pages, without holding all of it in memory. The outcome is [`SourceOutcome::ListingPage`].
    Page {
        /// The index of the root.
        root: u16,
        /// The directory.
        directory: EntryPath,
        /// The cursor after the previous page; `None` for the beginning.
        from: Option<Cursor>,
        /// The approximate number of entries in a page. There may be a few more, if the system returns many at once.
        entries: usize,
        /// The details to report of each entry.
        detail: Detail,
    },
    /// Reads small files and symbolic links of one directory into a pack. A file that has changed since it was listed
    /// is included in its new state if it still has the same names and fits.
    ReadPack {
        /// The index of the root.
        root: u16,
        /// The directory at the source.
        directory: EntryPath,
        /// The directory at the target, for the pack's directory record.
        target: EntryPath,
        /// The entries.
        picks: Arc<Picks>,
        /// The number of entries that have been processed before.
        from: u32,
        /// The extended attributes to include.
        ask: ExtendedAsk,
        /// The buffer for the pack, from [`TargetLane::pack_buffer`](super::TargetLane::pack_buffer).
        buffer: Vec<u8>,
    },
    /// Reads one piece of a file.
    Read {
        /// The file.
        file: Arc<SourceFile>,
        /// The piece, at most [`PIECE_BYTES`](crate::extent::PIECE_BYTES) long.
        extent: Extent,
        /// The buffer for the bytes.
        buffer: PieceBuffer,
    },
    /// Finds the end of the hole at the beginning of a range. The outcome is [`SourceOutcome::HoleUntil`].
    FindHole {
        /// The file.
        file: Arc<SourceFile>,
        /// The range.
        extent: Extent,
    },
    /// Reads the next chunk of a stream, but only for a short time. The outcome is [`SourceOutcome::StreamRead`]. The pieces
    /// of the chunk can then be read once by this lane.
    ReadStream {
        /// The stream.
        file: Arc<SourceFile>,
    },
    /// Reads the extended attributes of an entry. The outcome is [`SourceOutcome::Extended`]. Fails if attributes would
    /// be lost that must not be.
    Extended {
        /// The index of the root.
        root: u16,
        /// The entry.
        path: EntryPath,
        /// The attributes to read.
        ask: ExtendedAsk,
    },
    /// Opens a file for [`TargetOp::Reflink`](super::TargetOp::Reflink).
    Open {
        /// The file.
        file: Arc<SourceFile>,
    },
    /// Opens small files and symbolic links of one directory for [`TargetOp::CopyInStore`](super::TargetOp::CopyInStore).
    /// The outcome is [`SourceOutcome::OpenedPicks`].
    OpenPicks {
        /// The index of the root.
        root: u16,
        /// The directory.
        directory: EntryPath,
        /// The entries.
        picks: Arc<Picks>,
    },
    /// Checks that a file is still the version that was listed, and reads its extended attributes. The outcome is
    /// [`SourceOutcome::Extended`].
    Revalidate {
        /// The file.
        file: Arc<SourceFile>,
        /// The attributes to read.
        ask: ExtendedAsk,
    },
    /// Computes the digests of small files, and of the texts of symbolic links, in one directory, or their tags if
    /// there is a key. The outcome is [`SourceOutcome::Digests`]. The files must be the versions that were listed.
    DigestPicks {
        /// The index of the root.
        root: u16,
        /// The directory.
        directory: EntryPath,
        /// The entries.
        picks: Arc<Picks>,
        /// The key of the tags that replace digests.
        key: Option<TagKey>,
        /// True if a digest that a store keeps with an object, and that is proven to be that of its content, takes the
        /// place of reading. Then files may be of any size, and fail as `Unsupported` if they are large and have none.
        stored: bool,
    },
    /// Looks up the names of users and groups. The outcome is [`SourceOutcome::Names`].
    Names {
        /// The accounts.
        accounts: Vec<AccountId>,
    },
}

/// The outcome of an operation of a source's lane.
#[derive(Debug)]
pub enum SourceOutcome {
    /// The entry, or `None` if it does not exist.
    Stat(Option<EntryMetadata>),
    /// The listings: first the requested ones in order, then descendants.
    Listed(Vec<DirectoryListing>),
    /// A page of a directory.
    Page(ListingPage),
    /// A pack, and what is missing from it.
    Pack(FetchedPack),
    /// The piece. It is shorter than the extent only if the file has been truncated, which is an error.
    Read(PieceBuffer),
    /// The piece is in a hole of the file. Nothing was read.
    Hole {
        /// The buffer, unused.
        buffer: PieceBuffer,
        /// The end of the hole, at or after the end of the piece.
        end: u64,
    },
    /// The end of the hole, within the requested range; the beginning of the range if there is data, or if holes cannot
    /// be detected.
    HoleUntil(u64),
    /// The piece, some ranges of which could not be read and are zeros.
    ReadPartly {
        /// The bytes.
        buffer: PieceBuffer,
        /// The unreadable ranges.
        unreadable: Vec<Extent>,
    },
    /// The next chunk of a stream: a short or empty one at the end of the stream. `None` if it is not available yet;
    /// ask again.
    StreamRead(Option<Extent>),
    /// The file is open.
    Opened(SharedFile),
    /// Each entry, or an error. `None` stands for an entry that has to be read.
    OpenedPicks(Vec<Result<Option<SharedFile>>>),
    /// The requested extended attributes, unless none were requested, and those that are lost.
    Extended {
        /// The attributes to preserve.
        extended: Option<Extended>,
        /// The attributes that are lost.
        losses: Vec<Loss>,
    },
    /// The name of each account, if it has one.
    Names(Vec<Option<Vec<u8>>>),
    /// The BLAKE3 or tag of each entry, or an error.
    Digests(Vec<Result<Digest>>),
}

/// A page of a directory.
#[derive(Debug, Default)]
pub struct ListingPage {
    /// The entries.
    pub listing: Listing,
    /// The cursor after this page, if there may be more.
    pub rest: Option<Cursor>,
    /// Complete listings of directories below it that arrived together with these entries, from a store that lists
    /// everything below a directory at once.
    pub below: Vec<DirectoryListing>,
}

/// A pack that was read from the source.
#[derive(Debug, Default)]
pub struct FetchedPack {
    /// The pack; empty if no entry could be read.
    pub pack: Vec<u8>,
    /// The total number of picks processed so far. The rest did not fit; ask again.
    pub until: u32,
    /// The indices into the picks of the entries in the pack, in order.
    pub packed: Vec<u32>,
    /// The indices into the picks of the entries that could not be read, with the errors.
    pub failures: Vec<(u32, Error)>,
    /// The properties of these entries that are not copied.
    pub losses: Vec<Loss>,
    /// Bytes of content in the pack.
    pub content_bytes: u64,
    /// The entries in the pack that may have other names, where listings do not tell: their indices into the picks, in
    /// order, and their metadata.
    pub linked: Vec<(u32, EntryMetadata)>,
}
