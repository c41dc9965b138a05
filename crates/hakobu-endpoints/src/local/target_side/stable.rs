//! Ensures that content is on its medium, or gets there in the right order, before a name refers to it.

use std::sync::Arc;

use hakobu_core::grant::Grant;
use hakobu_core::path::EntryPath;
use hakobu_core::{Error, Result};
use hakobu_sys::durable::{begin_writing_out, close_checked, write_out};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fdatasync, fsync, futimens, unlinkat,
};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use super::directories::Directory;
use crate::local::draft_file::rename_at;
use crate::local::draft_name::DraftName;
use crate::local::errno::{fault, place};
use crate::local::file_system::Stability;

const FLUSHING: &str = "flushing to stable storage";

/// The size in bytes from which a new file's content is flushed to the medium before it gets its name. The run mark
/// covers smaller files, where a wait would cost more than the bytes.
pub(crate) const FLUSHED_FROM_BYTES: u64 = 4 << 20;
/// The maximum number of small replacing files that wait for the medium together.
pub(crate) const WAITING_MAX: usize = 64;

/// Flushes content to the medium before a name refers to it: with `must`, and where errors are reported file by file.
pub(crate) fn flush(file: &OwnedFd, stability: Stability, must: bool, durable: bool) -> Result<()> {
    let done = match stability {
        Stability::ToldByFile if durable => fsync(file),
        Stability::InOrder if must && durable => match write_out(file) {
            Err(Errno::SPIPE | Errno::NOSYS | Errno::INVAL) => fdatasync(file),
            done => done,
        },
        Stability::Flushed if must && durable => fdatasync(file),
        _ => Ok(()),
    };
    match done {
        // A file that cannot be flushed by itself returns `EINVAL`.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(fault(FLUSHING, errno)),
    }
}

/// Closes a complete file.
pub(crate) fn close(file: OwnedFd, stability: Stability) -> Result<()> {
    match stability {
        Stability::ToldByFile => close_checked(file).map_err(|errno| fault("closing the file", errno)),
        _ => Ok(()),
    }
}

/// Checks the result of closing a file that others may hold open: closing any descriptor of it reports errors.
pub(crate) fn close_another(file: &OwnedFd, stability: Stability) -> Result<()> {
    match stability {
        Stability::ToldByFile => {
            let another = fcntl_dupfd_cloexec(file, 0).map_err(|errno| fault("closing the file", errno))?;
            close(another, stability)
        }
        _ => Ok(()),
    }
}

/// Sets a time that no source has on a file that is about to be changed in place, and flushes it to stable storage. If
/// the time got there after the content, a crash in between would leave the old time with new content.
pub(crate) fn note_change(file: &OwnedFd, stability: Stability) {
    if stability == Stability::Memory {
        return;
    }
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    if futimens(file, &Timestamps { last_access, last_modification }).is_ok() {
        // If this fails, the flush after the content fails as well, and its result counts.
        let _ = fsync(file);
    }
}

/// A small file that replaces another. It is complete except for its name, which it gets when its content is on the
/// medium. Several files wait together.
#[derive(Debug)]
pub(crate) struct WaitingFile {
    /// The record index in its pack.
    pub(crate) index: u32,
    pub(crate) content_bytes: u64,
    path: EntryPath,
    directory: Arc<OwnedFd>,
    draft: DraftName,
    name: Vec<u8>,
    file: OwnedFd,
}

impl WaitingFile {
    /// Begins to write out the file.
    pub(crate) fn begin(
        (index, content_bytes): (u32, u64),
        directory: &Directory,
        draft: DraftName,
        name: &[u8],
        file: OwnedFd,
    ) -> Self {
        // If this fails, the later wait starts the writing again.
        let _ = begin_writing_out(&file);
        let (path, directory) = (directory.path.clone(), Arc::clone(&directory.fd));
        Self { index, content_bytes, path, directory, draft, name: name.to_vec(), file }
    }

    /// Returns true if the file gets this name in this directory.
    pub(crate) fn is_for(&self, directory: &EntryPath, name: &[u8]) -> bool {
        self.name == name && self.path == *directory
    }

    /// Waits for the content, and renames the file to its final name.
    ///
    /// # Errors
    /// The system's, with the path. The draft is then removed.
    pub(crate) fn finish(self, grant: &Grant, stability: Stability) -> Result<(), Error> {
        let done = flush(&self.file, stability, true, true)
            .and_then(|()| grant.check_time())
            .and_then(|()| rename_at(&self.directory, &self.draft, &self.name));
        if done.is_err() {
            self.discard();
        }
        done.map_err(|error| error.at(place(&self.path, &self.name)))
    }

    /// Removes the draft.
    pub(crate) fn discard(&self) {
        let _ = unlinkat(&self.directory, self.draft.as_bytes(), AtFlags::empty());
    }
}
