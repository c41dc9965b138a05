//! Devices that are read, each opened once for all lanes: one lock, one look at what it is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::Result;
use hakobu_core::path::EntryPath;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

use super::aligned::open_direct;

/// A device that is open.
#[derive(Clone, Debug)]
pub(crate) struct SharedDevice {
    /// Through the page cache.
    pub file: Arc<OwnedFd>,
    /// Past the page cache, where it can be had.
    pub direct: Option<Arc<OwnedFd>>,
}

/// The devices of one source that are open, by root and path.
#[derive(Debug, Default)]
pub(crate) struct SharedDevices(Mutex<HashMap<(u16, EntryPath), SharedDevice>>);

impl SharedDevices {
    /// The device, opened if no lane has done so.
    pub(crate) fn get(
        &self,
        key: (u16, EntryPath),
        open: impl FnOnce() -> Result<OwnedFd>,
    ) -> Result<SharedDevice> {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = devices.get(&key) {
            return Ok(known.clone());
        }
        let file = open()?;
        let direct = open_direct(&file, OFlags::RDONLY).map(Arc::new);
        let device = SharedDevice { file: Arc::new(file), direct };
        devices.insert(key, device.clone());
        Ok(device)
    }

    /// Closes the device once no lane has it any more.
    pub(crate) fn forget(&self, key: &(u16, EntryPath)) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_is_not_opened_again() {
        let devices = SharedDevices::default();
        let key = || (3, EntryPath::new("sdb").unwrap());
        let open = || Ok(std::fs::File::open("/dev/null").unwrap().into());
        let first = devices.get(key(), open).unwrap();
        let second = devices.get(key(), || panic!("it is open")).unwrap();
        assert!(Arc::ptr_eq(&first.file, &second.file));
        devices.forget(&key());
        assert!(!Arc::ptr_eq(&first.file, &devices.get(key(), open).unwrap().file));
    }
}
