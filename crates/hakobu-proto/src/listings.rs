//! Encodes and decodes listings: many directories in one answer, each in one or more parts, in frames of limited
//! size, whatever the directories contain.
//!
//! A part consists of the length of the path (u16), the path and a tag (u8). Depending on the tag, it continues with
//! entries of which more follow, with the last entries, or with a length (u32) and an error. All numbers are little
//! endian.

use hakobu_core::endpoint::TargetOutcome;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::listing::{DirectoryListing, Listing};
use hakobu_core::path::EntryPath;

use crate::data;

/// The size in bytes at which a frame of listings is sent.
const FRAME_BYTES_TARGET: usize = 1 << 20;
/// The number of entries that are encoded at a time, each at most
/// [`RECORD_BYTES_MAX`](hakobu_core::listing::RECORD_BYTES_MAX).
const SLICE_ENTRIES: usize = 2048;
/// The maximum number of directories in one answer: the requested ones, and one descendant for each entry of the
/// largest budget.
const DIRECTORIES_MAX: usize = data::LIST_DIRECTORIES_MAX + data::LIST_BUDGET_MAX as usize;

const TAG_MORE: u8 = 0;
const TAG_LAST: u8 = 1;
const TAG_ERROR: u8 = 2;

/// Encodes listings as frame payloads. Calls `send` with each payload, and with true if more follow.
///
/// # Errors
/// The errors of `send`, or an error that cannot be encoded.
pub fn encode<E: From<Error>>(
    listings: &[DirectoryListing],
    buffer: &mut Vec<u8>,
    mut send: impl FnMut(&[u8], bool) -> Result<(), E>,
) -> Result<(), E> {
    buffer.clear();
    for listing in listings {
        match &listing.result {
            Ok(entries) => {
                let mut at = 0;
                loop {
                    let count = SLICE_ENTRIES.min(entries.len() - at);
                    let last = at + count == entries.len();
                    part(buffer, &listing.path, if last { TAG_LAST } else { TAG_MORE });
                    entries.encode_range(at, count, buffer);
                    at += count;
                    flush_if_full(buffer, &mut send)?;
                    if last {
                        break;
                    }
                }
            }
            Err(error) => {
                part(buffer, &listing.path, TAG_ERROR);
                let mut encoded = Vec::new();
                data::encode(&data::FailedReply(data::bounded(error.clone())), &mut encoded)?;
                buffer.extend_from_slice(&(encoded.len() as u32).to_le_bytes());
                buffer.extend_from_slice(&encoded);
                flush_if_full(buffer, &mut send)?;
            }
        }
    }
    send(buffer, false)
}

fn part(buffer: &mut Vec<u8>, path: &EntryPath, tag: u8) {
    buffer.extend_from_slice(&(path.as_bytes().len() as u16).to_le_bytes());
    buffer.extend_from_slice(path.as_bytes());
    buffer.push(tag);
}

fn flush_if_full<E>(
    buffer: &mut Vec<u8>,
    send: &mut impl FnMut(&[u8], bool) -> Result<(), E>,
) -> Result<(), E> {
    if buffer.len() >= FRAME_BYTES_TARGET {
        send(buffer, true)?;
        buffer.clear();
    }
    Ok(())
}

/// Assembles listings from the frames of one answer.
#[derive(Debug)]
pub struct Assembler {
    done: Vec<DirectoryListing>,
    open: Option<(EntryPath, Listing)>,
    /// The number of errors so far. Only requested directories can have one.
    errors: usize,
    entries: usize,
    entries_max: usize,
}

impl Assembler {
    /// Creates an assembler for an answer with at most `entries_max` entries in total.
    pub fn new(entries_max: usize) -> Self {
        Self { done: Vec::new(), open: None, errors: 0, entries: 0, entries_max }
    }

    /// Adds the payload of one frame.
    ///
    /// # Errors
    /// `Protocol` if it is malformed, out of order, or exceeds a limit.
    pub fn frame(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            self.part(&mut bytes)?;
        }
        Ok(())
    }

    /// Ends the answer.
    ///
    /// # Errors
    /// `Protocol` if a directory is incomplete.
    pub fn finish(self) -> Result<TargetOutcome> {
        if self.open.is_some() {
            return Err(malformed("a directory that is not complete"));
        }
        Ok(TargetOutcome::Listed(self.done))
    }

    fn part(&mut self, bytes: &mut &[u8]) -> Result<()> {
        let length = u16::from_le_bytes(take(bytes)?) as usize;
        let path = EntryPath::new(take_slice(bytes, length)?)?;
        let [tag] = take(bytes)?;
        let mut listing = match self.open.take() {
            Some((open, listing)) if open == path && tag != TAG_ERROR => listing,
            Some(_) => return Err(malformed("parts of directories out of order")),
            None => Listing::default(),
        };
        if self.done.len() >= DIRECTORIES_MAX {
            return Err(malformed("too many directories"));
        }
        if tag == TAG_ERROR {
            let length = u32::from_le_bytes(take(bytes)?) as usize;
            let data::FailedReply(error) = data::decode(take_slice(bytes, length)?)?;
            self.errors += 1;
            if self.errors > data::LIST_DIRECTORIES_MAX {
                return Err(malformed("too many errors"));
            }
            self.done.push(DirectoryListing { path, result: Err(data::bounded(error)) });
            return Ok(());
        }
        let before = listing.len();
        listing.decode_into(bytes)?;
        self.entries += listing.len() - before;
        if self.entries > self.entries_max {
            return Err(malformed("more entries than were asked for"));
        }
        match tag {
            TAG_MORE if listing.len() == before => return Err(malformed("a part that brings nothing")),
            TAG_MORE => self.open = Some((path, listing)),
            TAG_LAST if listing.is_sorted() => self.done.push(DirectoryListing { path, result: Ok(listing) }),
            TAG_LAST => return Err(malformed("a directory out of order")),
            _ => return Err(malformed("an unknown part")),
        }
        Ok(())
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>().ok_or_else(|| malformed("a part that ends early"))?;
    *bytes = rest;
    Ok(*head)
}

fn take_slice<'a>(bytes: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    if length > bytes.len() {
        return Err(malformed("a part that ends early"));
    }
    let (head, rest) = bytes.split_at(length);
    *bytes = rest;
    Ok(head)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Protocol, "reading listings", what)
}

#[cfg(test)]
mod tests {
    use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
    use proptest::prelude::*;

    use super::*;

    fn listing(count: usize) -> Listing {
        let time = FileTime { seconds: 1, nanoseconds: 2 };
        let metadata = EntryMetadata {
            mode: 0o600,
            uid: 1,
            gid: 2,
            size_bytes: 3,
            mtime: time,
            ctime: time,
            ..EntryMetadata::new(EntryKind::File)
        };
        let mut listing = Listing::default();
        (0..count).for_each(|number| listing.push(format!("{number:08}").as_bytes(), metadata).unwrap());
        listing
    }

    fn frames(listings: &[DirectoryListing]) -> Vec<(Vec<u8>, bool)> {
        let mut frames = Vec::new();
        encode(listings, &mut Vec::new(), |payload, more| {
            frames.push((payload.to_vec(), more));
            Ok::<_, Error>(())
        })
        .unwrap();
        frames
    }

    #[test]
    fn large_directories_travel_in_several_frames() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let error = Error::new(ErrorKind::PermissionDenied, "listing", "permission denied");
        let listings = [
            DirectoryListing { path: path("big"), result: Ok(listing(50_000)) },
            DirectoryListing { path: path("bad"), result: Err(error.clone()) },
            DirectoryListing { path: path("empty"), result: Ok(Listing::default()) },
        ];
        let frames = frames(&listings);
        assert!(frames.len() > 2);
        assert!(frames.iter().all(|(payload, _)| payload.len() < crate::frame::PAYLOAD_LIMIT_BYTES));
        let mut assembler = Assembler::new(50_000);
        for (index, (payload, more)) in frames.iter().enumerate() {
            assert_eq!(*more, index + 1 < frames.len());
            assembler.frame(payload).unwrap();
        }
        let TargetOutcome::Listed(read) = assembler.finish().unwrap() else { panic!("no listing") };
        assert_eq!(read[0].result.as_ref().unwrap().len(), 50_000);
        assert_eq!(read[1].result.as_ref().unwrap_err(), &error);
        assert_eq!(read[2].result.as_ref().unwrap().len(), 0);
    }

    #[test]
    fn more_entries_than_asked_for_are_refused() {
        let listings = [DirectoryListing { path: EntryPath::root(), result: Ok(listing(10)) }];
        assert!(Assembler::new(9).frame(&frames(&listings)[0].0).is_err());
    }

    #[test]
    fn a_directory_in_the_middle_of_another_is_refused() {
        let mut bytes = Vec::new();
        part(&mut bytes, &EntryPath::new("a").unwrap(), TAG_MORE);
        listing(2).encode(&mut bytes);
        part(&mut bytes, &EntryPath::new("b").unwrap(), TAG_LAST);
        listing(2).encode(&mut bytes);
        assert!(Assembler::new(100).frame(&bytes).is_err());
    }

    #[test]
    fn an_answer_that_never_ends_is_refused() {
        let path = EntryPath::new("a").unwrap();
        let mut nothing = Vec::new();
        part(&mut nothing, &path, TAG_MORE);
        Listing::default().encode(&mut nothing);
        assert!(Assembler::new(100).frame(&nothing).is_err());

        let mut empty = Vec::new();
        part(&mut empty, &path, TAG_LAST);
        Listing::default().encode(&mut empty);
        let mut assembler = Assembler::new(100);
        let taken = (0..=DIRECTORIES_MAX).take_while(|_| assembler.frame(&empty).is_ok()).count();
        assert_eq!(taken, DIRECTORIES_MAX);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Assembler::new(100).frame(&bytes);
        }
    }
}
