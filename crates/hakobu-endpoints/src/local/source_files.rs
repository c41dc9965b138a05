//! `Read` and `Confirm`: pieces of big files, each opened once per lane.

use std::sync::Arc;

use hakobu_core::endpoint::{Loss, LossKind, PieceBuffer, SourceFile};
use hakobu_core::extent::Extent;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::OwnedFd;
use rustix::fs::{Advice, fadvise};
use rustix::io::{pread, retry_on_intr};

use super::fault::{changed, fault, source_fault};
use super::losses::{check_required, lost_attributes};
use super::metadata;
use super::recent::Recent;
use super::source::Reader;

/// How many files a lane keeps open.
const FILES_KEPT: usize = 4;

/// The big files that a lane has open. The key keeps its allocation, so an address stands for one
/// file as long as it is here.
#[derive(Debug)]
pub(crate) struct SourceFiles(Recent<Arc<SourceFile>, OwnedFd>);

impl SourceFiles {
    /// None open.
    pub(crate) fn new() -> Self {
        Self(Recent::new(FILES_KEPT))
    }

    /// Reads one piece.
    pub(crate) fn read(
        &mut self,
        reader: &mut Reader,
        file: &Arc<SourceFile>,
        extent: Extent,
        buffer: &mut PieceBuffer,
    ) -> Result<()> {
        let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
        buffer.set_filled(0);
        let Some(mut room) = buffer.room().get_mut(..length) else {
            return Err(Error::new(ErrorKind::Usage, "reading", "an extent that is larger than a piece"));
        };
        let open = self.open(reader, file)?;
        let mut offset = extent.offset;
        while !room.is_empty() {
            let read = retry_on_intr(|| pread(&*open, &mut *room, offset))
                .map_err(|errno| fault("reading", errno))?;
            if read == 0 {
                return Err(changed("reading"));
            }
            offset += read as u64;
            room = &mut room[read..];
        }
        buffer.set_filled(length);
        Ok(())
    }

    /// Opens a file whose blocks are to be shared.
    pub(crate) fn open_for_clone(&mut self, reader: &mut Reader, file: &SourceFile) -> Result<Arc<OwnedFd>> {
        open_checked(reader, file).map(Arc::new)
    }

    /// Checks that the file is still what was listed, and closes it: this is the last that is
    /// asked of it. Gives the extended attributes that the copy lacks.
    pub(crate) fn confirm(&mut self, reader: &mut Reader, file: &Arc<SourceFile>) -> Result<Vec<Loss>> {
        let open = self.open(reader, file)?;
        let now = metadata::of_file(&*open).map_err(|errno| fault("looking at", errno))?;
        let mut lost = Vec::new();
        lost_attributes(&*open, &mut lost);
        self.0.forget(|key| Arc::ptr_eq(key, file));
        if !file.metadata.same_version(&now) {
            return Err(changed("reading"));
        }
        let loss = |what| Loss { what, count: 1, example: file.path.as_bytes().to_vec() };
        Ok(lost.into_iter().map(loss).collect())
    }

    fn open(&mut self, reader: &mut Reader, file: &Arc<SourceFile>) -> Result<&mut OwnedFd> {
        if self.0.find(|key| Arc::ptr_eq(key, file)).is_none() {
            let opened = open_checked(reader, file)?;
            self.0.insert(Arc::clone(file), opened);
        }
        let missing = || Error::new(ErrorKind::Io, "opening", "");
        self.0.find(|key| Arc::ptr_eq(key, file)).ok_or_else(missing)
    }
}

/// Opens a file if it still is the version that was listed.
fn open_checked(reader: &mut Reader, file: &SourceFile) -> Result<OwnedFd> {
    let (root, noatime) = reader.root_for_reading(file.root)?;
    let opened = noatime.open(file.metadata.uid, |flags| root.open_beneath(&file.path, flags));
    let opened = opened.map_err(|errno| source_fault("opening", errno))?;
    let now = metadata::of_file(&opened).map_err(|errno| fault("looking at", errno))?;
    if !file.metadata.same_version(&now) {
        return Err(changed("opening"));
    }
    let require = reader.require();
    if require.iter().any(|kind| matches!(kind, LossKind::Acl | LossKind::Xattr)) {
        let mut lost = Vec::new();
        lost_attributes(&opened, &mut lost);
        check_required(&require, &lost)?;
    }
    // Only a hint: a refusal changes nothing.
    let _ = fadvise(&opened, 0, None, Advice::Sequential);
    Ok(opened)
}
