//! The shares of the engine as the ledger keeps them: what it sorts by in columns, the rest as bytes that only brokers read.

use hakobu_core::entry::{Attributes, FileTime, Inode};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::exchange::{
    DirectoryEnd, DirectoryOutcome, DirectoryShare, DirectorySlice, NameShare, SharePlace, WorkShare,
};
use hakobu_core::extent::Extent;
use hakobu_core::open_file::{OpenFileRange, OpenFileVersion, OpenLargeFile};
use hakobu_core::path::EntryPath;
use serde::{Deserialize, Serialize};

use crate::limits::shortened;
use crate::link_name::LinkNameRow;
use crate::message::SentError;
use crate::open_directory::OpenDirectoryRow;
use crate::open_file::{ItemRange, OpenFilePosition, OpenFileRow};
use crate::unit::{ItemPart, UnitItem};

/// The kept form of a place without what columns hold.
#[derive(Serialize, Deserialize)]
struct KeptPlace {
    /// The path at the target, unless it is that at the source.
    target: Option<Vec<u8>>,
    top_names: u16,
}

#[derive(Serialize, Deserialize)]
enum KeptOutcome {
    Created,
    Updated,
    AttributesOnly,
    Unchanged,
}

/// The kept form of an end without what columns hold. Behind it is a byte if slices of the directory were given away. New fields
/// go to the end, and need a number of their own in front.
#[derive(Serialize, Deserialize)]
struct KeptEnd {
    place: KeptPlace,
    mode: u32,
    uid: u32,
    gid: u32,
    mtime: (i64, u32),
    outcome: Option<KeptOutcome>,
    is_touched: bool,
    extended: bool,
    is_unproven: bool,
    is_examined: bool,
    listed_ctime: Option<(i64, u32)>,
}

/// The kept form of an open file without what columns hold.
#[derive(Serialize, Deserialize)]
struct KeptFile {
    place: KeptPlace,
    size_bytes: u64,
    mtime: (i64, u32),
    ctime: (i64, u32),
    inode: Option<u64>,
    draft: Vec<u8>,
    replaces: bool,
}

/// The number of bytes of a text in the reason for which a file is torn.
const TORN_TEXT_BYTES_MAX: usize = 1024;

/// The byte behind the end of a directory of which slices were given away.
const HAS_SLICES: u8 = 1;

impl KeptPlace {
    fn of(place: &SharePlace) -> Self {
        let is_elsewhere = place.target != place.source;
        Self { target: is_elsewhere.then(|| place.target.as_bytes().to_vec()), top_names: place.top_names }
    }

    fn place(self, root: u16, source: EntryPath) -> Result<SharePlace> {
        let target = match self.target {
            Some(target) => EntryPath::new(target)?,
            None => source.clone(),
        };
        Ok(SharePlace { root, source, target, top_names: self.top_names })
    }
}

impl OpenDirectoryRow {
    /// Creates the row of an end.
    ///
    /// # Errors
    /// `Usage` if it cannot be kept.
    pub fn of(end: &DirectoryEnd) -> Result<Self> {
        let Attributes { mode, uid, gid, mtime } = end.attributes;
        let kept = KeptEnd {
            place: KeptPlace::of(&end.place),
            mode,
            uid,
            gid,
            mtime: kept_time(mtime),
            outcome: end.outcome.map(|outcome| match outcome {
                DirectoryOutcome::Created => KeptOutcome::Created,
                DirectoryOutcome::Updated => KeptOutcome::Updated,
                DirectoryOutcome::AttributesOnly => KeptOutcome::AttributesOnly,
                DirectoryOutcome::Unchanged => KeptOutcome::Unchanged,
            }),
            is_touched: end.is_touched,
            extended: end.extended,
            is_unproven: end.is_unproven,
            is_examined: end.is_examined,
            listed_ctime: end.listed_ctime.map(kept_time),
        };
        let SharePlace { root, source, .. } = &end.place;
        let detail = if end.has_slices { encode(&(kept, HAS_SLICES))? } else { encode(&kept)? };
        Ok(Self { root: *root, path: source.clone(), detail })
    }

    /// Returns the end.
    ///
    /// # Errors
    /// `Corrupt` if the row was not made by [`OpenDirectoryRow::of`].
    pub fn end(&self) -> Result<DirectoryEnd> {
        let (kept, has_slices) = match decode(&self.detail) {
            Ok((kept, HAS_SLICES)) => (kept, true),
            _ => (decode::<KeptEnd>(&self.detail)?, false),
        };
        Ok(DirectoryEnd {
            place: kept.place.place(self.root, self.path.clone())?,
            attributes: Attributes {
                mode: kept.mode,
                uid: kept.uid,
                gid: kept.gid,
                mtime: time(kept.mtime)?,
            },
            outcome: kept.outcome.map(|outcome| match outcome {
                KeptOutcome::Created => DirectoryOutcome::Created,
                KeptOutcome::Updated => DirectoryOutcome::Updated,
                KeptOutcome::AttributesOnly => DirectoryOutcome::AttributesOnly,
                KeptOutcome::Unchanged => DirectoryOutcome::Unchanged,
            }),
            is_touched: kept.is_touched,
            extended: kept.extended,
            is_unproven: kept.is_unproven,
            is_examined: kept.is_examined,
            listed_ctime: kept.listed_ctime.map(time).transpose()?,
            has_slices,
        })
    }
}

impl OpenFileRow {
    /// Creates the row of a file.
    ///
    /// # Errors
    /// `Usage` if it cannot be kept.
    pub fn of(file: &OpenLargeFile) -> Result<Self> {
        let OpenFileVersion { size_bytes, mtime, ctime, inode } = file.version;
        let kept = KeptFile {
            place: KeptPlace::of(&file.place),
            size_bytes,
            mtime: kept_time(mtime),
            ctime: kept_time(ctime),
            inode,
            draft: file.draft.clone(),
            replaces: file.replaces,
        };
        let position = OpenFilePosition { root: file.place.root, path: file.place.source.clone() };
        Ok(Self { position, is_torn: false, detail: encode(&kept)? })
    }

    /// Creates the row of the reason for which a range of a file could not be copied.
    ///
    /// # Errors
    /// `Usage` if it cannot be kept.
    pub fn torn(position: OpenFilePosition, error: &Error) -> Result<Self> {
        let cut = |text: &str| shortened(text, TORN_TEXT_BYTES_MAX);
        let error = Error {
            kind: error.kind,
            step: error.step,
            during: cut(&error.during).into(),
            // The file is known.
            at: Vec::new(),
            detail: cut(&error.detail),
            hint: error.hint.as_deref().map(|hint| cut(hint).into()),
        };
        Ok(Self { position, is_torn: true, detail: encode(&SentError::from(&error))? })
    }
}

/// Returns the file of a row.
///
/// # Errors
/// `Corrupt` if it was not made by [`OpenFileRow::of`].
pub fn open_file(position: &OpenFilePosition, detail: &[u8]) -> Result<OpenLargeFile> {
    let kept: KeptFile = decode(detail)?;
    Ok(OpenLargeFile {
        place: kept.place.place(position.root, position.path.clone())?,
        version: OpenFileVersion {
            size_bytes: kept.size_bytes,
            mtime: time(kept.mtime)?,
            ctime: time(kept.ctime)?,
            inode: kept.inode,
        },
        draft: kept.draft,
        replaces: kept.replaces,
    })
}

/// Returns the reason for which a range of a file could not be copied.
///
/// # Errors
/// `Corrupt` if it was not made by [`OpenFileRow::torn`].
pub fn torn_error(detail: &[u8]) -> Result<Error> {
    decode::<SentError>(detail).map(Error::from)
}

impl LinkNameRow {
    /// Creates the row of a name.
    ///
    /// # Errors
    /// `Usage` if it cannot be kept.
    pub fn of(name: &NameShare) -> Result<Self> {
        let NameShare { place, inode, size_bytes, links } = name;
        Ok(Self {
            inode: *inode,
            size: *size_bytes,
            root: place.root,
            path: place.source.clone(),
            detail: encode(&(KeptPlace::of(place), links))?,
        })
    }

    /// Returns the share.
    ///
    /// # Errors
    /// `Corrupt` if the row was not made by [`LinkNameRow::of`].
    pub fn share(&self) -> Result<NameShare> {
        let (place, links): (KeptPlace, u32) = decode(&self.detail)?;
        let place = place.place(self.root, self.path.clone())?;
        let Inode { file_system, number } = self.inode;
        Ok(NameShare { place, inode: Inode { file_system, number }, size_bytes: self.size, links })
    }
}

impl UnitItem {
    /// Creates the item of a directory that was given away.
    pub fn of(share: &DirectoryShare) -> Self {
        let SharePlace { root, source, target, top_names } = share.place.clone();
        let is_above_settled = share.is_above_settled;
        Self { root, path: source, target, top_names, is_above_settled, part: ItemPart::Whole }
    }

    /// Creates the item of a slice that was given away.
    pub fn of_slice(slice: DirectorySlice) -> Self {
        let DirectorySlice { place: SharePlace { root, source, target, top_names }, names } = slice;
        let part = ItemPart::Names(names);
        Self { root, path: source, target, top_names, is_above_settled: false, part }
    }

    /// Creates the item of a range that was given away, of a file with this row.
    pub fn of_range(file: &OpenLargeFile, row: &OpenFileRow, extent: Extent) -> Self {
        let SharePlace { root, source, target, top_names } = file.place.clone();
        let (Extent { offset, length }, size_bytes) = (extent, file.version.size_bytes);
        let part = ItemPart::Range(ItemRange { offset, length, size_bytes, detail: row.detail.clone() });
        Self { root, path: source, target, top_names, is_above_settled: false, part }
    }

    /// Returns the share.
    ///
    /// # Errors
    /// `Corrupt` if a range is none of its file.
    pub fn share(&self) -> Result<WorkShare> {
        let (source, target) = (self.path.clone(), self.target.clone());
        let place = SharePlace { root: self.root, source, target, top_names: self.top_names };
        Ok(match &self.part {
            ItemPart::Whole => {
                WorkShare::Directory(DirectoryShare { place, is_above_settled: self.is_above_settled })
            }
            ItemPart::Names(names) => WorkShare::Slice(DirectorySlice { place, names: names.clone() }),
            ItemPart::Range(range) => {
                let file = open_file(&self.position(), &range.detail)?;
                let share = OpenFileRange { file, extent: range.extent() };
                if share.file.version.size_bytes != range.size_bytes || !share.is_sound() {
                    return Err(unreadable(&"a range is none of its file"));
                }
                WorkShare::Range(share)
            }
        })
    }
}

fn kept_time(time: FileTime) -> (i64, u32) {
    (time.seconds, time.nanoseconds)
}

fn time((seconds, nanoseconds): (i64, u32)) -> Result<FileTime> {
    if nanoseconds > 999_999_999 {
        return Err(unreadable(&"a time has more nanoseconds than a second"));
    }
    Ok(FileTime { seconds, nanoseconds })
}

fn encode(kept: &impl Serialize) -> Result<Vec<u8>> {
    postcard::to_stdvec(kept).map_err(|error| unreadable(&error))
}

fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((kept, [])) => Ok(kept),
        Ok(_) => Err(unreadable(&"bytes follow it")),
        Err(error) => Err(unreadable(&error)),
    }
}

fn unreadable(cause: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, "reading a share of work", cause.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(source: &str, target: &str) -> SharePlace {
        let path = |text: &str| EntryPath::new(text).unwrap();
        SharePlace { root: 3, source: path(source), target: path(target), top_names: 1 }
    }

    #[test]
    fn shares_are_kept_whole() {
        for place in [place("a/b", "a/b"), place("a/b", "c/a/b"), place("", "")] {
            let end = DirectoryEnd {
                place: place.clone(),
                attributes: Attributes {
                    mode: 0o2755,
                    uid: u32::MAX,
                    gid: 7,
                    mtime: FileTime { seconds: -5, nanoseconds: 999_999_999 },
                },
                outcome: Some(DirectoryOutcome::AttributesOnly),
                is_touched: true,
                extended: false,
                is_unproven: true,
                is_examined: false,
                listed_ctime: Some(FileTime { seconds: 9, nanoseconds: 1 }),
                has_slices: false,
            };
            for (has_slices, listed_ctime) in
                [(false, end.listed_ctime), (true, end.listed_ctime), (true, None)]
            {
                let end = DirectoryEnd { has_slices, listed_ctime, ..end.clone() };
                assert_eq!(OpenDirectoryRow::of(&end).unwrap().end().unwrap(), end);
            }
            let name = NameShare {
                place: place.clone(),
                inode: Inode { file_system: u64::MAX, number: 8 },
                size_bytes: 1 << 40,
                links: 3,
            };
            assert_eq!(LinkNameRow::of(&name).unwrap().share().unwrap(), name);
            let share = DirectoryShare { place: place.clone(), is_above_settled: true };
            assert_eq!(UnitItem::of(&share).share().unwrap(), WorkShare::Directory(share));
            let slice = DirectorySlice { place: place.clone(), names: vec![b"a".to_vec(), vec![0xff]] };
            assert_eq!(UnitItem::of_slice(slice.clone()).share().unwrap(), WorkShare::Slice(slice));
            let version = OpenFileVersion {
                size_bytes: 9,
                mtime: FileTime { seconds: -5, nanoseconds: 9 },
                ctime: FileTime { seconds: 5, nanoseconds: 0 },
                inode: Some(u64::MAX),
            };
            let file = OpenLargeFile { place, version, draft: vec![b'd', 0xff], replaces: true };
            let row = OpenFileRow::of(&file).unwrap();
            assert_eq!(open_file(&row.position, &row.detail).unwrap(), file);
            let mut item = UnitItem::of_range(&file, &row, Extent { offset: 0, length: 9 });
            let extent = Extent { offset: 0, length: 9 };
            assert_eq!(item.share().unwrap(), WorkShare::Range(OpenFileRange { file, extent }));
            let ItemPart::Range(range) = &mut item.part else { panic!("{item:?}") };
            (range.size_bytes, range.length) = (10, 10);
            assert!(item.share().is_err(), "beyond the size that the file has");
        }
    }

    #[test]
    fn the_reason_for_which_a_file_is_torn_is_kept_and_cut() {
        let position = OpenFilePosition { root: 1, path: EntryPath::new("a").unwrap() };
        let error = Error::new(ErrorKind::Io, "reading", "x".repeat(9999)).hint("look").at("a");
        let row = OpenFileRow::torn(position, &error).unwrap();
        row.check().unwrap();
        let kept = torn_error(&row.detail).unwrap();
        assert_eq!(
            (kept.kind, kept.detail.len(), &kept.at[..]),
            (ErrorKind::Io, TORN_TEXT_BYTES_MAX, &b""[..])
        );
        assert!(kept.hint.as_deref() == Some("look") && torn_error(b"x").is_err());
    }

    #[test]
    fn other_bytes_are_refused() {
        let row =
            |detail: &[u8]| OpenDirectoryRow { root: 0, path: EntryPath::root(), detail: detail.to_vec() };
        for bytes in [&b""[..], b"\x00", b"\xff\xff\xff", &[0; 64]] {
            assert!(row(bytes).end().is_err(), "{bytes:?}");
        }
    }
}
