//! Tracks the file systems that were written to, so that all of them can be flushed at the end.

use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::Result;
use rustix::fd::OwnedFd;
use rustix::fs::{sync, syncfs};
use rustix::io::Errno;

use crate::local::errno::fault;
use crate::local::resolve_beneath::TreeRoot;

/// The maximum number of file systems that are flushed individually. If there are more, the whole system is flushed.
const DEVICES_MAX: usize = 32;

/// One open directory of each file system found below the root.
#[derive(Debug)]
pub(crate) struct Devices(Mutex<Vec<(u64, Arc<OwnedFd>)>>);

impl Devices {
    /// Creates an empty set.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Records the file system of an open directory.
    pub(crate) fn remember(&self, device: u64, directory: &Arc<OwnedFd>) {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if devices.len() <= DEVICES_MAX && devices.iter().all(|(known, _)| *known != device) {
            devices.push((device, Arc::clone(directory)));
        }
    }

    /// Flushes these file systems to stable storage.
    pub(crate) fn flush(&self, root: &TreeRoot) -> Result<()> {
        let devices = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut everything = devices.len() > DEVICES_MAX;
        let directories = devices.iter().map(|(_, directory)| &**directory);
        for directory in directories.chain([root.fd()]) {
            match syncfs(directory) {
                Ok(()) => {}
                // The directory could not be opened for reading.
                Err(Errno::BADF) => everything = true,
                Err(errno) => return Err(fault("flushing to stable storage", errno)),
            }
        }
        if everything {
            sync();
        }
        Ok(())
    }
}
