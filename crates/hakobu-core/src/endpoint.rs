//! The traits of places that can hold data: an [`Endpoint`] is opened once, its [`Lane`]s do the
//! work, each owned by one thread.
//!
//! A lane is a pair of queues, as NVMe, io_uring or NFS have it: [`Lane::submit`] hands over an
//! operation with its buffers, [`Lane::reap`] gives back what has been completed. A local lane
//! completes inside `submit`; a lane that crosses a network has many operations under way.

use std::sync::Arc;
use std::time::Duration;

use crate::capabilities::Capabilities;
use crate::counters::Beyond;
use crate::digest::{BlockValue, Digest, Subtree};
use crate::entry::{Account, Attributes, Metadata};
use crate::error::{Error, Result};
use crate::event::Failure;
use crate::extended::{Classes, Extended, ExtendedAsk};
use crate::extent::Extent;
use crate::handle::{Cursor, SharedFile};
use crate::listing::{DirectoryListing, Listing};
use crate::losses::Loss;
use crate::moved::Copied;
use crate::path::EntryPath;
pub use crate::piece_buffer::{PIECE_ALIGNMENT, PieceBuffer};
use crate::tag::TagKey;

/// A number that the submitter chose, to recognise the completion.
pub type Ticket = u64;

/// How long to wait for a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Not at all.
    Now,
    /// At most this long.
    For(Duration),
    /// Until there is one, or until it is certain that none will come.
    Forever,
}

/// A place that can hold data, opened.
pub trait Endpoint: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> &Capabilities;

    /// Opens a way in and out for one thread. `index` counts from 0.
    ///
    /// # Errors
    /// When the way cannot be opened, such as a connection that is refused.
    fn open_lane(&self, index: usize) -> Result<Box<dyn Lane>>;

    /// Whether a further lane is to be opened now. `has_work`: there is something that no lane has taken. Asked again and
    /// again, so an end whose lanes take long to open can wait until one is worth it, or until somebody else has made it.
    fn may_open_lane(&self, has_work: bool) -> bool {
        let _ = has_work;
        true
    }

    /// Whether lanes had better write to different files, since those who write to one wait for each other.
    fn spreads_writers(&self) -> bool {
        false
    }

    /// What has arrived so far over the connections of all lanes; `None` where nobody knows. Called from any thread.
    fn passed(&self) -> Option<Passed> {
        None
    }

    /// Tells a source in which steps the ends of the run keep times. What was changed within a step of the moment that it is
    /// read could be changed again without another time.
    fn meet_time_step(&self, step_ns: u32) {
        let _ = step_ns;
    }

    /// Says that the work is done: lanes that are being opened may give up. Called from any thread.
    fn lanes_are_complete(&self) {}

    /// Makes lanes fail that wait for a peer. The run has failed already; called from any thread.
    fn interrupt(&self) {}
}

/// What has passed over the connections to an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Bytes that have arrived there, in all, overhead included.
    pub bytes: u64,
    /// Segments that had to be sent again, in all.
    pub sent_again: u64,
    /// The round trip now, the mean of the connections'.
    pub round_trip: Duration,
    /// The shortest that they have seen lately, the mean again.
    pub round_trip_least: Duration,
}

/// One way in and out of an endpoint, owned by one thread.
pub trait Lane: Send {
    /// Begins an operation. An operation comes back when the queue is full: reap first.
    fn submit(&mut self, ticket: Ticket, operation: Operation) -> std::result::Result<(), Operation>;

    /// The next completion. `None`: none within `wait`, or nothing is under way, or an operation was handed back last and
    /// would be taken now. A lane that has
    /// failed as a whole says so with an error for `Ticket::MAX`; nothing else will come of it.
    fn reap(&mut self, wait: Wait) -> Option<Completion>;

    /// An empty buffer of one piece, from the lane's own store. [`Operation::Write`] gives it back.
    fn piece_buffer(&mut self) -> PieceBuffer;

    /// A buffer for a pack, from the lane's own store, with whatever an earlier pack has left in it. [`Operation::Store`] gives it back.
    fn pack_buffer(&mut self) -> Vec<u8>;

    /// Gives back a buffer that was not used up.
    fn recycle(&mut self, buffer: PieceBuffer);

    /// Sends what has been submitted and is still held back to travel with more.
    fn flush(&mut self) {}

    /// What it knows of the far end of its connection; nothing where there is none.
    fn beyond(&mut self) -> Beyond {
        Beyond::default()
    }
}

/// An operation that ended, one way or the other.
#[derive(Debug)]
pub struct Completion {
    /// The submitter's number.
    pub ticket: Ticket,
    /// What came of it.
    pub result: Result<Outcome>,
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

/// How much a listing tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// Only names and kinds, for what is to be removed: all else is as in [`Metadata::new`].
    pub kinds_only: bool,
    /// Which extended attributes [`Metadata::extended`] stands for.
    pub extended: Classes,
    /// Of which [`Metadata::missed`] says whether an entry has any. Only of a source, so it never travels.
    pub missed: Classes,
}

/// A change at the target that carries no content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Make sure that a directory is there.
    MakeDirectory {
        /// Where.
        path: EntryPath,
        /// The permissions of a new one.
        mode: u32,
    },
    /// Make sure that a directory is there, and set its attributes.
    Directory {
        /// Where.
        path: EntryPath,
        /// What to set.
        attributes: Attributes,
        /// The extended attributes to set; without, they are left as they are.
        extended: Option<Extended>,
    },
    /// Set the attributes of a file or a link.
    Attributes {
        /// Where.
        path: EntryPath,
        /// What to set.
        attributes: Attributes,
        /// The extended attributes to set; without, they are left as they are.
        extended: Option<Extended>,
    },
    /// Give a file, which is complete, one more name.
    Link {
        /// The new name.
        path: EntryPath,
        /// A name that it has.
        to: EntryPath,
        /// Whether the target has an entry of the new name already, which is replaced.
        replaces: bool,
    },
    /// Remove an entry that the source does not have. One that is gone is removed.
    Remove {
        /// Which.
        path: EntryPath,
        /// Whether it is a directory, which has to be empty by now but for drafts that were given up.
        directory: bool,
        /// How many names of the path lead to the directory that stays. Nothing is removed that is on another file
        /// system than that.
        kept_names: u16,
    },
    /// Write the name of an entry in another case, where that is the same name.
    Rename {
        /// The name as it shall be.
        path: EntryPath,
        /// The name as it is, in the same directory.
        from: EntryPath,
    },
}

impl Change {
    /// The extended attributes that are set, if any are.
    pub fn extended(&self) -> Option<&Extended> {
        match self {
            Change::Directory { extended, .. } | Change::Attributes { extended, .. } => extended.as_ref(),
            Change::MakeDirectory { .. }
            | Change::Link { .. }
            | Change::Remove { .. }
            | Change::Rename { .. } => None,
        }
    }

    /// The path that is changed.
    pub fn path(&self) -> &EntryPath {
        match self {
            Change::MakeDirectory { path, .. }
            | Change::Directory { path, .. }
            | Change::Attributes { path, .. }
            | Change::Link { path, .. }
            | Change::Remove { path, .. }
            | Change::Rename { path, .. } => path,
        }
    }
}

/// Something a lane can be asked to do.
#[derive(Debug)]
pub enum Operation {
    /// Describe one entry, without following a link. Source and target.
    Inspect {
        /// Which root.
        root: u16,
        /// Which entry.
        path: EntryPath,
        /// What is told of it.
        detail: Detail,
    },
    /// List directories, complete or with an error each. The far side may add descendants as long
    /// as all listings together stay below `budget` entries. Source and target.
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
    /// [`Outcome::Portion`]. Source.
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
    /// it is, if it still has the same names and fits. Source.
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
    /// Read one piece of a file. Source.
    Read {
        /// The file.
        file: Arc<SourceFile>,
        /// The piece: at most [`PIECE_BYTES`](crate::extent::PIECE_BYTES).
        extent: Extent,
        /// Where the bytes go.
        buffer: PieceBuffer,
    },
    /// Tell where the hole ends that a range begins with: answered with [`Outcome::HoleUntil`]. Source.
    FindHole {
        /// The file.
        file: Arc<SourceFile>,
        /// The range.
        extent: Extent,
    },
    /// Read the next chunk of a stream, for as long as that takes within a moment: answered with [`Outcome::Next`]. Its
    /// pieces are then there to be read, once, by this lane. Source.
    Next {
        /// The stream.
        file: Arc<SourceFile>,
    },
    /// Tell the extended attributes of an entry: answered with [`Outcome::Extended`]. Fails if it has some that must
    /// not be lost and would be. Source.
    Extended {
        /// Which root.
        root: u16,
        /// The entry.
        path: EntryPath,
        /// Which of them.
        ask: ExtendedAsk,
    },
    /// Open a file for [`Operation::Clone`]. Source.
    Open {
        /// The file.
        file: Arc<SourceFile>,
    },
    /// Check that a file is still the version that was listed, and tell its extended attributes: answered with
    /// [`Outcome::Extended`]. Source.
    Confirm {
        /// The file.
        file: Arc<SourceFile>,
        /// Which of them.
        ask: ExtendedAsk,
    },
    /// Write the files and links of a pack. Target.
    Store {
        /// The pack, as [`crate::pack::PackBuilder`] made it.
        pack: Vec<u8>,
    },
    /// Take the digests of small files, and of the texts of links, in one directory, or with a key their tags: answered
    /// with [`Outcome::Digests`]. Those of the source have to be the versions that were listed. Source.
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
    /// The same. Target.
    Digest {
        /// The directory.
        directory: EntryPath,
        /// The names in it.
        names: Vec<Vec<u8>>,
        /// The key of the tags that are taken in the place of digests.
        key: Option<TagKey>,
    },
    /// Tell the names of users and groups: answered with [`Outcome::Names`]. Source.
    Names {
        /// Which.
        accounts: Vec<Account>,
    },
    /// Tell the numbers that users and groups have here: answered with [`Outcome::Numbers`]. Target.
    Numbers {
        /// Their names, each with what it is; the numbers are those of the source.
        names: Vec<(Account, Vec<u8>)>,
    },
    /// Begin a draft: answered with [`Outcome::Begun`] when it keeps a journal. Target.
    Begin {
        /// Its number from now on.
        draft: DraftId,
        /// What it is.
        begin: Begin,
    },
    /// Tell the values of what the target has in this range of a draft: answered with [`Outcome::Signed`] or, for blocks,
    /// with [`Outcome::BlocksSigned`]. A draft
    /// that is made of another file has the content of that in the range afterwards. Target.
    Sign {
        /// The draft, of which there is something already.
        draft: DraftId,
        /// The range: at most a chunk; for blocks one piece.
        extent: Extent,
        /// The values of its blocks instead of those of its pieces.
        blocks: bool,
    },
    /// Tell where the hole ends that this range of what the target has begins with: answered with
    /// [`Outcome::HoleUntil`]. Nothing of it is read. Target.
    Hole {
        /// The draft, of which there is something already.
        draft: DraftId,
        /// The range.
        extent: Extent,
    },
    /// Change some blocks of a piece that was signed. Answered only if it fails. Target.
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
    /// with [`Outcome::Sums`]. Target.
    Sum {
        /// The draft: an [`DraftKind::Update`].
        draft: DraftId,
        /// The range of the old file: at most a chunk.
        extent: Extent,
        /// How long the blocks are: a power of two, at most a chunk.
        block_bytes: u64,
    },
    /// Write pieces that are put together out of the file that a draft is made of, and of bytes. Answered only if it
    /// cannot be. If the pieces are not what they should be, [`Operation::Complete`] fails with
    /// [`ErrorKind::Corrupt`](crate::error::ErrorKind::Corrupt), and the chunk is to be written. Target.
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
    /// Make a range of a draft read as zeros. Answered as [`Operation::Write`] is. Target.
    Zero {
        /// The draft.
        draft: DraftId,
        /// The range.
        extent: Extent,
        /// Whether to answer when it succeeds.
        acknowledge: bool,
    },
    /// Everything in a range has been written by this lane, made zero, or is to be kept as the
    /// target has it. Always answered; a journal remembers it. Target.
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
    /// written by now, or will be by this lane. Target.
    Length {
        /// The draft.
        draft: DraftId,
        /// Its size.
        size_bytes: u64,
    },
    /// Write a piece of a draft. A completion comes with `acknowledge` or on failure; it covers all
    /// earlier writes of this lane to the draft. Target.
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
    /// as before. Target.
    Clone {
        /// The draft.
        draft: DraftId,
        /// The file, of the draft's size.
        from: SharedFile,
    },
    /// Give a draft its attributes and make it visible. Target.
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
    /// Throw a draft away. Target.
    Abandon {
        /// The draft.
        draft: DraftId,
        /// Leave what a later run can use.
        keep: bool,
    },
    /// Make changes in order. Target.
    Apply {
        /// The changes.
        changes: Vec<Change>,
    },
    /// Everything has been written. Target.
    Barrier {
        /// Bring it to stable storage.
        durable: bool,
        /// All that the job is about was looked at, and nothing of it failed.
        whole: bool,
    },
}

/// What came of an operation.
#[derive(Debug)]
pub enum Outcome {
    /// The entry, or `None` if there is no such entry.
    Inspected(Option<Metadata>),
    /// The listings, first those asked for, in order, then descendants.
    Listed(Vec<DirectoryListing>),
    /// Entries of a directory, and what is left of it, if anything may be.
    Portion(Listing, Option<Cursor>),
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
    /// Written, cloned, begun, finished, abandoned, or brought to stable storage.
    Done,
    /// A draft that keeps a journal has been begun.
    Begun(Box<Begun>),
    /// The name of each account, if it has one.
    Names(Vec<Option<Vec<u8>>>),
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

/// A failure at a path, for outcomes that name paths.
pub fn failure(path: impl AsRef<[u8]>, error: Error) -> Failure {
    Failure { path: path.as_ref().to_vec(), error }
}
