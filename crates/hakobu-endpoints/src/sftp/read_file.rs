//! Reading of files: small ones as a whole with their metadata, and ranges of large ones.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use futures_util::stream::{self, StreamExt};
use hakobu_core::content::ContentSum;
use hakobu_core::digest::Digest;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extent::Extent;
use hakobu_core::pack::PACKED_FILE_BYTES_MAX;
use hakobu_core::path::EntryPath;
use hakobu_core::tag::{TagKey, Tagger, content_value};
use hakobu_core::{Error, ErrorKind, Result};

use super::connection::{PendingReply, SftpConnection};
use super::requests::{RequestResult, ServerRefusal, attrs, data, done};
use super::sftp_root::{MissingMeaning, SftpRoot};
use super::wire::Handle;
use crate::local::errno::{changed, place};
use crate::local::positioned::wrong_size;

/// The number of small files that are read at a time.
const FILES_AT_ONCE: usize = 128;
/// The number of ranges of one read that are requested at a time.
const PARTS_AHEAD: usize = 16;

/// The maximum number of attempts to read a file at the target that changes meanwhile.
const DIGEST_ATTEMPTS: u32 = 3;

/// A small file that did not change while it was read.
pub(crate) struct SmallFile {
    pub(crate) bytes: Vec<u8>,
    /// The checksum of the bytes, with each part at the requested offset.
    pub(crate) sum: u64,
    pub(crate) is: EntryMetadata,
}

/// Reads a small file of an expected size. Returns `None` if it changed while it was read.
pub(crate) async fn read_small(
    sftp_root: &SftpRoot,
    whole: &[u8],
    size_bytes: u64,
) -> Result<Option<SmallFile>> {
    let size_bytes = size_bytes.min(PACKED_FILE_BYTES_MAX);
    loop {
        let asks_again = sftp_root.server.answers_short.load(Relaxed);
        let handle = open_small(sftp_root, whole).await?;
        let read = read_version(sftp_root, &handle, size_bytes, asks_again).await;
        match read.map_err(|refusal| sftp_root.error("reading", refusal))? {
            ReadResult::Whole(small) => return Ok(Some(small)),
            ReadResult::Changed => return Ok(None),
            ReadResult::WrongSize(read, size_bytes) => return Err(wrong_size("reading", read, size_bytes)),
            // The file is closed already. It is read again, and later files are read in this mode from the start.
            ReadResult::Short => sftp_root.server.answers_short.store(true, Relaxed),
        }
    }
}

/// Opens a small file.
async fn open_small(sftp_root: &SftpRoot, whole: &[u8]) -> Result<Handle> {
    let connection = &sftp_root.server.connection;
    // The file may be replaced with a symbolic link between these two requests. This is not detected here, but the data
    // is still checked against the metadata.
    let looked = connection.look(whole);
    let opened = connection.open_to_read(whole).await;
    let found = attrs(looked).await.map_err(|refusal| sftp_root.error("opening", refusal));
    let handle = opened.map_err(|refusal| sftp_root.error("opening", refusal));
    if !matches!(&found, Ok(Some(found)) if found.kind == EntryKind::File) {
        if let Ok(handle) = handle {
            drop(connection.close(&handle));
        }
        return Err(found.err().unwrap_or_else(|| changed("opening")));
    }
    handle
}

/// The result of reading a small file.
enum ReadResult {
    /// The complete file.
    Whole(SmallFile),
    /// The file changed meanwhile, or its size is not the expected one.
    Changed,
    /// The file returned this number of bytes, although its size was the second number throughout.
    WrongSize(u64, u64),
    /// The server returned less than requested without reporting the end of the file.
    Short,
}

/// Reads an open file with its metadata before and after. Everything is requested at once, unless the server is known
/// to return less than requested: with `asks_again` the missing bytes are requested afterwards.
async fn read_version(
    sftp_root: &SftpRoot,
    handle: &Handle,
    size_bytes: u64,
    asks_again: bool,
) -> Result<ReadResult, ServerRefusal> {
    let connection = &sftp_root.server.connection;
    let before = connection.look_open(handle);
    let parts = ask_parts(sftp_root, handle, size_bytes);
    let end = || (connection.look_open(handle), connection.close(handle));
    let ended = (!asks_again).then(end);
    let content = read_parts(connection, handle, (size_bytes, parts), asks_again).await;
    let (after, closes) = ended.unwrap_or_else(end);
    let (before, content) = (attrs(before).await?, content?);
    let after = attrs(after).await?;
    done(closes).await?;
    let (Some(before), Some(after)) = (before, after) else { return Ok(ReadResult::Changed) };
    if !before.same_version(&after) || after.size_bytes != size_bytes {
        return Ok(ReadResult::Changed);
    }
    let Some((bytes, sum)) = content else { return Ok(ReadResult::Short) };
    let read = bytes.len() as u64;
    Ok(match sum.value(size_bytes).filter(|_| read == size_bytes) {
        Some(sum) => ReadResult::Whole(SmallFile { bytes, sum, is: after }),
        None => ReadResult::WrongSize(read, size_bytes),
    })
}

/// A requested part of a file: its offset, its length, and the answer.
type FileRange = (u64, usize, PendingReply);

/// Requests a whole file of an expected size, and one byte more to detect a longer file.
fn ask_parts(sftp_root: &SftpRoot, handle: &Handle, size_bytes: u64) -> Vec<FileRange> {
    let part_bytes = sftp_root.server.read_bytes as u64;
    let ask = |offset| {
        let length = part_bytes.min(size_bytes + 1 - offset) as usize;
        (offset, length, sftp_root.server.connection.read(handle, offset, length))
    };
    (0..=size_bytes).step_by(part_bytes as usize).map(ask).collect()
}

/// Waits for the parts of a file. Returns the content up to its end and the checksum. Returns `None` if a part is
/// shorter than requested although it ends before the expected size, which is not the end of the file. With
/// `asks_again` the missing bytes are requested instead.
async fn read_parts(
    connection: &SftpConnection,
    handle: &Handle,
    (size_bytes, parts): (u64, Vec<FileRange>),
    asks_again: bool,
) -> RequestResult<Option<(Vec<u8>, ContentSum)>> {
    let mut bytes = Vec::with_capacity(size_bytes as usize);
    let mut sum = ContentSum::default();
    for (offset, length, part) in parts {
        let part = data(part, length).await?;
        // After an early end, later parts are empty or of another version.
        if bytes.len() as u64 != offset {
            continue;
        }
        bytes.extend_from_slice(&part);
        let got = part.len();
        if got > 0 && got < length && offset + (got as u64) < size_bytes {
            if !asks_again {
                return Ok(None);
            }
            fill(connection, handle, (offset, length), &mut bytes, got).await?;
        }
        sum.add(offset, bytes.get(offset as usize..).unwrap_or_default());
    }
    Ok(Some((bytes, sum)))
}

/// Runs many futures, a limited number at a time. Returns the results in their order.
pub(crate) async fn at_once<T>(all: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let all: Vec<_> = all.collect();
    stream::iter(all).buffered(FILES_AT_ONCE).collect().await
}

/// Returns the digests of small files and of the texts of symbolic links in one directory, or their tags with a key.
/// `may` checks which names may be read.
pub(crate) async fn digests(
    (sftp_root, directory): (&SftpRoot, &EntryPath),
    names: &[&[u8]],
    key: Option<TagKey>,
    may: impl Fn(&[u8]) -> Result<()>,
) -> Result<Vec<Result<Digest>>> {
    sftp_root.check_way(directory).await?;
    let tagger = key.map(Tagger::new).transpose()?;
    let (may, tagger) = (&may, tagger.as_ref());
    let digest = |name: &&[u8]| {
        let whole = sftp_root.in_directory(directory, name);
        let at = place(directory, name);
        let name = name.to_vec();
        async move {
            may(&name)?;
            digest((sftp_root, &whole), None, tagger).await.map_err(|error| error.at(&at))
        }
    };
    Ok(at_once(names.iter().map(digest)).await)
}

/// Returns the digest of a small file or of the text of a symbolic link, or its tag. If `listed` is given, the entry
/// must still be this version. Otherwise a few attempts are made, because operations on other names of the file may be
/// changing its attributes.
pub(crate) async fn digest(
    (sftp_root, whole): (&SftpRoot, &[u8]),
    listed: Option<&EntryMetadata>,
    tagger: Option<&Tagger>,
) -> Result<Digest> {
    if let Some(listed) = listed {
        return digest_of((sftp_root, whole), listed, tagger).await;
    }
    let mut attempts_left = DIGEST_ATTEMPTS;
    loop {
        let found = attrs(sftp_root.server.connection.look(whole)).await;
        let found = found.map_err(|refusal| sftp_root.error("opening", refusal))?;
        let is = found.ok_or_else(|| changed("opening"))?;
        attempts_left -= 1;
        match digest_of((sftp_root, whole), &is, tagger).await {
            Err(error) if error.kind == ErrorKind::SourceChanged && attempts_left > 0 => {}
            other => return other,
        }
    }
}

/// Returns the digest of an entry that must still be the given version.
async fn digest_of(
    (sftp_root, whole): (&SftpRoot, &[u8]),
    is: &EntryMetadata,
    tagger: Option<&Tagger>,
) -> Result<Digest> {
    let connection = &sftp_root.server.connection;
    if is.kind == EntryKind::Symlink {
        let text = connection
            .read_link(whole)
            .await
            .map_err(|refusal| sftp_root.error("reading the link", refusal))?;
        return content_value(&text, tagger);
    }
    if is.kind != EntryKind::File || is.size_bytes > PACKED_FILE_BYTES_MAX {
        return Err(changed("reading"));
    }
    match read_small(sftp_root, whole, is.size_bytes).await? {
        Some(small) if small.is.same_version(is) => content_value(&small.bytes, tagger),
        _ => Err(changed("reading")),
    }
}

/// Reads a range of an open file. The result is shorter only at the end of the file.
pub(crate) async fn read_range(sftp_root: &SftpRoot, handle: &Handle, extent: Extent) -> Result<Vec<u8>> {
    let connection = &sftp_root.server.connection;
    let mut bytes = Vec::with_capacity(usize::try_from(extent.length).unwrap_or(0));
    let part_bytes = sftp_root.server.read_bytes as u64;
    let mut ahead: VecDeque<(u64, usize, _)> = VecDeque::new();
    let mut next = extent.offset;
    loop {
        while next < extent.end() && ahead.len() < PARTS_AHEAD {
            let length = part_bytes.min(extent.end() - next) as usize;
            ahead.push_back((next, length, connection.read(handle, next, length)));
            next += length as u64;
        }
        let Some((offset, length, answer)) = ahead.pop_front() else { return Ok(bytes) };
        let part = data(answer, length).await.map_err(|refusal| sftp_root.error("reading", refusal))?;
        bytes.extend_from_slice(&part);
        if part.len() < length
            && !fill(connection, handle, (offset, length), &mut bytes, part.len())
                .await
                .map_err(|refusal| sftp_root.error("reading", refusal))?
        {
            return Ok(bytes);
        }
    }
}

/// Requests the rest of a part of which `got` bytes were received. Returns false if the file ends before.
pub(super) async fn fill(
    connection: &SftpConnection,
    handle: &Handle,
    (offset, length): (u64, usize),
    bytes: &mut Vec<u8>,
    mut got: usize,
) -> RequestResult<bool> {
    while got < length {
        let asked = length - got;
        let part = data(connection.read(handle, offset + got as u64, asked), asked).await?;
        if part.is_empty() {
            return Ok(false);
        }
        got += part.len();
        bytes.extend_from_slice(&part);
    }
    Ok(true)
}

/// Checks that an open file is still the listed version.
pub(crate) async fn check_version(
    sftp_root: &SftpRoot,
    handle: &Handle,
    listed: &EntryMetadata,
) -> Result<()> {
    let now = attrs(sftp_root.server.connection.look_open(handle)).await;
    let now: Option<EntryMetadata> = now.map_err(|refusal| sftp_root.error("looking at", refusal))?;
    match now {
        Some(now) if listed.same_version(&now) => Ok(()),
        _ if sftp_root.end == MissingMeaning::Source => Err(changed("reading")),
        _ => Err(Error::new(ErrorKind::Conflict, "reading", "it has changed meanwhile")),
    }
}
