//! The messages on a data connection: operations on the target and their answers.
//!
//! The small part of a message is its frame's meta, encoded with postcard; packs, content, lists
//! of paths and listings are its payload. A direction of the connection carries only one kind of
//! message: operations towards the target, answers back.

use hakobu_core::counters::FarTime;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{self, Change, Detail, DraftId};
use hakobu_core::entry::{Account, Attributes, Metadata};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::Classes;
use hakobu_core::extent::Extent;
use hakobu_core::losses::Loss;
use hakobu_core::moved::Copied;
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use hakobu_core::tag::TagKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::PAYLOAD_LIMIT_BYTES;
use crate::wire::{self, As, itself};

/// Kinds of frames. Operations are below 64, answers from 64 on.
pub mod kind {
    /// [`Hello`](super::Hello): the first frame of every connection, and only that.
    pub const HELLO: u8 = 1;
    /// [`Inspect`](super::Inspect): describe one entry.
    pub const INSPECT: u8 = 2;
    /// [`List`](super::List) directories; payload: the paths.
    pub const LIST: u8 = 3;
    /// Store a pack; payload: the pack.
    pub const STORE: u8 = 4;
    /// [`Begin`](super::Begin) a draft.
    pub const BEGIN: u8 = 5;
    /// [`Write`](super::Write) a piece; payload: its bytes.
    pub const WRITE: u8 = 6;
    /// [`Finish`](super::Finish) a draft; payload: the extended attributes to set, if any are.
    pub const FINISH: u8 = 7;
    /// [`Abandon`](super::Abandon) a draft.
    pub const ABANDON: u8 = 8;
    /// Apply changes; payload: the changes.
    pub const APPLY: u8 = 9;
    /// Everything has been written: a [`Barrier`](super::Barrier).
    pub const BARRIER: u8 = 10;
    /// Make a range [`Zero`](super::Zero).
    pub const ZERO: u8 = 11;
    /// [`Sign`](super::Sign) a range: tell the values of its pieces.
    pub const SIGN: u8 = 12;
    /// A range is [`Complete`](super::Complete).
    pub const COMPLETE: u8 = 13;
    /// A stream has ended, and this is its [`Length`](super::Length).
    pub const LENGTH: u8 = 14;
    /// Take digests or tags of small files: [`Digests`](super::Digests); payload: directory, names, key.
    pub const DIGEST: u8 = 15;
    /// Tell [`Numbers`](super::Numbers) of users and groups; payload: their names.
    pub const NUMBERS: u8 = 16;
    /// [`Patch`](super::Patch) a piece that was signed; payload: the blocks that differ. Never answered: an error is
    /// told by the next operation on the draft.
    pub const PATCH: u8 = 17;
    /// Tell the sums of blocks in the file that a draft is made of: [`Sum`](super::Sum).
    pub const SUM: u8 = 18;
    /// [`Assemble`](super::Assemble) pieces; payload: the bytes between what is taken from the old file. Never answered,
    /// as [`PATCH`].
    pub const ASSEMBLE: u8 = 19;

    /// Tell where a [`Hole`](super::Hole) ends.
    pub const HOLE: u8 = 20;

    /// It is done.
    pub const DONE: u8 = 64;
    /// An entry's description; meta: [`Inspected`](super::Inspected).
    pub const INSPECTED: u8 = 65;
    /// Listings; payload: see [`crate::listings`].
    pub const LISTED: u8 = 66;
    /// A pack was stored or changes were applied; payload: [`Stored`](super::Stored).
    pub const STORED: u8 = 67;
    /// The operation failed as a whole; meta: the error.
    pub const FAILED: u8 = 68;
    /// A draft has been begun that keeps a journal; payload: [`Begun`](super::Begun).
    pub const BEGUN: u8 = 69;
    /// The values of the pieces of a range; payload: 32 bytes each.
    pub const SIGNED: u8 = 70;
    /// Digests or tags; payload: for each name 32 bytes or an error.
    pub const DIGESTED: u8 = 71;
    /// Numbers; payload: an optional one for each name.
    pub const NUMBERED: u8 = 72;
    /// Sums of blocks; payload: 8 bytes each.
    pub const SUMMED: u8 = 73;
    /// The values of the blocks of a piece; payload: 16 bytes each.
    pub const BLOCKS_SIGNED: u8 = 74;
    /// No answer: what the thread that serves did with its time, as
    /// [`Times`](super::Times). At most one for each operation.
    pub const TIMES: u8 = 75;
    /// Where a hole ends; meta: the offset.
    pub const HOLE_UNTIL: u8 = 76;
}

/// Flag of a [`kind::WRITE`] or [`kind::ZERO`]: answer when this and all earlier writes have succeeded.
pub const FLAG_ACKNOWLEDGE: u8 = 1;
/// Flag of a [`kind::LISTED`]: more frames of the same answer follow.
pub const FLAG_MORE: u8 = 1;

/// Flag of content ([`is_content`](crate::compressed::is_content)): the payload is [compressed](crate::compressed).
pub const FLAG_COMPRESSED: u8 = 2;

/// The most directories in one request to list.
pub const LIST_DIRECTORIES_MAX: usize = 256;
/// The largest budget for directories below those asked for, in entries.
pub const LIST_BUDGET_MAX: u32 = 64 * 1024;
/// The most changes in one operation.
pub const CHANGES_MAX: usize = 1024;
/// The most bytes of explanation that travel with an error.
const DETAIL_BYTES_MAX: usize = 2048;
/// The most bytes of the step's name that travel with an error.
const DURING_BYTES_MAX: usize = 256;

/// What the engine's side says first on each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The lane's number, from 0.
    pub lane: u16,
}

/// Asks for a description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inspect {
    /// The entry.
    #[serde(with = "As::<wire::EntryPath>")]
    pub path: EntryPath,
    /// Which extended attributes are looked at.
    #[serde(with = "As::<wire::Classes>")]
    pub extended: Classes,
}

/// Asks for listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// How many entries may be added on the way down.
    pub budget: u32,
    /// What is told of each entry.
    #[serde(with = "As::<wire::Detail>")]
    pub detail: Detail,
}

/// Begins a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "BeginDraft")]
pub struct Begin {
    /// Its number from now on, on all connections of the session.
    pub draft: DraftId,
    /// What it is.
    #[serde(with = "As::<wire::Begin>")]
    pub begin: endpoint::Begin,
}

/// Makes a range of a draft read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zero {
    /// The draft.
    pub draft: DraftId,
    /// The range.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
}

/// Asks for the values of the pieces in a range, or of the blocks of one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sign {
    /// The draft.
    pub draft: DraftId,
    /// The range: at most a chunk, beginning at a multiple of the piece size.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
    /// Whether the values of blocks are asked for.
    pub blocks: bool,
}

/// Asks where the hole ends that a range of what the target has begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hole {
    /// The draft.
    pub draft: DraftId,
    /// The range, beginning at a multiple of the piece size.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
}

/// Changes some blocks of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The draft.
    pub draft: DraftId,
    /// The piece.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
    /// A bit for each block, the lowest for the first.
    pub changed: u64,
    /// The BLAKE3 value that the piece then has.
    pub value: Digest,
}

/// Asks for the sums of the whole blocks in a range of the file that a draft is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sum {
    /// The draft.
    pub draft: DraftId,
    /// The range of the old file: at most a chunk, beginning at a multiple of the chunk size.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
    /// How long the blocks are.
    pub block_bytes: u64,
}

/// Puts pieces together out of the file that a draft is made of, and of bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assemble {
    /// The draft.
    pub draft: DraftId,
    /// The pieces.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
    /// What is taken from the old file, in order, none overlapping another: at most
    /// [`COPIES_MAX`](hakobu_core::moved::COPIES_MAX).
    #[serde(with = "As::<Vec<wire::Copied>>")]
    pub copies: Vec<Copied>,
    /// The BLAKE3 of the values that the pieces then have.
    pub value: Digest,
}

/// Says that a range is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// The draft.
    pub draft: DraftId,
    /// The range.
    #[serde(with = "As::<wire::Extent>")]
    pub extent: Extent,
    /// The BLAKE3 value of the chunk that it is, where it was taken.
    pub value: Option<Digest>,
    /// Whether a journal may remember it.
    pub kept: bool,
}

/// Everything has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// Bring it to stable storage.
    pub durable: bool,
    /// All that the job is about was looked at, and nothing of it failed.
    pub whole: bool,
}

/// Says how long a draft is that was begun without a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// The draft.
    pub draft: DraftId,
    /// Its size.
    pub size_bytes: u64,
}

/// Abandons a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abandon {
    /// The draft.
    pub draft: DraftId,
    /// Whether to leave what a later run can use.
    pub keep: bool,
}

/// Writes a piece of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// The draft.
    pub draft: DraftId,
    /// Where in the file: a multiple of the piece size.
    pub offset: u64,
}

/// Finishes a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The draft.
    pub draft: DraftId,
    /// What to set on it.
    #[serde(with = "As::<wire::Attributes>")]
    pub attributes: Attributes,
    /// The digest of the whole, if it was taken.
    pub digest: Option<Digest>,
}

/// What came of a pack or of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// What failed, by its index.
    #[serde(with = "As::<Vec<(u32, wire::Error)>>")]
    pub failures: Vec<(u32, Error)>,
    /// What could not be kept.
    #[serde(with = "As::<Vec<wire::Loss>>")]
    pub losses: Vec<Loss>,
}

impl Stored {
    /// The same with every text cut down to what may travel.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        for (_, error) in &mut self.failures {
            *error = bounded(std::mem::replace(error, Error::new(ErrorKind::Io, "", "")));
        }
        for loss in &mut self.losses {
            loss.example.truncate(PATH_BYTES_MAX);
        }
        self
    }

    /// Encodes it behind what is in `out`. Where so many failures have paths so long that a frame
    /// cannot hold them, the paths are left out: the asker knows what it asked for.
    ///
    /// # Errors
    /// `Protocol` if it would not fit into a frame even then.
    pub fn encode_bounded(self, out: &mut Vec<u8>) -> Result<()> {
        let begin = out.len();
        let mut stored = self.bounded();
        if encode(&stored, out).is_ok() {
            return Ok(());
        }
        out.truncate(begin);
        stored.failures.iter_mut().for_each(|(_, error)| error.at.clear());
        encode(&stored, out)
    }
}

/// Asks for the digests of small files, or with a key for their tags.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// The directory.
    #[serde(with = "As::<wire::EntryPath>")]
    pub directory: EntryPath,
    /// Names in it: at most [`CHANGES_MAX`].
    pub names: Vec<ByteBuf>,
    /// The key of the tags that are taken in the place of digests.
    #[serde(with = "As::<Option<wire::TagKey>>")]
    pub key: Option<TagKey>,
}

/// Bytes that travel as such.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteBuf(#[serde(with = "As::<wire::Bytes>")] pub Vec<u8>);

itself!(ByteBuf);

/// The most names in one request for their numbers.
pub const NAMES_MAX: usize = 256;
/// The payload of [`kind::NUMBERED`].
pub type Numbered = Vec<Option<u32>>;

/// The payload of [`kind::NUMBERS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Numbers(#[serde(with = "As::<Vec<(wire::Account, ByteBuf)>>")] pub Vec<(Account, ByteBuf)>);

/// The payload of [`kind::DIGESTED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Digested(#[serde(with = "As::<Vec<Result<[u8; 32], wire::Error>>>")] pub Vec<Result<Digest>>);

/// The meta of [`kind::INSPECTED`]: the answer to an inspection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inspected(#[serde(with = "As::<Option<wire::Metadata>>")] pub Option<Metadata>);

/// The payload of [`kind::LIST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Directories(#[serde(with = "As::<Vec<wire::EntryPath>>")] pub Vec<EntryPath>);

/// The payload of [`kind::APPLY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changes(#[serde(with = "As::<Vec<wire::Change>>")] pub Vec<Change>);

/// The payload of [`kind::BEGUN`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Begun(#[serde(with = "As::<wire::Begun>")] pub endpoint::Begun);

/// The meta of [`kind::FAILED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failed(#[serde(with = "As::<wire::Error>")] pub Error);

/// The meta of [`kind::TIMES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Times(#[serde(with = "As::<wire::FarTime>")] pub FarTime);

/// Encodes a message behind what is in `out`.
///
/// # Errors
/// `Protocol` if it would not fit into a frame.
pub fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<()> {
    let begin = out.len();
    postcard::to_io(message, &mut *out).map_err(|_| malformed("a message that cannot be encoded"))?;
    if out.len() - begin > PAYLOAD_LIMIT_BYTES {
        return Err(malformed("a message that exceeds a frame"));
    }
    Ok(())
}

/// Decodes a message that fills `bytes` exactly.
///
/// # Errors
/// `Protocol` if the bytes are no such message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(malformed("a message with something behind its end")),
        Err(_) => Err(malformed("a message that cannot be decoded")),
    }
}

/// An error cut down to what may travel.
pub fn bounded(mut error: Error) -> Error {
    error.detail.truncate(error.detail.floor_char_boundary(DETAIL_BYTES_MAX));
    if let Some(hint) = error.hint.as_mut().filter(|hint| hint.len() > DETAIL_BYTES_MAX) {
        let end = hint.floor_char_boundary(DETAIL_BYTES_MAX);
        *hint = hint[..end].into();
    }
    if error.during.len() > DURING_BYTES_MAX {
        let end = error.during.floor_char_boundary(DURING_BYTES_MAX);
        error.during = error.during[..end].to_owned().into();
    }
    error.at.truncate(PATH_BYTES_MAX);
    error
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading a message", what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_path_that_leaves_the_root_does_not_decode() {
        let mut bytes = Vec::new();
        let path = EntryPath::new("ab/cd").unwrap();
        let begin = Begin { draft: 1, begin: endpoint::Begin { path, ..endpoint::Begin::default() } };
        encode(&begin, &mut bytes).unwrap();
        assert_eq!(decode::<Begin>(&bytes).unwrap(), begin);
        let at = bytes.windows(5).position(|window| window == b"ab/cd").unwrap();
        bytes[at..at + 5].copy_from_slice(b"../cd");
        assert_eq!(decode::<Begin>(&bytes).unwrap_err().kind, ErrorKind::Protocol);
    }

    #[test]
    fn bytes_behind_a_message_are_refused() {
        let mut bytes = Vec::new();
        encode(&Hello { lane: 3 }, &mut bytes).unwrap();
        bytes.push(0);
        assert!(decode::<Hello>(&bytes).is_err());
    }

    #[test]
    fn a_list_longer_than_its_bytes_is_refused_without_allocating() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
        assert!(decode::<Directories>(&bytes).is_err());
    }

    #[test]
    fn long_explanations_are_cut_at_a_character() {
        let mut error = Error::new(ErrorKind::Io, "reading", "é".repeat(DETAIL_BYTES_MAX));
        error.during = "é".repeat(DURING_BYTES_MAX).into();
        let error = bounded(error);
        assert!(error.detail.len() <= DETAIL_BYTES_MAX && error.during.len() <= DURING_BYTES_MAX);
    }

    #[test]
    fn many_failures_at_long_paths_still_fit_into_a_frame() {
        let error = Error::new(ErrorKind::PermissionDenied, "making the file", "permission denied");
        let at = vec![b'p'; PATH_BYTES_MAX];
        let failures = (0..1024).map(|index| (index, error.clone().at(&at))).collect();
        let mut encoded = Vec::new();
        Stored { failures, losses: Vec::new() }.encode_bounded(&mut encoded).unwrap();
        let read: Stored = decode(&encoded).unwrap();
        assert_eq!((read.failures.len(), &read.failures[1023].1), (1024, &error));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<Begin>(&bytes);
            let _ = decode::<Finish>(&bytes);
            let _ = decode::<Length>(&bytes);
            let _ = decode::<Assemble>(&bytes);
            let _ = decode::<Changes>(&bytes);
            let _ = decode::<Stored>(&bytes);
            let _ = decode::<Begun>(&bytes);
            let _ = decode::<Directories>(&bytes);
            let _ = decode::<Failed>(&bytes);
        }
    }
}
