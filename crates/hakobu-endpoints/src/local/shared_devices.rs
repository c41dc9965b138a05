//! Source devices, each opened once for all lanes, with one lock and one inspection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use hakobu_core::Result;
use hakobu_core::path::EntryPath;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;

use super::aligned::open_direct;

/// An open device.
#[derive(Clone, Debug)]
pub(crate) struct SharedDevice {
    /// The descriptor that uses the page cache.
    pub file: Arc<OwnedFd>,
    /// The descriptor for direct I/O, if available.
    pub direct: Option<Arc<OwnedFd>>,
}

/// The open devices of one source, by root and path.
#[derive(Debug, Default)]
pub(crate) struct SharedDevices(Mutex<HashMap<(u16, EntryPath), SharedDevice>>);

impl SharedDevices {
    /// Returns the device, which is opened unless a lane has done so.
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

    /// Removes the device. It is closed once no lane uses it.
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
