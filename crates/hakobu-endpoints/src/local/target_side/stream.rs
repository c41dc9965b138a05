//! Standard output as a target: bytes in order, each once, and only after they have been verified.

use std::sync::PoisonError;

use hakobu_core::endpoint::{DraftKind, DraftParameters};
use hakobu_core::extent::Extent;
use hakobu_core::zeros::ZEROS;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::{Errno, fcntl_dupfd_cloexec, retry_on_intr, write};

use super::attributes::Owner;
use super::directories::Directory;
use super::draft::LocalDraft;
use super::shared::LocalTargetState;
use crate::local::errno::fault;
use crate::local::proc_path::proc_path;

/// The interval at which a lane that waits for a reader checks whether the run was stopped.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

impl LocalDraft {
    /// Begins a draft for the stream of this target. Most targets have none.
    pub(super) fn stream(
        shared: &LocalTargetState,
        directory: &Directory,
        name: &[u8],
        begin: &DraftParameters,
    ) -> Result<Self> {
        let during = "opening standard output";
        let refused = || Error::new(ErrorKind::Refused, during, "this target is no stream");
        let stream = shared.stream.as_ref().ok_or_else(refused)?;
        let file = match open_anew(stream) {
            Some(file) => file,
            None => fcntl_dupfd_cloexec(stream, 0).map_err(|errno| fault(during, errno))?,
        };
        let owner = Owner { uid: 0, gid: 0 };
        Ok(Self::new((&begin.path, name), begin.kind, &directory.fd, file, owner, begin.size_bytes))
    }

    /// Returns true if the draft requires its bytes in order.
    pub(super) fn is_stream(&self) -> bool {
        self.kind == DraftKind::Stream
    }

    /// Writes the next bytes. Bytes that are out of order are refused, because they cannot be rearranged later.
    pub(super) fn write_in_order(&self, offset: u64, mut bytes: &[u8]) -> Result<(), Errno> {
        let mut next = self.streamed_bytes.lock().unwrap_or_else(PoisonError::into_inner);
        if *next != offset {
            return Err(Errno::SPIPE);
        }
        while !bytes.is_empty() {
            match retry_on_intr(|| write(&self.file, bytes)) {
                Ok(written) => {
                    *next += written as u64;
                    bytes = bytes.get(written..).unwrap_or_default();
                }
                Err(Errno::AGAIN) if !self.is_open() => return Err(Errno::CANCELED),
                Err(Errno::AGAIN) => {
                    let mut ready = [PollFd::new(&self.file, PollFlags::OUT)];
                    retry_on_intr(|| poll(&mut ready, Some(&LOOK_EVERY)))?;
                }
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Writes any number of zeros.
    pub(super) fn zeros_in_order(&self, extent: Extent) -> Result<(), Errno> {
        let mut at = extent.offset;
        while at < extent.end() {
            let step = (extent.end() - at).min(ZEROS.len() as u64);
            self.write_in_order(at, &ZEROS[..step as usize])?;
            at += step;
        }
        Ok(())
    }
}

/// Opens a pipe again, so that writing does not block and the flags of other descriptors stay as they are. Returns
/// `None` if it is not a pipe, or cannot be opened.
fn open_anew(stream: &OwnedFd) -> Option<OwnedFd> {
    let is_pipe = fstat(stream).is_ok_and(|found| FileType::from_raw_mode(found.st_mode).is_fifo());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    is_pipe.then(|| openat(CWD, proc_path(stream), flags, Mode::empty()).ok()).flatten()
}
