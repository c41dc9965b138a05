//! Content that is on its medium, or about to be in the right order, before a name stands for it.

use std::sync::Arc;

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
use crate::local::fault::{fault, place};
use crate::local::file_system::Stability;

const FLUSHING: &str = "flushing to stable storage";

/// From this size on a new file has its content on the medium before it gets its name. The mark of the run stands for smaller
/// ones: to wait for each would cost more than its bytes.
pub(crate) const FLUSHED_FROM_BYTES: u64 = 4 << 20;
/// How many small files that replace others wait for their medium together.
pub(crate) const WAITING_MAX: usize = 64;

/// Sees that content is on the medium before a name stands for it: with `must`, and where that is told file by file.
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
        // What cannot be flushed by itself says so.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(fault(FLUSHING, errno)),
    }
}

/// Closes a file that is complete.
pub(crate) fn close(file: OwnedFd, stability: Stability) -> Result<()> {
    match stability {
        Stability::ToldByFile => close_checked(file).map_err(|errno| fault("closing the file", errno)),
        _ => Ok(()),
    }
}

/// The same of a file that others may hold open: closing any descriptor of it tells what went wrong.
pub(crate) fn close_another(file: &OwnedFd, stability: Stability) -> Result<()> {
    match stability {
        Stability::ToldByFile => {
            let another = fcntl_dupfd_cloexec(file, 0).map_err(|errno| fault("closing the file", errno))?;
            close(another, stability)
        }
        _ => Ok(()),
    }
}

/// Gives a file that is about to be changed where it lies a time that no source has, on stable storage: were that to get there
/// after the content, a cut in between would leave old time and new content.
pub(crate) fn note_change(file: &OwnedFd, stability: Stability) {
    if stability == Stability::Memory {
        return;
    }
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    if futimens(file, &Timestamps { last_access, last_modification }).is_ok() {
        // Where it fails, so does the flush behind the content, which counts.
        let _ = fsync(file);
    }
}

/// A small file that replaces another, complete but for its name, which it gets when its content is on the medium. Several wait
/// together.
#[derive(Debug)]
pub(crate) struct WaitingFile {
    /// Which record of the pack it is.
    pub(crate) index: u32,
    pub(crate) content_bytes: u64,
    path: EntryPath,
    directory: Arc<OwnedFd>,
    draft: DraftName,
    name: Vec<u8>,
    file: OwnedFd,
}

impl WaitingFile {
    /// Begins to write it out.
    pub(crate) fn begin(
        (index, content_bytes): (u32, u64),
        directory: &Directory,
        draft: DraftName,
        name: &[u8],
        file: OwnedFd,
    ) -> Self {
        // Whoever waits for it later begins anew.
        let _ = begin_writing_out(&file);
        let (path, directory) = (directory.path.clone(), Arc::clone(&directory.fd));
        Self { index, content_bytes, path, directory, draft, name: name.to_vec(), file }
    }

    /// Whether it gets this name in this directory.
    pub(crate) fn is_for(&self, directory: &EntryPath, name: &[u8]) -> bool {
        self.name == name && self.path == *directory
    }

    /// Waits for its content, and gives it its name.
    ///
    /// # Errors
    /// The system's, with the path. Nothing is left of it then.
    pub(crate) fn finish(self, stability: Stability) -> Result<(), Error> {
        let done = flush(&self.file, stability, true, true)
            .and_then(|()| rename_at(&self.directory, &self.draft, &self.name));
        if done.is_err() {
            self.discard();
        }
        done.map_err(|error| error.at(place(&self.path, &self.name)))
    }

    /// Removes it.
    pub(crate) fn discard(&self) {
        let _ = unlinkat(&self.directory, self.draft.as_bytes(), AtFlags::empty());
    }
}
