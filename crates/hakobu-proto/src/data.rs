//! The messages on a data connection: operations on the target and their answers.
//!
//! The small part of a message is the meta of its frame, encoded with postcard. Packs, content, lists of paths and
//! listings are the payload. Each direction of the connection carries only one kind of message: operations toward the
//! target, answers back.

use hakobu_core::block_table::Copied;
use hakobu_core::counters::FarTime;
use hakobu_core::digest::Digest;
use hakobu_core::endpoint::{self, Change, Detail, DraftId};
use hakobu_core::entry::{AccountId, Attributes, EntryMetadata};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::extended::Classes;
use hakobu_core::extent::Extent;
use hakobu_core::losses::Loss;
use hakobu_core::path::{EntryPath, PATH_BYTES_MAX};
use hakobu_core::tag::TagKey;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::frame::PAYLOAD_LIMIT_BYTES;
use crate::wire::{self, AsMirror, itself};

/// Kinds of frames. Operations are below 64, answers start at 64.
pub mod kind {
    /// [`Hello`](super::Hello): the first frame of every connection, and never sent later.
    pub const HELLO: u8 = 1;
    /// [`StatRequest`](super::StatRequest): describe one entry.
    pub const STAT: u8 = 2;
    /// [`ListMessage`](super::ListMessage) directories; payload: the paths.
    pub const LIST: u8 = 3;
    /// Store a pack; payload: the pack.
    pub const WRITE_PACK: u8 = 4;
    /// [`Begin`](super::BeginDraft) a draft.
    pub const BEGIN: u8 = 5;
    /// [`WritePiece`](super::WritePiece) a piece; payload: its bytes.
    pub const WRITE: u8 = 6;
    /// [`Finish`](super::Finish) a draft; payload: the extended attributes to set, if any are.
    pub const FINISH: u8 = 7;
    /// [`Abandon`](super::Abandon) a draft.
    pub const ABANDON: u8 = 8;
    /// Apply changes; payload: the changes.
    pub const APPLY: u8 = 9;
    /// [`Barrier`](super::Barrier): everything has been written.
    pub const BARRIER: u8 = 10;
    /// [`ZeroRange`](super::ZeroRange): make a range read as zeros.
    pub const ZERO: u8 = 11;
    /// [`HashRange`](super::HashRange) a range: return the values of its pieces.
    pub const HASH_RANGE: u8 = 12;
    /// [`Complete`](super::Complete): a range is complete.
    pub const COMPLETE: u8 = 13;
    /// [`SetLength`](super::SetLength): a stream has ended, with this length.
    pub const SET_LENGTH: u8 = 14;
    /// [`Digests`](super::Digests): return digests or tags of small files; payload: directory, names, key.
    pub const DIGEST: u8 = 15;
    /// [`NumbersRequest`](super::NumbersRequest): return the IDs of users and groups; payload: their names.
    pub const NUMBERS: u8 = 16;
    /// [`Patch`](super::Patch) a piece that was signed; payload: the blocks that differ. Never answered: the next
    /// operation on the draft reports an error.
    pub const PATCH: u8 = 17;
    /// [`WeakSums`](super::WeakSums): return the sums of blocks in the file from which a draft is built.
    pub const WEAK_SUMS: u8 = 18;
    /// [`Assemble`](super::Assemble) pieces; payload: the bytes between those copied from the old file. Never
    /// answered, like [`PATCH`].
    pub const ASSEMBLE: u8 = 19;

    /// [`HoleRequest`](super::HoleRequest): return where a hole ends.
    pub const HOLE: u8 = 20;

    /// The operation has succeeded.
    pub const DONE: u8 = 64;
    /// An entry's description; meta: [`StatReply`](super::StatReply).
    pub const STAT_REPLY: u8 = 65;
    /// Listings; payload: see [`crate::listings`].
    pub const LISTED: u8 = 66;
    /// A pack was stored or changes were applied; payload: [`StoredReply`](super::StoredReply).
    pub const PACK_WRITTEN: u8 = 67;
    /// The operation failed as a whole; meta: the error.
    pub const FAILED: u8 = 68;
    /// A draft with a journal was begun; payload: [`Begun`](super::BegunReply).
    pub const BEGUN: u8 = 69;
    /// The values of the pieces of a range; payload: 32 bytes each.
    pub const HASHES: u8 = 70;
    /// Digests or tags; payload: 32 bytes or an error for each name.
    pub const DIGESTED: u8 = 71;
    /// User and group IDs; payload: an optional ID for each name.
    pub const NUMBERED: u8 = 72;
    /// The sums of blocks; payload: 8 bytes each.
    pub const SUMS: u8 = 73;
    /// The values of the blocks of a piece; payload: 16 bytes each.
    pub const BLOCK_HASHES: u8 = 74;
    /// Not an answer: the time accounting of the serving thread, as [`TimesReply`](super::TimesReply). At most one for each
    /// operation.
    pub const TIMES: u8 = 75;
    /// The end of a hole; meta: the offset.
    pub const HOLE_UNTIL: u8 = 76;
}

/// A flag of [`kind::WRITE`] and [`kind::ZERO`]: answer when this and all earlier writes have succeeded.
pub const FLAG_ACKNOWLEDGE: u8 = 1;
/// A flag of [`kind::LISTED`]: more frames of the same answer follow.
pub const FLAG_MORE: u8 = 1;

/// A flag of content ([`is_content`](crate::compressed::is_content)): the payload is [compressed](crate::compressed).
pub const FLAG_COMPRESSED: u8 = 2;

/// The maximum number of directories in one list request.
pub const LIST_DIRECTORIES_MAX: usize = 256;
/// The maximum budget for directories below the requested ones, in entries.
pub const LIST_BUDGET_MAX: u32 = 64 * 1024;
/// The maximum number of changes in one operation.
pub const CHANGES_MAX: usize = 1024;
/// The maximum length of an error's explanation in a message, in bytes.
const DETAIL_BYTES_MAX: usize = 2048;
/// The maximum length of the name of an error's step in a message, in bytes.
const DURING_BYTES_MAX: usize = 256;

/// The first message of the engine's side on each connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The number of the lane, from 0.
    pub lane: u16,
}

/// Requests the description of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StatRequest {
    /// The entry.
    #[serde(with = "AsMirror::<wire::EntryPath>")]
    pub path: EntryPath,
    /// The classes of extended attributes to read.
    #[serde(with = "AsMirror::<wire::Classes>")]
    pub extended: Classes,
}

/// Requests listings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListMessage {
    /// The maximum number of entries in listings of directories below the requested ones.
    pub budget: u32,
    /// The level of detail for each entry.
    #[serde(with = "AsMirror::<wire::Detail>")]
    pub detail: Detail,
}

/// Begins a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "BeginDraft")]
pub struct BeginDraft {
    /// The number of the draft from now on, on all connections of the session.
    pub draft: DraftId,
    /// The description of the draft.
    #[serde(with = "AsMirror::<wire::DraftParameters>")]
    pub begin: endpoint::DraftParameters,
}

/// Makes a range of a draft read as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZeroRange {
    /// The draft.
    pub draft: DraftId,
    /// The range.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
}

/// Requests the values of the pieces in a range, or of the blocks in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashRange {
    /// The draft.
    pub draft: DraftId,
    /// The range: at most a chunk, starting at a multiple of the piece size.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
    /// True to request the values of blocks.
    pub blocks: bool,
}

/// Requests the end of the hole at the start of a range of the target's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoleRequest {
    /// The draft.
    pub draft: DraftId,
    /// The range, starting at a multiple of the piece size.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
}

/// Replaces some blocks of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Patch {
    /// The draft.
    pub draft: DraftId,
    /// The piece.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
    /// One bit for each block; the lowest bit is the first block.
    pub changed: u64,
    /// The BLAKE3 value of the resulting piece.
    pub value: Digest,
}

/// Requests the sums of the whole blocks in a range of the file from which a draft is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WeakSums {
    /// The draft.
    pub draft: DraftId,
    /// The range of the old file: at most a chunk, starting at a multiple of the chunk size.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
    /// The length of the blocks in bytes.
    pub block_bytes: u64,
}

/// Builds pieces from the file from which a draft is built, and from bytes in the payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assemble {
    /// The draft.
    pub draft: DraftId,
    /// The range of the pieces.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
    /// The ranges to copy from the old file, in order and without overlaps: at most
    /// [`COPIES_MAX`](hakobu_core::block_table::COPIES_MAX).
    #[serde(with = "AsMirror::<Vec<wire::Copied>>")]
    pub copies: Vec<Copied>,
    /// The BLAKE3 digest of the values of the resulting pieces.
    pub value: Digest,
}

/// Announces that a range is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Complete {
    /// The draft.
    pub draft: DraftId,
    /// The range.
    #[serde(with = "AsMirror::<wire::Extent>")]
    pub extent: Extent,
    /// The BLAKE3 value of the chunk that the range is, if it was computed.
    pub value: Option<Digest>,
    /// True if a journal may record it.
    pub kept: bool,
}

/// Announces that everything has been written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Barrier {
    /// True to bring it to stable storage.
    pub durable: bool,
    /// True if the whole job was processed without any failure.
    pub whole: bool,
}

/// Announces the length of a draft that was begun without a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetLength {
    /// The draft.
    pub draft: DraftId,
    /// Its size in bytes.
    pub size_bytes: u64,
}

/// Abandons a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Abandon {
    /// The draft.
    pub draft: DraftId,
    /// True to keep what a later run can use.
    pub keep: bool,
}

/// Writes a piece of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WritePiece {
    /// The draft.
    pub draft: DraftId,
    /// The offset in the file in bytes: a multiple of the piece size.
    pub offset: u64,
}

/// Finishes a draft.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finish {
    /// The draft.
    pub draft: DraftId,
    /// The attributes to set on it.
    #[serde(with = "AsMirror::<wire::Attributes>")]
    pub attributes: Attributes,
    /// The digest of the whole file, if it was computed.
    pub digest: Option<Digest>,
}

/// The result of a pack or of changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredReply {
    /// The failures, by index.
    #[serde(with = "AsMirror::<Vec<(u32, wire::Error)>>")]
    pub failures: Vec<(u32, Error)>,
    /// The metadata that could not be kept.
    #[serde(with = "AsMirror::<Vec<wire::Loss>>")]
    pub losses: Vec<Loss>,
}

impl StoredReply {
    /// Returns the result with every text truncated to its limit.
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

    /// Appends the encoded result to `out`. If the paths of many failures exceed the size of a frame, the paths are
    /// omitted: the peer knows what it requested.
    ///
    /// # Errors
    /// `Protocol` if it does not fit into a frame even then.
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

/// Requests the digests of small files, or their tags if a key is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Digests {
    /// The directory.
    #[serde(with = "AsMirror::<wire::EntryPath>")]
    pub directory: EntryPath,
    /// The names in the directory: at most [`CHANGES_MAX`].
    pub names: Vec<ByteBuf>,
    /// The key, if tags are computed instead of digests.
    #[serde(with = "AsMirror::<Option<wire::TagKey>>")]
    pub key: Option<TagKey>,
}

/// Bytes that are sent unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByteBuf(#[serde(with = "AsMirror::<wire::BoundedBytes>")] pub Vec<u8>);

itself!(ByteBuf);

/// The maximum number of names in one request for IDs.
pub const NAMES_MAX: usize = 256;
/// The payload of [`kind::NUMBERED`].
pub type NumbersReply = Vec<Option<u32>>;

/// The payload of [`kind::NUMBERS`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NumbersRequest(
    #[serde(with = "AsMirror::<Vec<(wire::AccountId, ByteBuf)>>")] pub Vec<(AccountId, ByteBuf)>,
);

/// The payload of [`kind::DIGESTED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DigestReply(
    #[serde(with = "AsMirror::<Vec<Result<[u8; 32], wire::Error>>>")] pub Vec<Result<Digest>>,
);

/// The meta of [`kind::STAT_REPLY`]: the answer to an inspection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StatReply(#[serde(with = "AsMirror::<Option<wire::EntryMetadata>>")] pub Option<EntryMetadata>);

/// The payload of [`kind::LIST`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ListRequest(#[serde(with = "AsMirror::<Vec<wire::EntryPath>>")] pub Vec<EntryPath>);

/// The payload of [`kind::APPLY`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ApplyChanges(#[serde(with = "AsMirror::<Vec<wire::Change>>")] pub Vec<Change>);

/// The payload of [`kind::BEGUN`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BegunReply(#[serde(with = "AsMirror::<wire::EarlierWork>")] pub endpoint::EarlierWork);

/// The meta of [`kind::FAILED`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FailedReply(#[serde(with = "AsMirror::<wire::Error>")] pub Error);

/// The meta of [`kind::TIMES`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TimesReply(#[serde(with = "AsMirror::<wire::FarTime>")] pub FarTime);

/// Appends an encoded message to `out`.
///
/// # Errors
/// `Protocol` if it does not fit into a frame.
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
/// `Protocol` if the bytes are not such a message.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(malformed("a message with something behind its end")),
        Err(_) => Err(malformed("a message that cannot be decoded")),
    }
}

/// Returns the error with every text truncated to its limit.
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
        let begin = BeginDraft {
            draft: 1,
            begin: endpoint::DraftParameters { path, ..endpoint::DraftParameters::default() },
        };
        encode(&begin, &mut bytes).unwrap();
        assert_eq!(decode::<BeginDraft>(&bytes).unwrap(), begin);
        let at = bytes.windows(5).position(|window| window == b"ab/cd").unwrap();
        bytes[at..at + 5].copy_from_slice(b"../cd");
        assert_eq!(decode::<BeginDraft>(&bytes).unwrap_err().kind, ErrorKind::Protocol);
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
        assert!(decode::<ListRequest>(&bytes).is_err());
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
        StoredReply { failures, losses: Vec::new() }.encode_bounded(&mut encoded).unwrap();
        let read: StoredReply = decode(&encoded).unwrap();
        assert_eq!((read.failures.len(), &read.failures[1023].1), (1024, &error));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode::<BeginDraft>(&bytes);
            let _ = decode::<Finish>(&bytes);
            let _ = decode::<SetLength>(&bytes);
            let _ = decode::<Assemble>(&bytes);
            let _ = decode::<ApplyChanges>(&bytes);
            let _ = decode::<StoredReply>(&bytes);
            let _ = decode::<BegunReply>(&bytes);
            let _ = decode::<ListRequest>(&bytes);
            let _ = decode::<FailedReply>(&bytes);
        }
    }
}
