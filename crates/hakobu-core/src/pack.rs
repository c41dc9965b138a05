//! Many small files transferred as a unit: records of attributes, name and content, one after another.
//!
//! The source reads each file directly into the pack, and the target writes each file directly from it. A directory
//! record sets the directory of the records that follow it.

use crate::content::ContentSum;
use crate::entry::{Attributes, EntryKind, FileTime};
use crate::error::{Error, ErrorKind, Result};
use crate::extended::{EXTENDED_BYTES_MAX, ExtendedRef};
use crate::path::{EntryPath, PATH_BYTES_MAX, check_name};

/// The maximum size of a file that is sent in a pack; larger ones are sent in pieces.
pub const PACKED_FILE_BYTES_MAX: u64 = 256 * 1024;
/// The size from which a pack is closed.
pub const PACK_BYTES_TARGET: usize = 512 * 1024;
/// The maximum size of a pack, unless a single entry with very large extended attributes exceeds it.
pub const PACK_BYTES_USUAL: usize = 1024 * 1024;
/// The absolute maximum size of a pack: the limit of a frame's payload.
pub const PACK_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The maximum number of records in one pack.
pub const PACK_RECORDS_MAX: u32 = 1024;

const TAG_DIRECTORY: u8 = 1;
const TAG_FILE: u8 = 2;
const TAG_SYMLINK: u8 = 3;
const TAG_SPECIAL: u8 = 4;
const FLAG_REPLACES: u8 = 1;
/// The file has holes: blocks of zeros need not be written.
const FLAG_SPARSE: u8 = 2;
/// A length (4 bytes) and extended attributes follow the name.
const FLAG_EXTENDED: u8 = 4;
// Any single entry must fit into a pack of its own.
const _: () = assert!(
    EXTENDED_BYTES_MAX + PACKED_FILE_BYTES_MAX as usize + 2 * PATH_BYTES_MAX + 64 <= PACK_BYTES_MAX,
    "a pack has room for one entry"
);
/// The size of tag, flags, name length (2), mode, uid, gid, seconds (8), nanoseconds and content length.
const ENTRY_HEADER_BYTES: usize = 32;
/// The size of the checksum in front of a file's content.
const SUM_BYTES: usize = 8;
/// The size of what replaces the content for a named pipe or device node: kind and device number (4).
const SPECIAL_BYTES: usize = 5;

/// One record of a pack.
#[derive(Debug, PartialEq, Eq)]
pub enum PackRecord<'a> {
    /// Sets the directory of the following records, below the target's root. It is created if it is missing.
    Directory {
        /// The path, checked when it is decoded.
        path: EntryPath,
    },
    /// An entry of the current directory.
    Entry(RecordHead<'a>, PackContent<'a>),
}

/// The fields that all entries of a pack have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead<'a> {
    /// The name in the current directory.
    pub name: &'a [u8],
    /// The attributes to set on it.
    pub attributes: Attributes,
    /// True if the target already has an entry of this name.
    pub replaces: bool,
    /// True if it has holes, so that blocks of zeros need not be written.
    pub sparse: bool,
    /// The extended attributes to set; if `None`, they are not touched.
    pub extended: Option<ExtendedRef<'a>>,
}

impl<'a> RecordHead<'a> {
    /// Describes a new entry without holes that does not set extended attributes.
    pub fn new(name: &'a [u8], attributes: Attributes) -> Self {
        Self { name, attributes, replaces: false, sparse: false, extended: None }
    }

    /// Sets whether the target already has an entry of this name.
    #[must_use]
    pub fn replacing(mut self, replaces: bool) -> Self {
        self.replaces = replaces;
        self
    }
}

/// The type and content of an entry in a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackContent<'a> {
    /// A regular file.
    File(FileContent<'a>),
    /// A symbolic link with its text, arbitrary bytes.
    Symlink(&'a [u8]),
    /// A named pipe or a device node: its kind, and the device number as in
    /// [`Metadata::device`](crate::entry::EntryMetadata).
    Special(EntryKind, u32),
}

/// The whole content of a regular file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileContent<'a> {
    /// The bytes.
    pub bytes: &'a [u8],
    /// The checksum taken while they were read ([`ContentSum`](crate::content::ContentSum)).
    pub sum: u64,
}

impl FileContent<'_> {
    /// Compares the checksum with that of what was written.
    ///
    /// # Errors
    /// `Corrupt` if they differ.
    pub fn check(&self, written: ContentSum) -> Result<()> {
        if written.value(self.bytes.len() as u64) == Some(self.sum) {
            return Ok(());
        }
        let words = "the written data is not what was read, or is at another offset; run the same command again, \
            and if it happens again, check the memory of both machines";
        Err(Error::new(ErrorKind::Corrupt, "writing", words))
    }
}

fn is_link_text(text: &[u8]) -> bool {
    !text.is_empty() && text.len() <= PATH_BYTES_MAX && !text.contains(&0)
}

/// Checks the text of a symbolic link that does not come from a file system of this machine.
///
/// # Errors
/// `Unsupported` for a text that no symbolic link can have.
pub fn check_link_text(text: &[u8]) -> Result<()> {
    if is_link_text(text) {
        return Ok(());
    }
    let words = format!(
        "a link with a text that none can have: empty, above {PATH_BYTES_MAX} bytes, or with a NUL byte in it"
    );
    Err(Error::new(ErrorKind::Unsupported, "reading the link", words))
}

/// A pack that is being filled. Its buffer is reused for the next pack.
#[derive(Debug, Default)]
pub struct PackBuilder {
    /// The buffer. Bytes after `end` are left over from earlier packs: clearing them for each file would take a
    /// noticeable part of the copying time.
    bytes: Vec<u8>,
    /// The size of the pack in bytes.
    end: usize,
    records: u32,
}

impl PackBuilder {
    /// Creates a builder that reuses a buffer; its content is ignored.
    pub fn new(buffer: Vec<u8>) -> Self {
        Self { bytes: buffer, end: 0, records: 0 }
    }

    fn put(&mut self, bytes: &[u8]) {
        let end = self.end + bytes.len();
        if let Some(room) = self.bytes.get_mut(self.end..end) {
            room.copy_from_slice(bytes);
        } else {
            self.bytes.truncate(self.end);
            self.bytes.extend_from_slice(bytes);
        }
        self.end = end;
    }

    /// Adds a directory record for the records that follow.
    pub fn directory(&mut self, path: &EntryPath) {
        self.put(&[TAG_DIRECTORY]);
        self.put(&(path.as_bytes().len() as u16).to_le_bytes());
        self.put(path.as_bytes());
    }

    /// Adds a file of `size` bytes. `read` puts the content at the beginning of the given space, which may contain
    /// arbitrary bytes and has one byte more, so that the same read detects a file that is longer. `read` returns the
    /// checksum of the content ([`ContentSum`](crate::content::ContentSum)), or `None` if the file is not to be added.
    /// Returns true if it was added; otherwise the pack is unchanged.
    ///
    /// # Errors
    /// Those of `read`.
    pub fn file<E>(
        &mut self,
        head: &RecordHead<'_>,
        size: usize,
        read: impl FnOnce(&mut [u8]) -> Result<Option<u64>, E>,
    ) -> Result<bool, E> {
        let begin = self.end;
        self.header(TAG_FILE, head, size);
        let sum = self.end;
        let content = sum + SUM_BYTES;
        let room = content + size + 1;
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let result = read(&mut self.bytes[content..room]);
        if let Ok(Some(value)) = result {
            self.bytes[sum..content].copy_from_slice(&value.to_le_bytes());
            self.end = content + size;
            self.records += 1;
        } else {
            self.end = begin;
        }
        result.map(|value| value.is_some())
    }

    /// Adds a file whose whole content is given, with its checksum.
    pub fn whole_file(&mut self, head: &RecordHead<'_>, content: &[u8], sum: u64) {
        self.header(TAG_FILE, head, content.len());
        self.put(&sum.to_le_bytes());
        self.put(content);
        self.records += 1;
    }

    /// Adds a symbolic link.
    pub fn symlink(&mut self, head: &RecordHead<'_>, text: &[u8]) {
        self.header(TAG_SYMLINK, head, text.len());
        self.put(text);
        self.records += 1;
    }

    /// Adds a named pipe or a device node.
    pub fn special(&mut self, head: &RecordHead<'_>, kind: EntryKind, device: u32) {
        self.header(TAG_SPECIAL, head, SPECIAL_BYTES);
        self.put(&[kind as u8]);
        self.put(&device.to_le_bytes());
        self.records += 1;
    }

    fn header(&mut self, tag: u8, head: &RecordHead<'_>, size: usize) {
        let RecordHead { name, attributes, replaces, sparse, extended } = head;
        let mut header = [0; ENTRY_HEADER_BYTES];
        header[0] = tag;
        header[1] = u8::from(*replaces) * FLAG_REPLACES
            + u8::from(*sparse) * FLAG_SPARSE
            + u8::from(extended.is_some()) * FLAG_EXTENDED;
        header[2..4].copy_from_slice(&(name.len() as u16).to_le_bytes());
        header[4..8].copy_from_slice(&attributes.mode.to_le_bytes());
        header[8..12].copy_from_slice(&attributes.uid.to_le_bytes());
        header[12..16].copy_from_slice(&attributes.gid.to_le_bytes());
        header[16..24].copy_from_slice(&attributes.mtime.seconds.to_le_bytes());
        header[24..28].copy_from_slice(&attributes.mtime.nanoseconds.to_le_bytes());
        header[28..32].copy_from_slice(&(size as u32).to_le_bytes());
        self.put(&header);
        self.put(name);
        if let Some(extended) = extended {
            self.put(&(extended.as_bytes().len() as u32).to_le_bytes());
            self.put(extended.as_bytes());
        }
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.end
    }

    /// Returns the number of entries (files, symbolic links and special files).
    pub fn records(&self) -> u32 {
        self.records
    }

    /// Returns the finished pack.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.truncate(self.end);
        self.bytes
    }
}

/// Reads the records of a pack that came from a peer.
#[derive(Debug)]
pub struct PackReader<'a> {
    rest: &'a [u8],
    records: u32,
}

impl<'a> PackReader<'a> {
    /// Creates a reader for a whole pack.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, records: 0 }
    }

    /// Returns the next record, or `None` after the last one.
    ///
    /// # Errors
    /// `Protocol` if the bytes are not a valid pack, or if a name or path could leave the root.
    pub fn read(&mut self) -> Result<Option<PackRecord<'a>>> {
        let Some(&tag) = self.rest.first() else { return Ok(None) };
        match tag {
            TAG_DIRECTORY => self.directory().map(Some),
            TAG_FILE | TAG_SYMLINK | TAG_SPECIAL => {
                self.records += 1;
                if self.records > PACK_RECORDS_MAX {
                    return Err(malformed("too many records"));
                }
                self.entry(tag).map(Some)
            }
            _ => Err(malformed("an unknown record")),
        }
    }

    fn directory(&mut self) -> Result<PackRecord<'a>> {
        let header = self.take(3)?;
        let length = u16::from_le_bytes([header[1], header[2]]) as usize;
        if length > PATH_BYTES_MAX {
            return Err(malformed("a path that is too long"));
        }
        let path = EntryPath::new(self.take(length)?)?;
        Ok(PackRecord::Directory { path })
    }

    fn entry(&mut self, tag: u8) -> Result<PackRecord<'a>> {
        let header = self.take(ENTRY_HEADER_BYTES)?;
        let u32_at =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let mut seconds = [0; 8];
        seconds.copy_from_slice(&header[16..24]);
        let mtime = FileTime { seconds: i64::from_le_bytes(seconds), nanoseconds: u32_at(24) };
        if mtime.nanoseconds > 999_999_999 {
            return Err(malformed("a time with too many nanoseconds"));
        }
        let attributes = Attributes { mode: u32_at(4) & 0o7777, uid: u32_at(8), gid: u32_at(12), mtime };
        let flags = header[1];
        let name = self.take(u16::from_le_bytes([header[2], header[3]]) as usize)?;
        check_name(name)?;
        let extended = if flags & FLAG_EXTENDED != 0 { Some(self.extended()?) } else { None };
        let (replaces, sparse) = (flags & FLAG_REPLACES != 0, flags & FLAG_SPARSE != 0);
        let head = RecordHead { name, attributes, replaces, sparse, extended };
        if tag == TAG_FILE {
            let mut sum = [0; SUM_BYTES];
            sum.copy_from_slice(self.take(SUM_BYTES)?);
            let bytes = self.take(u32_at(28) as usize)?;
            return Ok(PackRecord::Entry(
                head,
                PackContent::File(FileContent { bytes, sum: u64::from_le_bytes(sum) }),
            ));
        }
        let content = self.take(u32_at(28) as usize)?;
        if tag == TAG_SYMLINK {
            if !is_link_text(content) {
                return Err(malformed("a link whose text cannot be one"));
            }
            return Ok(PackRecord::Entry(head, PackContent::Symlink(content)));
        }
        let (kind, device) = special(content)?;
        Ok(PackRecord::Entry(head, PackContent::Special(kind, device)))
    }

    fn extended(&mut self) -> Result<ExtendedRef<'a>> {
        let mut length = [0; 4];
        length.copy_from_slice(self.take(4)?);
        ExtendedRef::decode(self.take(u32::from_le_bytes(length) as usize)?)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        if length > self.rest.len() {
            return Err(malformed("a record that ends early"));
        }
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        Ok(head)
    }
}

/// Returns a pack without some of its entries, given by their indices in order.
///
/// # Errors
/// `Protocol` if the bytes are not a valid pack.
pub fn without_entries(pack: &[u8], removed: &[u32]) -> Result<Vec<u8>> {
    let (mut reader, mut rest) = (PackReader::new(pack), PackBuilder::new(Vec::with_capacity(pack.len())));
    let (mut index, mut removed) = (0, removed.iter().peekable());
    while let Some(record) = reader.read()? {
        let (head, content) = match record {
            PackRecord::Directory { path } => {
                rest.directory(&path);
                continue;
            }
            PackRecord::Entry(head, content) => (head, content),
        };
        let is_removed = removed.next_if_eq(&&index).is_some();
        index += 1;
        match content {
            _ if is_removed => {}
            PackContent::File(file) => rest.whole_file(&head, file.bytes, file.sum),
            PackContent::Symlink(text) => rest.symlink(&head, text),
            PackContent::Special(kind, device) => rest.special(&head, kind, device),
        }
    }
    Ok(rest.finish())
}

fn special(content: &[u8]) -> Result<(EntryKind, u32)> {
    let [kind, device @ ..] = <[u8; SPECIAL_BYTES]>::try_from(content)
        .map_err(|_| malformed("a special file of a wrong length"))?;
    let kind = EntryKind::from_number(kind)
        .filter(|kind| matches!(kind, EntryKind::Fifo | EntryKind::BlockDevice | EntryKind::CharDevice))
        .ok_or_else(|| malformed("a special file of an unknown kind"))?;
    let device = u32::from_le_bytes(device);
    if kind == EntryKind::Fifo && device != 0 {
        return Err(malformed("a named pipe with the number of a device"));
    }
    Ok((kind, device))
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading a pack", what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::content::content_sum;
    use crate::extended::{Classes, Extended};

    fn attributes() -> Attributes {
        Attributes { mode: 0o4640, uid: 7, gid: 8, mtime: FileTime { seconds: -1, nanoseconds: 5 } }
    }

    #[test]
    fn entries_are_taken_out_and_the_others_stay_as_they_are() {
        let extended = Extended::new(Classes::USER, &mut [(b"user.a".to_vec(), b"b".to_vec())]).unwrap();
        let with = |names: &[&str]| {
            let mut pack = PackBuilder::default();
            for (index, name) in ["f", "l", "p", "g"].into_iter().enumerate() {
                if index % 2 == 0 {
                    pack.directory(&EntryPath::new(format!("d{index}")).unwrap());
                }
                let head = RecordHead::new(name.as_bytes(), attributes()).replacing(index > 1);
                let head = RecordHead { sparse: index == 3, extended: Some(extended.as_ref()), ..head };
                match name {
                    _ if !names.contains(&name) => {}
                    "l" => pack.symlink(&head, b"text"),
                    "p" => pack.special(&head, EntryKind::Fifo, 0),
                    name => pack.whole_file(&head, name.as_bytes(), content_sum(name.as_bytes())),
                }
            }
            pack.finish()
        };
        let all = with(&["f", "l", "p", "g"]);
        for (removed, left) in [
            (&[][..], &["f", "l", "p", "g"][..]),
            (&[0], &["l", "p", "g"]),
            (&[1, 2], &["f", "g"]),
            (&[3], &["f", "l", "p"]),
            (&[0, 1, 2, 3], &[]),
        ] {
            assert_eq!(without_entries(&all, removed).unwrap(), with(left), "{removed:?}");
        }
        assert!(without_entries(&all[..all.len() - 1], &[0]).is_err());
    }

    #[test]
    fn records_come_back_as_they_went_in() {
        let mut pack = PackBuilder::new(vec![1, 2, 3]);
        let path = EntryPath::new("a/b").unwrap();
        pack.directory(&path);
        let extended = Extended::new(Classes::USER, &mut [(b"user.a".to_vec(), b"b".to_vec())]).unwrap();
        let head = |name: &'static [u8]| RecordHead::new(name, attributes());
        let file =
            RecordHead { sparse: true, extended: Some(extended.as_ref()), ..head(b"f").replacing(true) };
        let read = pack.file(&file, 3, |space| {
            assert_eq!(space.len(), 4, "there is room to find a longer file");
            space.copy_from_slice(b"xyz!");
            Ok::<_, ()>(Some(7))
        });
        assert_eq!(read, Ok(true));
        assert_eq!(pack.file(&head(b"bad"), 9, |_| Err(5)), Err(5));
        assert_eq!(pack.file(&head(b"short"), 9, |_| Ok::<_, ()>(None)), Ok(false));
        pack.whole_file(&head(b"w"), b"", 8);
        pack.symlink(&head(b"l"), b"../x");
        pack.special(&head(b"p"), EntryKind::Fifo, 0);
        pack.special(&head(b"d").replacing(true), EntryKind::BlockDevice, 0x0080_0001);
        assert_eq!(pack.records(), 5);
        let bytes = pack.finish();
        let mut reader = PackReader::new(&bytes);
        assert_eq!(reader.read().unwrap(), Some(PackRecord::Directory { path }));
        for (head, content) in [
            (file, PackContent::File(FileContent { bytes: b"xyz", sum: 7 })),
            (head(b"w"), PackContent::File(FileContent { bytes: b"", sum: 8 })),
            (head(b"l"), PackContent::Symlink(b"../x")),
            (head(b"p"), PackContent::Special(EntryKind::Fifo, 0)),
            (head(b"d").replacing(true), PackContent::Special(EntryKind::BlockDevice, 0x0080_0001)),
        ] {
            assert_eq!(reader.read().unwrap(), Some(PackRecord::Entry(head, content)));
        }
        assert_eq!(reader.read().unwrap(), None);
    }

    #[test]
    fn what_was_written_otherwise_than_it_was_read_is_found() {
        let content = FileContent { bytes: b"abcd", sum: content_sum(b"abcd") };
        let check = |ranges: &[(u64, &[u8])]| {
            let mut written = ContentSum::default();
            ranges.iter().for_each(|(offset, bytes)| written.add(*offset, bytes));
            content.check(written).map_err(|error| error.kind)
        };
        assert_eq!(check(&[(0, b"ab"), (2, b"cd")]), Ok(()));
        for wrong in
            [&[(0, &b"ab"[..])][..], &[(2, b"cd")], &[(1, b"abcd")], &[(0, b"ab"), (0, b"abcd")], &[]]
        {
            assert_eq!(check(wrong), Err(ErrorKind::Corrupt), "{wrong:?}");
        }
    }

    #[test]
    fn names_and_paths_that_leave_the_root_are_refused() {
        let mut pack = PackBuilder::default();
        pack.symlink(&RecordHead::new(b"..", attributes()), b"x");
        assert!(PackReader::new(&pack.finish()).read().is_err());
        let hostile = [&[TAG_DIRECTORY, 4, 0][..], b"a/.."].concat();
        assert!(PackReader::new(&hostile).read().is_err());
    }

    /// The limits are in docs/PROTOCOL.md, and the peer may be of another version.
    #[test]
    fn the_limits_are_those_of_the_wire() {
        assert_eq!((PACKED_FILE_BYTES_MAX, PACK_BYTES_MAX, PACK_RECORDS_MAX), (262_144, 4_194_304, 1024));
        assert_eq!((PACK_BYTES_TARGET, PACK_BYTES_USUAL), (PACK_BYTES_MAX / 8, PACK_BYTES_MAX / 4));
    }

    #[test]
    fn a_builder_knows_how_much_is_in_it() {
        let mut pack = PackBuilder::new(vec![9; 500]);
        assert_eq!((pack.bytes(), pack.records()), (0, 0));
        pack.directory(&EntryPath::new("ab").unwrap());
        assert_eq!((pack.bytes(), pack.records()), (5, 0));
        let head = RecordHead::new(b"f", attributes());
        let mut offered = 0;
        let read = pack.file(&head, 7, |space| {
            offered = space.len();
            Ok::<_, ()>(Some(1))
        });
        assert_eq!((read, offered), (Ok(true), 8));
        let with_file = 5 + ENTRY_HEADER_BYTES + 1 + SUM_BYTES + 7;
        assert_eq!((pack.bytes(), pack.records()), (with_file, 1));
        pack.special(&head, EntryKind::Fifo, 0);
        pack.whole_file(&head, b"w", 1);
        pack.symlink(&head, b"x");
        assert_eq!(pack.records(), 4);
        assert_eq!(pack.bytes(), pack.finish().len());
    }

    #[test]
    fn a_pack_with_more_records_than_the_limit_is_refused() {
        let mut pack = PackBuilder::default();
        for _ in 0..=PACK_RECORDS_MAX {
            pack.symlink(&RecordHead::new(b"l", attributes()), b"x");
        }
        let bytes = pack.finish();
        let mut reader = PackReader::new(&bytes);
        for index in 0..PACK_RECORDS_MAX {
            assert!(matches!(reader.read(), Ok(Some(_))), "{index}");
        }
        assert_eq!(reader.read().map_err(|error| error.kind), Err(ErrorKind::Protocol));
    }

    #[test]
    fn a_path_may_be_as_long_as_the_system_allows_and_no_longer() {
        let longest = [b"a/".repeat(PATH_BYTES_MAX / 2), b"a".to_vec()].concat();
        for (path, possible) in [(longest.clone(), true), ([longest, b"a".to_vec()].concat(), false)] {
            let length = (path.len() as u16).to_le_bytes();
            let bytes = [&[TAG_DIRECTORY][..], &length, &path].concat();
            assert_eq!(PackReader::new(&bytes).read().is_ok(), possible, "{}", path.len());
        }
    }

    #[test]
    fn links_to_what_cannot_be_a_path_are_refused() {
        let longest = vec![b'a'; PATH_BYTES_MAX];
        let longer = vec![b'a'; PATH_BYTES_MAX + 1];
        for (text, possible) in
            [(&longest[..], true), (b"a", true), (&longer, false), (b"", false), (b"a\0b", false)]
        {
            let mut pack = PackBuilder::default();
            pack.symlink(&RecordHead::new(b"l", attributes()), text);
            assert_eq!(PackReader::new(&pack.finish()).read().is_ok(), possible, "{} bytes", text.len());
        }
    }

    #[test]
    fn a_second_has_no_more_nanoseconds_than_there_are() {
        for (nanoseconds, possible) in [(999_999_999, true), (1_000_000_000, false)] {
            let mut pack = PackBuilder::default();
            let mtime = FileTime { seconds: 1, nanoseconds };
            pack.whole_file(&RecordHead::new(b"f", Attributes { mtime, ..attributes() }), b"", 0);
            assert_eq!(PackReader::new(&pack.finish()).read().is_ok(), possible, "{nanoseconds}");
        }
    }

    /// Bits other than permissions must not reach the system, regardless of the sender.
    #[test]
    fn a_mode_is_permissions_only() {
        let mut pack = PackBuilder::default();
        pack.symlink(&RecordHead::new(b"l", Attributes { mode: 0o104_640, ..attributes() }), b"x");
        let bytes = pack.finish();
        let Ok(Some(PackRecord::Entry(head, _))) = PackReader::new(&bytes).read() else { panic!("no entry") };
        assert_eq!(head.attributes, attributes());
    }

    #[test]
    fn special_files_that_are_none_are_refused() {
        for (kind, device) in
            [(EntryKind::Fifo, 1), (EntryKind::Socket, 0), (EntryKind::File, 0), (EntryKind::Directory, 0)]
        {
            let mut pack = PackBuilder::default();
            pack.special(&RecordHead::new(b"x", attributes()), kind, device);
            assert!(PackReader::new(&pack.finish()).read().is_err(), "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), tag in 1u8..5) {
            let mut bytes = bytes;
            if let Some(first) = bytes.first_mut() { *first = tag; }
            let mut reader = PackReader::new(&bytes);
            while let Ok(Some(_)) = reader.read() {}
        }
    }
}
