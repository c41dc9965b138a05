//! Sources: what is asked of a lane that reads, and what it answers.

use std::sync::Arc;

use super::lane::{Lane, Operation};
use crate::digest::Digest;
use crate::entry::{Account, Metadata};
use crate::error::{Error, Result};
use crate::extended::{Extended, ExtendedAsk};
use crate::extent::Extent;
use crate::handle::{Cursor, SharedFile};
use crate::listing::{Detail, DirectoryListing, Listing};
use crate::losses::Loss;
use crate::path::EntryPath;
use crate::piece_buffer::PieceBuffer;
use crate::tag::TagKey;

/// A lane of a source. Buffers come with the operations, so that what was read can go on without a copy.
pub trait SourceLane: Lane<SourceOp> {}

impl<L: Lane<SourceOp>> SourceLane for L {}

impl Operation for SourceOp {
    type Outcome = SourceOutcome;
}

/// A file at the source as the scan saw it. Reading it fails once it is another version.
#[derive(Debug)]
pub struct SourceFile {
    /// Which of the source's roots the path is below.
    pub root: u16,
    /// Where it is.
    pub path: EntryPath,
    /// What the scan said.
    pub metadata: Metadata,
    /// Whether ranges that cannot be read are read as zeros and named, instead of failing.
    pub tolerant: bool,
}

/// Entries of one directory that travel in one pack.
#[derive(Debug)]
pub struct Picks {
    /// The listing of the source directory.
    pub listing: Arc<Listing>,
    /// Which entries of it, and whether the target has an entry of that name.
    pub entries: Vec<Pick>,
    /// The name at the target, where it is not the source's. Only for a pack of one entry.
    pub target_name: Option<Vec<u8>>,
}

/// One entry of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pick {
    /// Its index in the listing.
    pub index: u32,
    /// Whether the target has an entry of that name.
    pub replaces: bool,
}
/// Something that a lane of a source can be asked to do.
#[derive(Debug)]
pub enum SourceOp {
    /// Describe one entry, without following a link.
    Inspect {
        /// Which root.
        root: u16,
        /// Which entry.
        path: EntryPath,
        /// What is told of it.
        detail: Detail,
    },
    /// List directories, complete or with an error each. The far side may add descendants as long
    /// as all listings together stay below `budget` entries.
    List {
        /// Which root.
        root: u16,
        /// Which directories.
        directories: Vec<EntryPath>,
        /// How many entries may be added on the way down.
        budget: u32,
        /// What is told of each entry.
        detail: Detail,
    },
    /// List a directory in portions, for which nothing of it has to be known as a whole: answered with
    /// [`SourceOutcome::Portion`].
    Portion {
        /// Which root.
        root: u16,
        /// Which directory.
        directory: EntryPath,
        /// What the last portion left; none: from the beginning.
        from: Option<Cursor>,
        /// About how many entries a portion has: it may be some more, where the system gives many at once.
        entries: usize,
        /// What is told of each entry.
        detail: Detail,
    },
    /// Read small files and links of one directory into a pack. A file that has changed since it was listed goes along as
    /// it is, if it still has the same names and fits.
    Fetch {
        /// Which root.
        root: u16,
        /// The directory at the source.
        directory: EntryPath,
        /// The directory at the target, for the pack's directory record.
        target: EntryPath,
        /// Which entries.
        picks: Arc<Picks>,
        /// How many of them were dealt with before.
        from: u32,
        /// Which extended attributes go with them.
        ask: ExtendedAsk,
        /// Where the pack goes: [`Lane::pack_buffer`] of the target's lane.
        buffer: Vec<u8>,
    },
    /// Read one piece of a file.
    Read {
        /// The file.
        file: Arc<SourceFile>,
        /// The piece: at most [`PIECE_BYTES`](crate::extent::PIECE_BYTES).
        extent: Extent,
        /// Where the bytes go.
        buffer: PieceBuffer,
    },
    /// Tell where the hole ends that a range begins with: answered with [`SourceOutcome::HoleUntil`].
    FindHole {
        /// The file.
        file: Arc<SourceFile>,
        /// The range.
        extent: Extent,
    },
    /// Read the next chunk of a stream, for as long as that takes within a moment: answered with [`SourceOutcome::Next`]. Its
    /// pieces are then there to be read, once, by this lane.
    Next {
        /// The stream.
        file: Arc<SourceFile>,
    },
    /// Tell the extended attributes of an entry: answered with [`SourceOutcome::Extended`]. Fails if it has some that must
    /// not be lost and would be.
    Extended {
        /// Which root.
        root: u16,
        /// The entry.
        path: EntryPath,
        /// Which of them.
        ask: ExtendedAsk,
    },
    /// Open a file for [`SourceOp::Clone`].
    Open {
        /// The file.
        file: Arc<SourceFile>,
    },
    /// Check that a file is still the version that was listed, and tell its extended attributes: answered with
    /// [`SourceOutcome::Extended`].
    Confirm {
        /// The file.
        file: Arc<SourceFile>,
        /// Which of them.
        ask: ExtendedAsk,
    },
    /// Take the digests of small files, and of the texts of links, in one directory, or with a key their tags: answered
    /// with [`SourceOutcome::Digests`]. Those of the source have to be the versions that were listed.
    DigestPicks {
        /// Which root.
        root: u16,
        /// The directory.
        directory: EntryPath,
        /// Which entries.
        picks: Arc<Picks>,
        /// The key of the tags that are taken in the place of digests.
        key: Option<TagKey>,
    },
    /// Tell the names of users and groups: answered with [`SourceOutcome::Names`].
    Names {
        /// Which.
        accounts: Vec<Account>,
    },
}

/// What came of it.
#[derive(Debug)]
pub enum SourceOutcome {
    /// The entry, or `None` if there is no such entry.
    Inspected(Option<Metadata>),
    /// The listings, first those asked for, in order, then descendants.
    Listed(Vec<DirectoryListing>),
    /// Entries of a directory.
    Portion(Portion),
    /// A pack, and what is missing from it.
    Fetched(Fetched),
    /// The piece. It is shorter than the extent only if the file has been cut short: an error.
    Read(PieceBuffer),
    /// The piece lies in a hole of the file. Nothing was read.
    Hole {
        /// The buffer, unused.
        buffer: PieceBuffer,
        /// Where the hole ends: not before the end of the piece.
        end: u64,
    },
    /// Where the hole ends, within the range that was asked about; its beginning if there is data, or nobody can tell.
    HoleUntil(u64),
    /// The piece, of which some ranges could not be read and are zeros.
    ReadPartly {
        /// The bytes.
        buffer: PieceBuffer,
        /// What could not be read.
        unreadable: Vec<Extent>,
    },
    /// The next chunk of a stream: a short one, even an empty one, where the stream ends. `None`: it is not there yet;
    /// ask again.
    Next(Option<Extent>),
    /// The file is open.
    Opened(SharedFile),
    /// Extended attributes: those that were asked for, unless none were, and what is lost.
    Extended {
        /// What is kept.
        extended: Option<Extended>,
        /// What is not.
        losses: Vec<Loss>,
    },
    /// The name of each account, if it has one.
    Names(Vec<Option<Vec<u8>>>),
    /// The BLAKE3 of each entry, or why there is none.
    Digests(Vec<Result<Digest>>),
}

/// Some entries of a directory.
#[derive(Debug, Default)]
pub struct Portion {
    /// The entries.
    pub listing: Listing,
    /// What is left of it, if anything may be.
    pub rest: Option<Cursor>,
    /// Complete listings of directories below it, which came along with these entries: of a place that lists all below a directory
    /// in one go.
    pub below: Vec<DirectoryListing>,
}

/// A pack that was read.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The pack; empty when no entry could be read.
    pub pack: Vec<u8>,
    /// How many of the picks have been dealt with, with those before. The rest did not fit: ask again.
    pub until: u32,
    /// Indices into the picks of the entries that are in the pack, in order.
    pub packed: Vec<u32>,
    /// Indices into the picks of the entries that could not be read, and why.
    pub failures: Vec<(u32, Error)>,
    /// What these entries have that is not copied.
    pub losses: Vec<Loss>,
    /// Bytes of content in the pack.
    pub content_bytes: u64,
}
