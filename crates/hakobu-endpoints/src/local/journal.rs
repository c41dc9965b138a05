//! The journal of a large draft. It records the chunks on stable storage, so that a later run of the same job can
//! resume.
//!
//! A record is written after its data has been flushed, so a lost tail only repeats work. The file consists of a header
//! and records of 64 bytes, each with a CRC-64. Reading ends at the first record that is not intact.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use hakobu_core::checksum::crc64;
use hakobu_core::digest::{CHUNK_LEVEL, Digest, Forest, Subtree};
use hakobu_core::endpoint::EarlierWork;
use hakobu_core::extent::{CHUNK_BYTES, Extent};
use hakobu_core::path::is_draft_name;
use hakobu_core::plant::planted;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fdatasync, fstat, openat, unlinkat};
use rustix::io::Errno;

use super::draft_file::hold;
use super::draft_name::DraftName;
use super::errno::fault;
use super::ownership::is_ours;
use super::positioned::read_at;

const MAGIC: &[u8; 16] = b"hakobu journal 1";
const HEADER_BYTES: usize = 128;
const RECORD_BYTES: usize = 64;
/// The time between flushes, which is the maximum amount of work that is repeated.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum number of ranges that are reported to the engine. Further ranges are copied again.
const RANGES_TOLD_MAX: usize = 4096;
/// The maximum number of chunks with which the engine checks that the source is unchanged.
const SAMPLES_MAX: u64 = 64;
/// The maximum number of chunks checked at the target, where they are not transferred.
pub(crate) const TARGET_SAMPLES_MAX: u64 = 64;

/// The subject of a journal. A journal of the same name is unusable if any field differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournalSubject {
    /// The version of the source.
    pub version: Digest,
    /// The final size of the draft in bytes.
    pub size_bytes: u64,
    /// The identity of the place that is written: that of a disk, or of the draft's inode.
    pub place: Digest,
}

/// Complete chunks by offset, with their values.
pub(crate) type Chunks = BTreeMap<u64, Option<Digest>>;

/// A journal that is being written.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: Arc<OwnedFd>,
    name: DraftName,
    file: Arc<File>,
    waiting: Vec<(Extent, Option<Digest>)>,
    flushed: Instant,
    /// True if the journal contains records that a later run can use.
    used: bool,
}

impl Journal {
    /// Creates an empty journal and replaces any entry of that name.
    pub(crate) fn begin(directory: &Arc<OwnedFd>, name: DraftName, subject: &JournalSubject) -> Result<Self> {
        remove(directory, name);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&**directory, name.as_bytes(), flags, mode)
            .map_err(|errno| fault("making the journal", errno))?;
        hold(&file);
        let mut journal = Self::new(directory, name, file.into());
        journal.append(&header(subject))?;
        Ok(journal)
    }

    /// Resumes the journal of that name, if it has the same subject.
    ///
    /// # Errors
    /// `SourceChanged` if it is about another version of the source.
    pub(crate) fn go_on(
        directory: &Arc<OwnedFd>,
        name: DraftName,
        subject: &JournalSubject,
    ) -> Result<Option<(Self, Chunks)>> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&**directory, name.as_bytes(), flags, Mode::empty()) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::LOOP) => return Ok(None),
            Err(errno) => return Err(fault("opening the journal", errno)),
        };
        if !is_ours(&file) {
            return Ok(None);
        }
        hold(&file);
        let mut file = File::from(file);
        let Some(found) = read(&mut file, subject)? else { return Ok(None) };
        let mut journal = Self::new(directory, name, file);
        // Records behind a torn one would never be read.
        let length = (HEADER_BYTES + found.records * RECORD_BYTES) as u64;
        journal.file.set_len(length).map_err(|error| Error::io("cutting the journal", &error))?;
        std::io::Seek::seek(&mut &*journal.file, std::io::SeekFrom::Start(length))
            .map_err(|error| Error::io("cutting the journal", &error))?;
        journal.used = !found.chunks.is_empty();
        Ok(Some((journal, found.chunks)))
    }

    fn new(directory: &Arc<OwnedFd>, name: DraftName, file: File) -> Self {
        let directory = Arc::clone(directory);
        Self {
            directory,
            name,
            file: Arc::new(file),
            waiting: Vec::new(),
            flushed: Instant::now(),
            used: false,
        }
    }

    /// Adds a range that has been written. From time to time returns the ranges that must be flushed now and then
    /// passed to [`Journal::record`].
    pub(crate) fn wrote(&mut self, extent: Extent, value: Option<Digest>) -> Vec<(Extent, Option<Digest>)> {
        self.waiting.push((extent, value));
        if self.flushed.elapsed() < FLUSH_INTERVAL {
            return Vec::new();
        }
        self.flushed = Instant::now();
        std::mem::take(&mut self.waiting)
    }

    /// Returns the ranges that have been written but not recorded.
    pub(crate) fn take_waiting(&mut self) -> Vec<(Extent, Option<Digest>)> {
        std::mem::take(&mut self.waiting)
    }

    /// Records ranges that are on stable storage.
    pub(crate) fn record(&mut self, flushed: &[(Extent, Option<Digest>)]) -> Result<()> {
        let mut bytes = Vec::with_capacity(flushed.len() * RECORD_BYTES);
        for (extent, value) in flushed {
            bytes.extend_from_slice(&record(*extent, value.as_ref()));
        }
        self.used |= !flushed.is_empty();
        self.append(&bytes)
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        (&*self.file).write_all(bytes).map_err(|error| Error::io("writing the journal", &error))
    }

    /// Returns true if a later run can use the journal.
    pub(crate) fn is_used(&self) -> bool {
        self.used
    }

    /// Returns the file, so that it can be [flushed](flush) while other lanes continue.
    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    /// Removes the journal, because the draft is finished or unusable.
    pub(crate) fn remove(&self) {
        remove(&self.directory, self.name);
    }
}

/// Flushes a journal to stable storage. Without this the kernel writes records up to half a minute later, and after a
/// power failure the work of that time is repeated.
pub(crate) fn flush(journal: &File) {
    // Lost records only repeat work.
    let _ = fdatasync(journal);
}

/// Removes the journal of that name, if there is one.
pub(crate) fn remove(directory: &OwnedFd, name: DraftName) {
    let _ = unlinkat(directory, name.as_bytes(), AtFlags::empty());
}

/// Removes the journals of other names about the same place.
pub(crate) fn remove_others(directory: &OwnedFd, own: DraftName, place: &Digest) {
    let Ok(entries) = Dir::read_from(directory) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if name.to_bytes() != own.as_bytes()
            && place_of(directory.as_fd(), name.to_bytes()).is_some_and(|found| found == *place)
        {
            let _ = unlinkat(directory, name, AtFlags::empty());
        }
    }
}

/// Returns the chunks that an earlier run of the same job has recorded for this place, for any version of the source.
pub(crate) fn left(directory: &OwnedFd, name: DraftName, place: &Digest) -> Option<Chunks> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut file = File::from(openat(directory, name.as_bytes(), flags, Mode::empty()).ok().filter(is_ours)?);
    let mut head = [0; HEADER_BYTES];
    (&file).read_exact(&mut head).ok()?;
    let subject = JournalSubject {
        version: head[16..48].try_into().ok()?,
        size_bytes: u64::from_le_bytes(head[48..56].try_into().ok()?),
        place: *place,
    };
    std::io::Seek::rewind(&mut file).ok()?;
    Some(read(&mut file, &subject).ok()??.chunks)
}

/// Returns the place that a journal is about, if it has the name of a draft and belongs to this user.
pub(crate) fn place_of(directory: BorrowedFd<'_>, name: &[u8]) -> Option<Digest> {
    if !is_draft_name(name) {
        return None;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(directory, name, flags, Mode::empty()).ok().filter(is_ours)?;
    sound_header(&file)?[56..88].try_into().ok()
}

/// Returns true if an open file begins with the header of a journal.
pub(crate) fn has_header(file: &OwnedFd) -> bool {
    sound_header(file).is_some()
}

/// Returns the header if it is intact.
fn sound_header(file: &OwnedFd) -> Option<[u8; HEADER_BYTES]> {
    const SUM: usize = HEADER_BYTES - 8;
    let mut head = [0; HEADER_BYTES];
    let read = read_at(file, 0, &mut head).ok()?;
    let sound = read == HEADER_BYTES && head.starts_with(MAGIC);
    (sound && crc64(&head[..SUM]).to_le_bytes() == head[SUM..]).then_some(head)
}

/// Returns a value that identifies a file for as long as it exists.
pub(crate) fn place_of_file(file: &OwnedFd) -> Result<Digest> {
    let found = fstat(file).map_err(|errno| fault("looking at the file", errno))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update(&found.st_dev.to_le_bytes()).update(&found.st_ino.to_le_bytes());
    Ok(*hasher.finalize().as_bytes())
}

/// Selects up to `samples_max` of the chunks for verification: the first, the last, and some between.
pub(crate) fn samples(chunks: &Chunks, samples_max: u64) -> Vec<(Extent, Digest)> {
    let step = (chunks.len() as u64).div_ceil(samples_max.saturating_sub(1).max(1)).max(1);
    let last = chunks.keys().next_back().copied();
    let sampled = (0u64..)
        .zip(chunks)
        .filter(|(number, (offset, _))| number.is_multiple_of(step) || Some(**offset) == last);
    let extent = |offset| Extent { offset, length: CHUNK_BYTES };
    sampled.filter_map(|(_, (offset, value))| Some((extent(*offset), (*value)?))).collect()
}

/// Returns the progress of an earlier run for the engine.
pub(crate) fn told(size_bytes: u64, chunks: &Chunks) -> EarlierWork {
    let mut begun = EarlierWork::default();
    let mut forest = Forest::new(size_bytes);
    for (&offset, value) in chunks {
        if let Some(last) = begun.done.last_mut().filter(|last| last.end() == offset) {
            last.length += CHUNK_BYTES;
        } else if begun.done.len() < RANGES_TOLD_MAX {
            begun.done.push(Extent { offset, length: CHUNK_BYTES });
        } else {
            break;
        }
        let Some(value) = *value else { continue };
        forest.add_subtree(Subtree { level: CHUNK_LEVEL, position: offset / CHUNK_BYTES, value });
    }
    begun.subtrees = forest.subtrees();
    begun.samples = samples(chunks, SAMPLES_MAX);
    begun
}

struct JournalContent {
    chunks: Chunks,
    records: usize,
}

fn read(file: &mut File, subject: &JournalSubject) -> Result<Option<JournalContent>> {
    // A chunk may have been recorded by several runs, but not by many.
    let limit = HEADER_BYTES as u64 + (subject.size_bytes / CHUNK_BYTES + 1) * 4 * RECORD_BYTES as u64;
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).map_err(|error| Error::io("reading the journal", &error))?;
    let Some((head, records)) = bytes.split_at_checked(HEADER_BYTES) else { return Ok(None) };
    let wanted = header(subject);
    if head != wanted {
        return if is_other_version(head, &wanted) { Err(other_version()) } else { Ok(None) };
    }
    let mut found = JournalContent { chunks: Chunks::new(), records: 0 };
    for bytes in records.chunks_exact(RECORD_BYTES) {
        let Some((extent, value)) = parse(bytes, subject.size_bytes) else { break };
        found.records += 1;
        let whole = extent.length / CHUNK_BYTES;
        for index in 0..whole {
            found.chunks.insert(extent.offset + index * CHUNK_BYTES, value.filter(|_| whole == 1));
        }
    }
    Ok(Some(found))
}

/// Returns true if this is an intact header about the same place and another version of the source.
fn is_other_version(head: &[u8], wanted: &[u8]) -> bool {
    let sum = HEADER_BYTES - 8;
    let sound = head[..16] == *MAGIC && crc64(&head[..sum]).to_le_bytes() == head[sum..];
    sound && head[56..88] == wanted[56..88]
}

fn other_version() -> Error {
    let words = "an earlier run copied part of another version of the source; add --restart to start over";
    Error::new(ErrorKind::SourceChanged, "resuming an earlier run", words)
}

fn header(subject: &JournalSubject) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..16].copy_from_slice(MAGIC);
    bytes[16..48].copy_from_slice(if planted("resume-trusts-source") { &[0; 32] } else { &subject.version });
    bytes[48..56].copy_from_slice(&subject.size_bytes.to_le_bytes());
    bytes[56..88].copy_from_slice(&subject.place);
    let sum = crc64(&bytes[..HEADER_BYTES - 8]);
    bytes[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn record(extent: Extent, value: Option<&Digest>) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    bytes[..8].copy_from_slice(&extent.offset.to_le_bytes());
    bytes[8..16].copy_from_slice(&extent.length.to_le_bytes());
    bytes[16] = 1 + u8::from(value.is_some());
    if let Some(value) = value {
        bytes[24..56].copy_from_slice(value);
    }
    let sum = crc64(&bytes[..56]);
    bytes[56..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn parse(bytes: &[u8], size_bytes: u64) -> Option<(Extent, Option<Digest>)> {
    let number = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let extent = Extent { offset: number(0)?, length: number(8)? };
    let whole = extent.offset.is_multiple_of(CHUNK_BYTES) && extent.length.is_multiple_of(CHUNK_BYTES);
    let fits = extent.offset.checked_add(extent.length).is_some_and(|end| end <= size_bytes);
    if number(56)? != crc64(&bytes[..56]) || !whole || !fits || extent.length == 0 {
        return None;
    }
    match bytes[16] {
        1 => Some((extent, None)),
        2 => Some((extent, Some(bytes[24..56].try_into().ok()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::draft_name::DraftKey;

    fn subject(version: u8) -> JournalSubject {
        JournalSubject { version: [version; 32], size_bytes: 9 * CHUNK_BYTES + 5, place: [7; 32] }
    }

    fn chunk(index: u64) -> Extent {
        Extent { offset: index * CHUNK_BYTES, length: CHUNK_BYTES }
    }

    struct Bench {
        folder: tempfile::TempDir,
        directory: Arc<OwnedFd>,
        name: DraftName,
    }

    impl Bench {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let directory = Arc::new(File::open(folder.path()).unwrap().into());
            Self { folder, directory, name: DraftName::new(&DraftKey::new(&[1; 32]), 0, b"", b"x") }
        }

        fn begin(&self) -> Journal {
            Journal::begin(&self.directory, self.name, &subject(1)).unwrap()
        }

        fn go_on(&self, version: u8) -> Result<Option<(Journal, Chunks)>> {
            Journal::go_on(&self.directory, self.name, &subject(version))
        }

        fn path(&self) -> std::path::PathBuf {
            self.folder.path().join(std::str::from_utf8(self.name.as_bytes()).unwrap())
        }
    }

    #[test]
    fn what_was_recorded_is_found_and_a_torn_tail_is_not() {
        let bench = Bench::new();
        let mut journal = bench.begin();
        journal.record(&[(chunk(0), Some([1; 32])), (chunk(1), Some([2; 32])), (chunk(4), None)]).unwrap();
        drop(journal);
        let whole = std::fs::read(bench.path()).unwrap();
        for cut in [1, 63] {
            std::fs::write(bench.path(), &whole[..whole.len() - cut]).unwrap();
            let (mut journal, chunks) = bench.go_on(1).unwrap().unwrap();
            assert_eq!(chunks.keys().copied().collect::<Vec<_>>(), [0, CHUNK_BYTES]);
            journal.record(&[(chunk(6), Some([3; 32]))]).unwrap();
            let (_, chunks) = bench.go_on(1).unwrap().unwrap();
            assert_eq!(chunks.len(), 3);
        }
        let begun = told(subject(1).size_bytes, &bench.go_on(1).unwrap().unwrap().1);
        assert_eq!(begun.done, [Extent { offset: 0, length: 2 * CHUNK_BYTES }, chunk(6)]);
        assert_eq!((begun.subtrees.len(), begun.samples.len()), (2, 3));
    }

    #[test]
    fn samples_are_few_and_reach_from_the_first_to_the_last() {
        for count in [0, 1, 2, 15, 16, 17, 31, 100, 1000] {
            let chunks: Chunks = (0..count).map(|index| (index * 3 * CHUNK_BYTES, Some([1; 32]))).collect();
            let offsets: Vec<_> = samples(&chunks, 16).iter().map(|(extent, _)| extent.offset).collect();
            assert!(offsets.len() as u64 <= count.min(16) && offsets.len() as u64 >= count.min(9), "{count}");
            let (first, last) = (chunks.keys().next(), chunks.keys().next_back());
            assert_eq!((offsets.first(), offsets.last()), (first, last), "{count}");
        }
    }

    #[test]
    fn another_version_of_the_source_is_told_apart_from_rubbish() {
        let bench = Bench::new();
        assert!(bench.go_on(1).unwrap().is_none());
        drop(bench.begin());
        assert_eq!(bench.go_on(2).unwrap_err().kind, ErrorKind::SourceChanged);
        let mut bytes = std::fs::read(bench.path()).unwrap();
        bytes[20] ^= 1;
        std::fs::write(bench.path(), &bytes).unwrap();
        assert!(bench.go_on(1).unwrap().is_none());
    }

    #[test]
    fn a_file_that_others_could_write_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let bench = Bench::new();
        drop(bench.begin());
        std::fs::set_permissions(bench.path(), std::fs::Permissions::from_mode(0o620)).unwrap();
        assert!(bench.go_on(1).unwrap().is_none());
    }

    #[test]
    fn records_that_cannot_be_are_the_end() {
        let size = subject(1).size_bytes;
        assert!(parse(&record(chunk(8), None), size).is_some());
        for (offset, length) in [(9 * CHUNK_BYTES, CHUNK_BYTES), (1, CHUNK_BYTES), (0, 0), (u64::MAX - 5, 6)]
        {
            assert!(parse(&record(Extent { offset, length }, None), size).is_none());
        }
    }
}
