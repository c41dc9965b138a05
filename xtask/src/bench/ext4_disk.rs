//! An ext4 file system in memory, on a loop device, whose speed can be limited.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hakobu_testkit::devices::{self, LoopDevice, Undo};
use hakobu_testkit::throttle::{Throttle, ThrottledAccess};

use super::scratch_space::{ScratchSpace, remove};

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";

/// A mounted file system. Dropping it removes it.
#[derive(Debug)]
pub struct Ext4Disk {
    at: PathBuf,
    image: PathBuf,
    mounted: Option<Undo>,
    device: Option<LoopDevice>,
}

impl Ext4Disk {
    /// Creates a file system with options of `mkfs.ext4`, and mounts it.
    ///
    /// # Errors
    /// Returns an error without root, enough memory or the tools of ext4.
    pub fn new(scratch: &ScratchSpace, name: &str, size_bytes: u64, options: &[&str]) -> Result<Self> {
        let (at, image) = (scratch.memory().join(name), scratch.memory().join(format!("{name}.img")));
        for path in [&at, &image] {
            remove(path);
        }
        File::create_new(&image)?.set_len(size_bytes).context("making an image")?;
        let device = LoopDevice::over(&image, &[]).context("making a loop device")?;
        devices::run("mkfs.ext4", &[&["-q"], options].concat(), device.path()).context("making ext4")?;
        fs::create_dir(&at).context("making a directory to mount at")?;
        let mut disk = Self { at, image, mounted: None, device: Some(device) };
        disk.remount()?;
        Ok(disk)
    }

    /// Returns the directory where it is mounted.
    pub fn at(&self) -> &Path {
        &self.at
    }

    fn device(&self) -> Result<&LoopDevice> {
        self.device.as_ref().context("the device is gone")
    }

    /// Mounts it, or mounts it again, so that nothing of it is in the page cache.
    ///
    /// # Errors
    /// Returns an error if it is in use.
    pub fn remount(&mut self) -> Result<()> {
        drop(self.mounted.take());
        self.mounted = Some(devices::mount(self.device()?.path(), &self.at, &["-o", "noatime"])?);
        // Unmounting does not drop the cache of what another namespace still has mounted.
        fs::write(DROP_CACHES, "3").with_context(|| format!("writing {DROP_CACHES}"))
    }

    /// Limits the unwritten data that the page cache may hold, so that small copies behave like much larger ones.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot limit it.
    pub fn hold_little(&self) -> Result<()> {
        let number = fs::read_to_string(format!("/sys/class/block/{}/dev", self.device()?.name()))?;
        let cache = Path::new("/sys/class/bdi").join(number.trim());
        for (name, value) in [("strict_limit", "1"), ("max_ratio", "1")] {
            let path = cache.join(name);
            fs::write(&path, value).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }

    /// Limits the rate of reading or writing for the processes that join the returned group.
    ///
    /// # Errors
    /// Returns an error without control groups for disks.
    pub fn throttle(&self, access: ThrottledAccess, bytes_per_second: u64) -> Result<Throttle> {
        Throttle::disk(self.device()?.path(), access, bytes_per_second).context("slowing down a disk")
    }
}

impl Drop for Ext4Disk {
    fn drop(&mut self) {
        drop(self.mounted.take());
        drop(self.device.take());
        remove(&self.image);
        remove(&self.at);
    }
}
