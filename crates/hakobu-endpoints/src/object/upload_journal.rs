//! The journal of an upload in parts: what a later run needs to go on with it. It is a file on this machine, because
//! stores do not tell what an unfinished upload is of.
//!
//! The file has lines of fields with a space between them. The last field is the CRC-64 of the line before it, so that
//! a line that was not written whole ends the journal. The first line names the upload; each other line is a part that
//! the store has confirmed.

use std::fs::{File, TryLockError};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hakobu_core::checksum::crc64;
use hakobu_core::digest::{Digest, hex};
use hakobu_core::extent::Extent;
use hakobu_core::{Error, Result};

use super::api::{PartTag, UploadId};

const MAGIC: &str = "hakobu-upload-1";
/// The longest line in bytes. A part of the largest size has a value for each of its 1 280 chunks.
const LINE_BYTES_MAX: u64 = 128 << 10;

/// The subject of a journal. A journal of another subject is of no use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadSubject {
    /// The location of the object, with the store that it is in.
    pub(crate) location: String,
    /// The version of the source.
    pub(crate) version: Digest,
    /// The size of the object in bytes.
    pub(crate) size_bytes: u64,
    /// The size of its parts in bytes.
    pub(crate) part_bytes: u64,
}

/// A part that the store has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JournaledPart {
    /// The part, as the store described it.
    pub(crate) tag: PartTag,
    /// Its range in the object.
    pub(crate) extent: Extent,
    /// The CRC-64/NVME of its content.
    pub(crate) crc64: u64,
    /// The BLAKE3 values of its chunks, if they were computed.
    pub(crate) values: Vec<Digest>,
}

/// The upload that a journal is about.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EarlierUpload {
    /// There is none.
    None,
    /// One that this run cannot go on with. `of_version` is true if only the version of the source is another.
    Other { upload: UploadId, of_version: bool },
    /// One of the same subject, with its parts.
    Same { upload: UploadId, parts: Vec<JournaledPart> },
}

/// An upload that no run is working on.
#[derive(Debug)]
pub(crate) struct AbandonedUpload {
    /// The location of the object, as in [`UploadSubject`].
    pub(crate) location: String,
    pub(crate) upload: UploadId,
    /// Its journal.
    pub(crate) journal: UploadJournal,
}

/// Returns the uploads that journals in a folder tell of, except those that a run is working on.
///
/// # Errors
/// Those of the system, with the path.
pub(crate) fn abandoned_uploads(folder: &Path) -> Result<Vec<AbandonedUpload>> {
    let failed = |error: &std::io::Error| {
        Error::io("reading the journals of uploads", error).at(folder.as_os_str().as_encoded_bytes())
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(&error)),
    };
    let mut uploads = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| failed(&error))?.path();
        // Anything else in there is no journal.
        let Ok(file) = File::options().read(true).write(true).open(&path) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let journal = UploadJournal { file, path, end: 0, has_parts: false };
        let mut lines = lines_of(&journal.file);
        let first = lines.next().map_err(|error| failed(&error))?.and_then(|(_, line)| subject_of(&line));
        drop(lines);
        if let Some((UploadSubject { location, .. }, upload)) = first {
            uploads.push(AbandonedUpload { location, upload, journal });
        }
    }
    Ok(uploads)
}

/// A journal that is open for this run alone.
#[derive(Debug)]
pub(crate) struct UploadJournal {
    file: File,
    path: PathBuf,
    /// The offset at which the next line is written.
    end: u64,
    has_parts: bool,
}

impl UploadJournal {
    /// Opens the journal of an object in `folder`, and returns what an earlier run has written to it. Returns `None` if
    /// another run has it open.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub(crate) fn open(folder: &Path, subject: &UploadSubject) -> Result<Option<(Self, EarlierUpload)>> {
        let path = folder.join(hex(blake3::hash(subject.location.as_bytes()).as_bytes()));
        let failed = |error: &std::io::Error| {
            Error::io("opening the journal of the upload", error).at(path.as_os_str().as_encoded_bytes())
        };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(&path).map_err(|error| failed(&error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(&error)),
        }
        let (earlier, end) = read(&file, subject).map_err(|error| failed(&error))?;
        let has_parts = matches!(&earlier, EarlierUpload::Same { parts, .. } if !parts.is_empty());
        // A line that was not written whole is cut off. One about something else stays until this run has an upload.
        if matches!(earlier, EarlierUpload::Same { .. } | EarlierUpload::None) {
            file.set_len(end).map_err(|error| failed(&error))?;
        }
        Ok(Some((Self { file, path, end, has_parts }, earlier)))
    }

    /// Begins it anew with an upload.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub(crate) fn begin(&mut self, subject: &UploadSubject, upload: &UploadId) -> Result<()> {
        let UploadSubject { location, version, size_bytes, part_bytes } = subject;
        let (location, upload) = (text(location), text(&upload.0));
        (self.has_parts, self.end) = (false, 0);
        self.file.set_len(0).map_err(|error| self.failed(&error))?;
        self.write(format!("{MAGIC} {location} {} {size_bytes} {part_bytes} {upload}", hex(version)))
    }

    /// Adds a part that the store has confirmed.
    ///
    /// # Errors
    /// Those of the system, with the path.
    pub(crate) fn add(&mut self, part: &JournaledPart) -> Result<()> {
        let JournaledPart { tag, extent, crc64, values } = part;
        let mut line =
            format!("part {} {} {} {crc64:x} {}", tag.number, extent.offset, extent.length, text(&tag.etag));
        for value in values {
            line.push(' ');
            line.push_str(&hex(value));
        }
        self.write(line)?;
        self.has_parts = true;
        Ok(())
    }

    /// Returns true if a later run can use it.
    pub(crate) fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// Removes it.
    pub(crate) fn remove(self) {
        // Without it the next run begins anew.
        let _ = std::fs::remove_file(&self.path);
    }

    fn write(&mut self, mut line: String) -> Result<()> {
        let sum = crc64(line.as_bytes());
        line.push_str(&format!(" {sum:016x}\n"));
        self.file.write_all_at(line.as_bytes(), self.end).map_err(|error| self.failed(&error))?;
        self.end += line.len() as u64;
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::io("writing the journal of the upload", error).at(self.path.as_os_str().as_encoded_bytes())
    }
}

impl Drop for UploadJournal {
    /// Releases the lock. Closing the file is not enough: a process that another thread is just starting has a copy of the
    /// descriptor until it executes its program.
    fn drop(&mut self) {
        let _ = self.file.unlock();
    }
}

/// Returns any text as one field.
fn text(text: &str) -> String {
    text.bytes().fold("t".to_owned(), |field, byte| field + &format!("{byte:02x}"))
}

fn text_of(field: &str) -> Option<String> {
    let bytes = field.strip_prefix('t')?.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    String::from_utf8(bytes.map(byte).collect::<Option<_>>()?).ok()
}

fn digest_of(field: &str) -> Option<Digest> {
    Some(*blake3::Hash::from_hex(field).ok()?.as_bytes())
}

/// Reads the journal of a subject. Also returns the offset after the last whole line that is of use.
fn read(file: &File, subject: &UploadSubject) -> std::io::Result<(EarlierUpload, u64)> {
    let mut lines = lines_of(file);
    let Some((mut end, first)) = lines.next()? else { return Ok((EarlierUpload::None, 0)) };
    let Some((found, upload)) = subject_of(&first) else { return Ok((EarlierUpload::None, 0)) };
    if found != *subject {
        let of_version = UploadSubject { version: subject.version, ..found } == *subject;
        return Ok((EarlierUpload::Other { upload, of_version }, 0));
    }
    let mut parts = Vec::new();
    while let Some((bytes, fields)) = lines.next()?
        && let Some(part) = part_of(&fields)
    {
        parts.push(part);
        end += bytes;
    }
    Ok((EarlierUpload::Same { upload, parts }, end))
}

fn lines_of(file: &File) -> JournalLines<FileFromStart<'_>> {
    JournalLines { reader: BufReader::new(FileFromStart { file, offset: 0 }), line: String::new() }
}

/// A file that is read from its beginning, whatever its position.
struct FileFromStart<'a> {
    file: &'a File,
    offset: u64,
}

impl Read for FileFromStart<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let read = self.file.read_at(bytes, self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}

/// The lines of a journal that were written whole.
struct JournalLines<R> {
    reader: BufReader<R>,
    line: String,
}

impl<R: Read> JournalLines<R> {
    /// Returns the length and the fields of the next line, or `None` at the end of those that were written whole.
    fn next(&mut self) -> std::io::Result<Option<(u64, Vec<&str>)>> {
        self.line.clear();
        let read = match (&mut self.reader).take(LINE_BYTES_MAX).read_line(&mut self.line) {
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Ok(None),
            read => read?,
        };
        let is_right = |sum: &str, line: &str| {
            u64::from_str_radix(sum, 16).is_ok_and(|sum| sum == crc64(line.as_bytes()))
        };
        let line = self.line.strip_suffix('\n').and_then(|line| line.rsplit_once(' '));
        let line = line.filter(|(line, sum)| is_right(sum, line));
        Ok(line.map(|(line, _)| (read as u64, line.split(' ').collect())))
    }
}

fn subject_of(fields: &[&str]) -> Option<(UploadSubject, UploadId)> {
    let [MAGIC, location, version, size_bytes, part_bytes, upload] = fields else { return None };
    let subject = UploadSubject {
        location: text_of(location)?,
        version: digest_of(version)?,
        size_bytes: size_bytes.parse().ok()?,
        part_bytes: part_bytes.parse().ok()?,
    };
    Some((subject, UploadId(text_of(upload)?)))
}

fn part_of(fields: &[&str]) -> Option<JournaledPart> {
    let ["part", number, offset, length, crc64, etag, values @ ..] = fields else { return None };
    let extent = Extent { offset: offset.parse().ok()?, length: length.parse().ok()? };
    let crc64 = u64::from_str_radix(crc64, 16).ok()?;
    let tag = PartTag {
        number: number.parse().ok()?,
        size_bytes: extent.length,
        etag: text_of(etag)?,
        crc64: Some(crc64),
    };
    let values = values.iter().map(|value| digest_of(value)).collect::<Option<_>>()?;
    Some(JournaledPart { tag, extent, crc64, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject() -> UploadSubject {
        let location = "http://host:1 s3://bucket/key with\nline".to_owned();
        UploadSubject { location, version: [7; 32], size_bytes: 99, part_bytes: 16 }
    }

    fn part(number: u32) -> JournaledPart {
        let extent = Extent { offset: u64::from(number - 1) * 16, length: 16 };
        let tag =
            PartTag { number, size_bytes: 16, etag: format!("\"e {number}\""), crc64: Some(u64::MAX - 3) };
        JournaledPart { tag, extent, crc64: u64::MAX - 3, values: vec![[number as u8; 32]; 2] }
    }

    fn open(folder: &Path, subject: &UploadSubject) -> (UploadJournal, EarlierUpload) {
        UploadJournal::open(folder, subject).unwrap().expect("nobody else has it open")
    }

    /// Returns the number of parts of an earlier upload of the same subject.
    fn parts(earlier: &EarlierUpload) -> Option<usize> {
        match earlier {
            EarlierUpload::Same { parts, .. } => Some(parts.len()),
            _ => None,
        }
    }

    #[test]
    fn a_later_run_reads_what_was_written_and_adds_to_it() {
        let folder = tempfile::tempdir().unwrap();
        let upload = UploadId("an \u{fc}pload".to_owned());
        let (mut journal, earlier) = open(folder.path(), &subject());
        assert_eq!(earlier, EarlierUpload::None);
        journal.begin(&subject(), &upload).unwrap();
        journal.add(&part(1)).unwrap();
        assert!(UploadJournal::open(folder.path(), &subject()).unwrap().is_none(), "another run has it");
        drop(journal);
        let (mut journal, earlier) = open(folder.path(), &subject());
        assert_eq!(earlier, EarlierUpload::Same { upload, parts: vec![part(1)] });
        journal.add(&part(3)).unwrap();
        drop(journal);
        let (journal, earlier) = open(folder.path(), &subject());
        assert_eq!(parts(&earlier), Some(2));
        assert!(journal.has_parts());
        journal.remove();
        assert_eq!(open(folder.path(), &subject()).1, EarlierUpload::None);
    }

    #[test]
    fn a_journal_of_anything_else_is_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let others = [
            UploadSubject { version: [8; 32], ..subject() },
            UploadSubject { size_bytes: 98, ..subject() },
            UploadSubject { part_bytes: 8, ..subject() },
        ];
        for (other, of_version) in others.into_iter().zip([true, false, false]) {
            let (mut journal, _) = open(folder.path(), &other);
            journal.begin(&other, &UploadId("x".to_owned())).unwrap();
            journal.add(&part(1)).unwrap();
            drop(journal);
            let upload = UploadId("x".to_owned());
            assert_eq!(open(folder.path(), &subject()).1, EarlierUpload::Other { upload, of_version });
        }
    }

    #[test]
    fn whatever_is_in_the_file_only_whole_lines_count() {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = open(folder.path(), &subject());
        journal.begin(&subject(), &UploadId("x".to_owned())).unwrap();
        journal.add(&part(1)).unwrap();
        journal.add(&part(2)).unwrap();
        let path = journal.path.clone();
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        let ends: Vec<usize> =
            whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
        for length in 0..=whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let parts = parts(&open(folder.path(), &subject()).1);
            let lines = ends.iter().filter(|end| **end <= length).count();
            assert_eq!(parts, lines.checked_sub(1), "{length}");
            // An incomplete line is cut off, so that the next line does not continue it.
            let left = std::fs::metadata(&path).unwrap().len() as usize;
            assert_eq!(left, ends.iter().copied().rfind(|end| *end <= length).unwrap_or(0));
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x15;
            std::fs::write(&path, &damaged).unwrap();
            let parts = parts(&open(folder.path(), &subject()).1);
            assert!(parts.unwrap_or(0) < 2, "byte {at}");
        }
    }
}
