//! The operations `Read` and `Confirm`: pieces of large files, each opened once per lane.

use std::sync::Arc;

use hakobu_core::endpoint::{PieceBuffer, SourceFile, SourceOutcome};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extended::ExtendedAsk;
use hakobu_core::extent::Extent;
use hakobu_core::path::EntryPath;
use hakobu_core::plant::planted;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, FlockOperation, fadvise, flock};
use rustix::io::Errno;

use super::errno::{changed, fault, source_fault};
use super::extended::{ExtendedReader, open_place};
use super::holes::Holes;
use super::inspection::extended_outcome;
use super::losses::check_required;
use super::lru_cache::LruCache;
use super::metadata;
use super::positioned::{has_more, read_at, wrong_size};
use super::read_ahead::ReadAhead;
use super::reader::RootReader;
use super::unreadable::{DamagedMedium, read_around};

/// The number of files that a lane keeps open.
const FILES_KEPT: usize = 4;

/// The large files that a lane has open. Each key keeps its allocation, so its address identifies one cached file.
#[derive(Debug)]
pub(crate) struct SourceFiles(LruCache<Arc<SourceFile>, OpenSourceFile>);

/// One file that is read.
#[derive(Debug)]
struct OpenSourceFile {
    file: Arc<OwnedFd>,
    /// The known holes of the file, unless it has none.
    holes: Option<Holes>,
    /// Read-ahead of a device that bypasses the page cache.
    direct: Option<ReadAhead>,
}

impl SourceFiles {
    /// Creates an empty cache.
    pub(crate) fn new() -> Self {
        Self(LruCache::new(FILES_KEPT))
    }

    /// Reads one piece.
    pub(crate) fn read(
        &mut self,
        reader: &mut RootReader,
        file: &Arc<SourceFile>,
        extent: Extent,
        mut buffer: PieceBuffer,
    ) -> Result<SourceOutcome> {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        buffer.set_filled(0);
        if buffer.room().len() < length {
            return Err(Error::new(ErrorKind::Usage, "reading", "an extent that is larger than a piece"));
        }
        let open = self.open(reader, file)?;
        if let Some(holes) = &mut open.holes
            && let Some(end) = holes.hole_around(&open.file, extent, file.metadata.size_bytes)
        {
            return Ok(SourceOutcome::Hole { buffer, end });
        }
        if let Some(direct) = &mut open.direct {
            match direct.read(extent.offset, length, buffer) {
                Ok(read) => return Ok(SourceOutcome::Read(read)),
                Err(back) => buffer = back,
            }
        }
        buffer.set_filled(0);
        let mut unreadable = Vec::new();
        match read_at(&open.file, extent.offset, &mut buffer.room()[..length]) {
            Ok(read) if read == length => {}
            Ok(read) if planted("early-end-accepted") => buffer.room()[read..length].fill(0),
            Ok(read) => {
                // Determines whether the file was truncated or never had its reported size.
                let error = match metadata::of_content(&open.file) {
                    Ok(now) if is_same(&file.metadata, &now) => {
                        wrong_size("reading", extent.offset + read as u64, file.metadata.size_bytes)
                    }
                    _ => changed("reading"),
                };
                return Err(error);
            }
            // A read beyond the end of a device that became smaller fails as one of a bad sector does.
            Err(_) if is_resized(&open.file, &file.metadata) => return Err(changed("reading")),
            Err(Errno::IO | Errno::NODATA | Errno::ILSEQ) if file.tolerant => {
                let room = &mut buffer.room()[..length];
                match read_around(&open.medium(), extent.offset, room) {
                    Ok(ranges) => unreadable = ranges,
                    Err(errno) => return Err(fault("reading", errno)),
                }
            }
            Err(Errno::NODATA) => return Err(read_error(Errno::IO)),
            Err(errno) => return Err(read_error(errno)),
        }
        buffer.set_read(extent.offset, length);
        if unreadable.is_empty() {
            return Ok(SourceOutcome::Read(buffer));
        }
        Ok(SourceOutcome::ReadPartly { buffer, unreadable })
    }

    /// Returns the end of the hole at the beginning of a range, or the range's beginning if there is data.
    pub(crate) fn hole_until(
        &mut self,
        reader: &mut RootReader,
        file: &Arc<SourceFile>,
        extent: Extent,
    ) -> Result<u64> {
        let size_bytes = file.metadata.size_bytes;
        let open = self.open(reader, file)?;
        let holes = open.holes.as_mut();
        Ok(holes.map_or(extent.offset, |holes| holes.hole_until(&open.file, extent, size_bytes)))
    }

    /// Opens a file whose blocks are to be shared.
    pub(crate) fn open_for_clone(&mut self, reader: &mut RootReader, file: &SourceFile) -> Result<OwnedFd> {
        open_checked(reader, file)
    }

    /// Checks that the file is still the listed version, and closes it. This is the last operation on the file. Returns
    /// its extended attributes.
    pub(crate) fn confirm(
        &mut self,
        reader: &mut RootReader,
        file: &Arc<SourceFile>,
        (extended, ask): (&mut ExtendedReader, ExtendedAsk),
    ) -> Result<SourceOutcome> {
        let require = reader.require();
        let open = &self.open(reader, file)?.file;
        // Reads beyond the end before checking the version, to distinguish a growing file from one with a wrong size.
        let more = match file.metadata.kind {
            EntryKind::File => has_more(open, file.metadata.size_bytes).map_err(read_error)?,
            _ => false,
        };
        let now = metadata::of_content(open).map_err(|errno| fault("looking at", errno))?;
        let mut lost = Vec::new();
        let found = match now.kind {
            EntryKind::File => extended.read(open_place(open), ask, &mut lost)?.kept,
            _ => None,
        };
        check_required(&require, &lost)?;
        self.0.forget(|key| Arc::ptr_eq(key, file));
        if file.metadata.kind == EntryKind::BlockDevice {
            reader.devices().forget(&device_key(file));
        }
        if !is_same(&file.metadata, &now) {
            return Err(changed("reading"));
        }
        if more {
            let size_bytes = file.metadata.size_bytes;
            return Err(wrong_size("reading", size_bytes + 1, size_bytes));
        }
        extended_outcome(found, lost, &file.path)
    }

    fn open(&mut self, reader: &mut RootReader, file: &Arc<SourceFile>) -> Result<&mut OpenSourceFile> {
        if self.0.find(|key| Arc::ptr_eq(key, file)).is_none() {
            let (opened, direct) = match file.metadata.kind {
                EntryKind::BlockDevice => {
                    let shared = reader.devices().get(device_key(file), || open_checked(reader, file))?;
                    (shared.file, shared.direct)
                }
                _ => (Arc::new(open_checked(reader, file)?), None),
            };
            let holes = file.metadata.sparse.then(Holes::default);
            let direct = direct.map(ReadAhead::new);
            self.0.insert(Arc::clone(file), OpenSourceFile { file: opened, holes, direct });
        }
        let missing = || Error::new(ErrorKind::Io, "opening", "");
        self.0.find(|key| Arc::ptr_eq(key, file)).ok_or_else(missing)
    }
}

impl OpenSourceFile {
    /// Returns the descriptors for reading around unreadable ranges.
    fn medium(&self) -> DamagedMedium<'_> {
        DamagedMedium { file: &self.file, direct: self.direct.as_ref().map(ReadAhead::file) }
    }
}

fn device_key(file: &SourceFile) -> (u16, EntryPath) {
    (file.root, file.path.clone())
}

fn read_error(errno: Errno) -> Error {
    let mut error = fault("reading", errno);
    if errno == Errno::IO {
        error = error.hint("--on-read-error skip fills unreadable areas with zeros and continues");
    }
    error
}

/// Returns true if the file is still the listed version. A device has no time to compare.
fn is_same(listed: &EntryMetadata, now: &EntryMetadata) -> bool {
    match listed.kind {
        EntryKind::BlockDevice => now.kind == EntryKind::BlockDevice && now.size_bytes == listed.size_bytes,
        _ => listed.same_version(now),
    }
}

/// Returns true if this is a device whose size is no longer the listed one.
fn is_resized(device: &OwnedFd, listed: &EntryMetadata) -> bool {
    listed.kind == EntryKind::BlockDevice
        && metadata::of_content(device).is_ok_and(|now| !is_same(listed, &now))
}

/// Opens a file if it is still the listed version.
fn open_checked(reader: &mut RootReader, file: &SourceFile) -> Result<OwnedFd> {
    // The kind is checked before opening, which may have an effect on a device, and again on the descriptor.
    reader.check_kind(file.metadata.kind)?;
    if file.metadata.kind == EntryKind::File {
        reader.steps().wait(&file.metadata);
    }
    let (root, noatime) = reader.root_for_reading(file.root)?;
    let opened = noatime.open(file.metadata.uid, |flags| root.open_beneath(&file.path, flags));
    let opened = opened.map_err(|errno| source_fault("opening", errno))?;
    let now = metadata::of_content(&opened).map_err(|errno| fault("looking at", errno))?;
    reader.check_kind(now.kind)?;
    if !is_same(&file.metadata, &now) {
        return Err(changed("opening"));
    }
    if now.kind == EntryKind::BlockDevice {
        // By the rule of systemd, writers wait for this lock. A failure to lock is no reason not to read.
        let _ = flock(&opened, FlockOperation::NonBlockingLockShared);
        return Ok(opened);
    }
    // Only a hint: a failure changes nothing.
    let _ = fadvise(&opened, 0, None, Advice::Sequential);
    Ok(opened)
}
