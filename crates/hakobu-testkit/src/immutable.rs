//! Immutable directories.

use std::fs::File;
use std::io::Result;
use std::path::{Path, PathBuf};

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// An immutable directory: not even root can create, remove or change anything in it. Dropping this ends that.
#[derive(Debug)]
pub struct ImmutableDirectory(PathBuf);

impl ImmutableDirectory {
    /// Makes a directory immutable, which takes root.
    ///
    /// # Errors
    /// Those of the system: the file system may not have such a flag.
    pub fn new(path: &Path) -> Result<Self> {
        set_immutable(path, true)?;
        Ok(Self(path.to_owned()))
    }
}

impl Drop for ImmutableDirectory {
    fn drop(&mut self) {
        let _was_removed = set_immutable(&self.0, false);
    }
}

fn set_immutable(path: &Path, is_immutable: bool) -> Result<()> {
    let directory = File::open(path)?;
    let mut flags = ioctl_getflags(&directory)?;
    flags.set(IFlags::IMMUTABLE, is_immutable);
    Ok(ioctl_setflags(&directory, flags)?)
}
