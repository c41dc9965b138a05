//! The complete entries of one directory, in a fixed order, without an allocation per entry.

use std::cmp::Ordering;

use crate::entry::{EntryKind, EntryMetadata, FileTime, Inode};
use crate::entry_order::order;
use crate::error::{Error, ErrorKind, Result};
use crate::event::Failure;
use crate::extended::Classes;
use crate::path::{EntryPath, NAME_BYTES_MAX, check_name};

/// The maximum number of entries in one directory.
pub const ENTRIES_MAX: usize = 32 << 20;
/// The size of an encoded record without its name and optional fields, in bytes.
const RECORD_BYTES: usize = 46;
/// The maximum size of an encoded record with its name, in bytes.
pub const RECORD_BYTES_MAX: usize = RECORD_BYTES + 20 + 4 + 8 + NAME_BYTES_MAX;

const FLAG_SPARSE: u8 = 1;
const FLAG_MOUNT_POINT: u8 = 2;
const FLAG_LOCKED: u8 = 4;
/// The number of names (4) and an inode (8 and 8) follow: the entry has other names as well.
const FLAG_LINKED: u8 = 8;
/// The number of a device node (4) follows.
const FLAG_DEVICE: u8 = 16;
/// The hash of the extended attributes (8) follows.
const FLAG_EXTENDED: u8 = 32;
/// The content may be missing, see [`EntryMetadata::doubted`].
const FLAG_DOUBTED: u8 = 64;
const FLAGS: u8 = 127;

/// The level of detail of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// True to get only names and kinds, for what is to be removed. Everything else is as in [`EntryMetadata::new`].
    pub kinds_only: bool,
    /// The extended attributes that [`EntryMetadata::extended`] covers.
    pub extended: Classes,
    /// The extended attributes that [`EntryMetadata::missed`] covers. For sources only, so it is never sent over the wire.
    pub missed: Classes,
    /// True to look whether extended attributes are there even if their hash is known without. For sources only, so it is
    /// never sent over the wire: targets always look.
    pub proven: bool,
}

/// The listing of one directory, or an error.
#[derive(Clone, Debug)]
pub struct DirectoryListing {
    /// The path of the directory below the root.
    pub path: EntryPath,
    /// The complete entries, or the error.
    pub result: Result<Listing>,
}

/// The entries of one directory, ordered bytewise with directories as `name/`.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    names: Vec<u8>,
    records: Vec<ListingRecord>,
    /// The number of hakobu's drafts in the directory, which are not entries. Not sent over the wire.
    drafts: u32,
    /// Objects whose names no entry can have. Not sent over the wire.
    refused: Vec<Failure>,
    /// True if the entries were asked for by themselves. Not sent over the wire.
    exact: bool,
}

#[derive(Clone, Copy, Debug)]
struct ListingRecord {
    name_begin: u32,
    name_bytes: u16,
    metadata: EntryMetadata,
}

impl Listing {
    /// Creates a listing with capacity for some entries.
    pub fn with_capacity(entries: usize) -> Self {
        let (names, records) = (Vec::with_capacity(entries * 16), Vec::with_capacity(entries));
        Self { names, records, ..Self::default() }
    }

    /// Adds to the number of drafts that were found and not listed.
    pub fn count_drafts(&mut self, drafts: usize) {
        self.drafts = self.drafts.saturating_add(u32::try_from(drafts).unwrap_or(u32::MAX));
    }

    /// Returns the number of drafts that were found and not listed.
    pub fn drafts(&self) -> u64 {
        self.drafts.into()
    }

    /// Records that each entry was asked for by itself, so that it has all attributes, whatever listings show.
    pub fn mark_exact(&mut self) {
        self.exact = true;
    }

    /// Returns true if the entries have all attributes, whatever listings show.
    pub fn is_exact(&self) -> bool {
        self.exact
    }

    /// Records an object whose name no entry can have, such as a key `a//b` of an object store.
    pub fn refuse(&mut self, failure: Failure) {
        self.refused.push(failure);
    }

    /// Returns the objects whose names no entry can have, each with its error.
    pub fn refused(&self) -> &[Failure] {
        &self.refused
    }

    /// Adds an entry. After the last one, [`Listing::sort`] establishes the order.
    ///
    /// # Errors
    /// `Protocol` if the name cannot be the name of an entry, `Unsupported` if there are too many entries.
    pub fn push(&mut self, name: &[u8], metadata: EntryMetadata) -> Result<()> {
        check_name(name)?;
        if self.records.len() >= ENTRIES_MAX || self.names.len() > u32::MAX as usize - name.len() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "listing",
                "more than 32 million entries in one directory",
            ));
        }
        let name_begin = self.names.len() as u32;
        self.names.extend_from_slice(name);
        self.records.push(ListingRecord { name_begin, name_bytes: name.len() as u16, metadata });
        Ok(())
    }

    /// Removes the entries with these indices, which must be ascending.
    pub fn remove(&mut self, indices: &[usize]) {
        let (mut index, mut next) = (0, indices.iter().peekable());
        self.records.retain(|_| {
            let removed = next.next_if_eq(&&index).is_some();
            index += 1;
            !removed
        });
    }

    /// Sorts the entries into the fixed order. Keeps one of those with one name, which some file systems list twice.
    pub fn sort(&mut self) {
        self.sort_by(order);
    }

    /// Sorts the entries by their names and kinds, like [`Listing::sort`].
    pub fn sort_by(&mut self, compare: impl Fn((&[u8], EntryKind), (&[u8], EntryKind)) -> Ordering) {
        let names = &self.names;
        let name =
            |record: &ListingRecord| &names[record.name_begin as usize..][..record.name_bytes as usize];
        self.records.sort_unstable_by(|a, b| compare((name(a), a.metadata.kind), (name(b), b.metadata.kind)));
        let is_directory = |record: &ListingRecord| record.metadata.kind == EntryKind::Directory;
        self.records.dedup_by(|a, b| name(a) == name(b) && is_directory(a) == is_directory(b));
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns true if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the name of entry number `index`.
    pub fn name(&self, index: usize) -> &[u8] {
        let record = &self.records[index];
        &self.names[record.name_begin as usize..][..record.name_bytes as usize]
    }

    /// Returns the metadata of entry number `index`.
    pub fn metadata(&self, index: usize) -> &EntryMetadata {
        &self.records[index].metadata
    }

    /// Returns the metadata of all entries for changes that do not affect the order.
    pub fn all_metadata_mut(&mut self) -> impl Iterator<Item = &mut EntryMetadata> {
        self.records.iter_mut().map(|record| &mut record.metadata)
    }

    /// Returns the metadata of entry number `index` for changes that do not affect the order.
    pub fn metadata_mut(&mut self, index: usize) -> Option<&mut EntryMetadata> {
        self.records.get_mut(index).map(|record| &mut record.metadata)
    }

    /// Finds an entry by its name and by whether it is a directory.
    pub fn find(&self, name: &[u8], directory: bool) -> Option<usize> {
        let kind = if directory { EntryKind::Directory } else { EntryKind::File };
        self.records
            .binary_search_by(|record| {
                let found = &self.names[record.name_begin as usize..][..record.name_bytes as usize];
                order((found, record.metadata.kind), (name, kind))
            })
            .ok()
    }

    /// Compares entry `index` of this listing with entry `other_index` of another one in the fixed order.
    pub fn compare(&self, index: usize, other: &Listing, other_index: usize) -> Ordering {
        order(self.place(index), other.place(other_index))
    }

    /// Returns the name and the kind of an entry, which determine its place in [`order`].
    pub fn place(&self, index: usize) -> (&[u8], EntryKind) {
        (self.name(index), self.metadata(index).kind)
    }

    /// Appends the encoding of the listing to `out`: a count, then each record with its name.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.encode_range(0, self.len(), out);
    }

    /// Appends the encoding of `count` entries from `begin` on.
    pub fn encode_range(&self, begin: usize, count: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(&(count as u32).to_le_bytes());
        for record in &self.records[begin..begin + count] {
            out.extend_from_slice(&record.name_bytes.to_le_bytes());
            encode_metadata(&record.metadata, out);
            out.extend_from_slice(&self.names[record.name_begin as usize..][..record.name_bytes as usize]);
        }
    }

    /// Adds the entries written by [`Listing::encode_range`], and advances `bytes` past them.
    ///
    /// # Errors
    /// `Protocol` if the bytes are not a valid encoding.
    pub fn decode_into(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let count = u32::from_le_bytes(take::<4>(bytes)?) as usize;
        if count > bytes.len() / RECORD_BYTES {
            return Err(malformed("a count that exceeds the message"));
        }
        self.records.reserve(count);
        for _ in 0..count {
            let (name, metadata) = decode_record(bytes)?;
            self.push(name, metadata)?;
        }
        Ok(())
    }

    /// Marks the content of files as doubtful if they changed at `since` or later, or of all files if that is `None`.
    pub fn doubt(&mut self, since: Option<FileTime>) {
        for record in &mut self.records {
            record.metadata.doubt(since);
        }
    }

    /// Returns true if the entries are in the fixed order without duplicates.
    pub fn is_sorted(&self) -> bool {
        (1..self.len()).all(|index| self.compare(index - 1, self, index) == Ordering::Less)
    }
}

fn encode_metadata(it: &EntryMetadata, out: &mut Vec<u8>) {
    let linked = it.inode.filter(|_| it.links > 1);
    let flags = [
        (it.sparse, FLAG_SPARSE),
        (it.mount_point, FLAG_MOUNT_POINT),
        (it.locked, FLAG_LOCKED),
        (linked.is_some(), FLAG_LINKED),
        (it.device != 0, FLAG_DEVICE),
        (it.extended != 0, FLAG_EXTENDED),
        (it.doubted, FLAG_DOUBTED),
    ];
    out.push(it.kind as u8);
    out.push(flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag));
    out.extend_from_slice(&(it.mode as u16).to_le_bytes());
    out.extend_from_slice(&it.uid.to_le_bytes());
    out.extend_from_slice(&it.gid.to_le_bytes());
    out.extend_from_slice(&it.size_bytes.to_le_bytes());
    for time in [it.mtime, it.ctime] {
        out.extend_from_slice(&time.seconds.to_le_bytes());
        out.extend_from_slice(&time.nanoseconds.to_le_bytes());
    }
    if let Some(inode) = linked {
        out.extend_from_slice(&it.links.to_le_bytes());
        out.extend_from_slice(&inode.file_system.to_le_bytes());
        out.extend_from_slice(&inode.number.to_le_bytes());
    }
    if it.device != 0 {
        out.extend_from_slice(&it.device.to_le_bytes());
    }
    if it.extended != 0 {
        out.extend_from_slice(&it.extended.to_le_bytes());
    }
}

fn decode_metadata(bytes: &mut &[u8]) -> Result<EntryMetadata> {
    let [kind, flags] = take(bytes)?;
    let kind = EntryKind::from_number(kind).ok_or_else(|| malformed("an unknown kind of entry"))?;
    if flags & !FLAGS != 0 {
        return Err(malformed("an unknown flag"));
    }
    let has = |flag| flags & flag != 0;
    let mut it = EntryMetadata::new(kind);
    it.mode = u32::from(u16::from_le_bytes(take(bytes)?) & 0o7777);
    (it.uid, it.gid) = (u32::from_le_bytes(take(bytes)?), u32::from_le_bytes(take(bytes)?));
    it.size_bytes = u64::from_le_bytes(take(bytes)?);
    let mut time = || -> Result<FileTime> {
        let seconds = i64::from_le_bytes(take(bytes)?);
        let nanoseconds = u32::from_le_bytes(take(bytes)?);
        if nanoseconds > 999_999_999 {
            return Err(malformed("a time with too many nanoseconds"));
        }
        Ok(FileTime { seconds, nanoseconds })
    };
    (it.mtime, it.ctime) = (time()?, time()?);
    (it.sparse, it.mount_point, it.locked) = (has(FLAG_SPARSE), has(FLAG_MOUNT_POINT), has(FLAG_LOCKED));
    it.doubted = has(FLAG_DOUBTED);
    if has(FLAG_LINKED) {
        it.links = u32::from_le_bytes(take(bytes)?);
        let (file_system, number) = (u64::from_le_bytes(take(bytes)?), u64::from_le_bytes(take(bytes)?));
        it.inode = Some(Inode { file_system, number });
    }
    if has(FLAG_DEVICE) {
        it.device = u32::from_le_bytes(take(bytes)?);
    }
    if has(FLAG_EXTENDED) {
        it.extended = u64::from_le_bytes(take(bytes)?);
    }
    Ok(it)
}

fn decode_record<'a>(bytes: &mut &'a [u8]) -> Result<(&'a [u8], EntryMetadata)> {
    let name_bytes = u16::from_le_bytes(take(bytes)?) as usize;
    let metadata = decode_metadata(bytes)?;
    if name_bytes > bytes.len() {
        return Err(malformed("a name that exceeds the message"));
    }
    let (name, rest) = bytes.split_at(name_bytes);
    *bytes = rest;
    Ok((name, metadata))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, rest) =
        bytes.split_first_chunk::<N>().ok_or_else(|| malformed("a message that ends early"))?;
    *bytes = rest;
    Ok(*head)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading a listing", what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn metadata(kind: EntryKind) -> EntryMetadata {
        let time = FileTime { seconds: -5, nanoseconds: 7 };
        EntryMetadata {
            mode: 0o644,
            uid: 1,
            gid: 2,
            size_bytes: 3,
            mtime: time,
            ctime: time,
            sparse: true,
            ..EntryMetadata::new(kind)
        }
    }

    fn linked() -> EntryMetadata {
        let inode = Some(Inode { file_system: u64::MAX, number: 7 });
        let (device, extended) = (0x0080_0005, u64::MAX - 1);
        EntryMetadata {
            links: 3,
            inode,
            device,
            extended,
            mount_point: true,
            locked: true,
            ..metadata(EntryKind::File)
        }
    }

    fn listing(names: &[(&[u8], EntryKind)]) -> Listing {
        let mut listing = Listing::default();
        names.iter().for_each(|(name, kind)| listing.push(name, metadata(*kind)).unwrap());
        listing.sort();
        listing
    }

    #[test]
    fn the_order_is_that_of_keys_with_directories_as_prefixes() {
        let listing = listing(&[
            (b"a", EntryKind::Directory),
            (b"a-b", EntryKind::File),
            (b"a.b", EntryKind::File),
            (b"a0", EntryKind::File),
        ]);
        let names: Vec<_> = (0..listing.len()).map(|index| listing.name(index)).collect();
        assert_eq!(names, [&b"a-b"[..], b"a.b", b"a", b"a0"]);
        assert!(listing.is_sorted());
        assert_eq!(listing.find(b"a", true), Some(2));
        assert_eq!(listing.find(b"a", false), None);
    }

    #[test]
    fn a_name_that_is_listed_twice_is_one_entry() {
        let listing = listing(&[
            (b"b", EntryKind::File),
            (b"a", EntryKind::Directory),
            (b"a", EntryKind::Symlink),
            (b"b", EntryKind::Symlink),
            (b"a", EntryKind::Directory),
            (b"b", EntryKind::File),
        ]);
        let found: Vec<_> = (0..listing.len())
            .map(|index| (listing.name(index), listing.metadata(index).kind == EntryKind::Directory))
            .collect();
        assert_eq!(found, [(&b"a"[..], false), (b"a", true), (b"b", false)]);
        assert!(listing.is_sorted());
    }

    #[test]
    fn a_count_beyond_the_message_is_refused_before_allocation() {
        let mut bytes = &[0xff, 0xff, 0xff, 0x7f, 0, 0][..];
        assert!(Listing::default().decode_into(&mut bytes).is_err());
    }

    #[test]
    fn a_name_that_leaves_the_directory_is_refused() {
        let mut encoded = Vec::new();
        listing(&[(b"ab", EntryKind::File)]).encode(&mut encoded);
        let at = encoded.len() - 2;
        encoded[at..].copy_from_slice(b"..");
        assert!(Listing::default().decode_into(&mut &encoded[..]).is_err());
    }

    proptest! {
        #[test]
        fn encoding_is_reversible(names in proptest::collection::btree_set(proptest::collection::vec(1u8..46, 1..9), 0..40)) {
            let mut listing = Listing::default();
            for name in &names {
                let metadata = match name.len() % 3 {
                    0 => metadata(EntryKind::File),
                    1 => metadata(EntryKind::Directory),
                    _ => linked(),
                };
                listing.push(name, metadata).unwrap();
            }
            listing.sort();
            let mut encoded = Vec::new();
            listing.encode(&mut encoded);
            let mut decoded = Listing::default();
            let mut rest = &encoded[..];
            decoded.decode_into(&mut rest).unwrap();
            prop_assert!(rest.is_empty() && decoded.is_sorted());
            prop_assert_eq!(decoded.len(), listing.len());
            for index in 0..listing.len() {
                prop_assert_eq!(decoded.name(index), listing.name(index));
                prop_assert_eq!(decoded.metadata(index), listing.metadata(index));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Listing::default().decode_into(&mut &bytes[..]);
        }
    }
}
