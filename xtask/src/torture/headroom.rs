//! Changes the free space of a target's file system, by means of a ballast beside the target.

use std::fs::{self, File};
use std::path::Path;

use anyhow::{Context, ensure};
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::space;

/// The name of the ballast: a directory beside the target.
pub const BALLAST: &str = "ballast";
const BLOCK_BYTES: u64 = 4096;
/// More than the largest of the small file systems has.
const BALLAST_BYTES_MAX: u64 = 1 << 30;
/// More inodes than any of them has.
const BALLAST_FILES_MAX: u64 = 100_000;

/// Free space that is left at the target. `None` leaves as much as there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Headroom {
    /// Bytes.
    pub bytes: Option<u64>,
    /// Inodes.
    pub inodes: Option<u64>,
}

impl Headroom {
    /// Replaces the ballast on the target's side. Where less is free already, the ballast is empty.
    ///
    /// # Errors
    /// An error of the system, or that the file system is a large one, which others use as well.
    pub fn make(&self, side: &Path) -> anyhow::Result<()> {
        let ballast = side.join(BALLAST);
        match fs::remove_dir_all(&ballast) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        if *self == Self::default() {
            return Ok(());
        }
        // A file system that is full already holds no ballast either.
        if fs::create_dir(&ballast).is_err() {
            return Ok(());
        }
        if let Some(inodes) = self.inodes {
            // The file for the bytes takes one of them.
            let surplus = space::free(side)?.inodes.saturating_sub(inodes + 1);
            ensure!(
                surplus <= BALLAST_FILES_MAX,
                "a ballast of {surplus} files is not for {}",
                side.display()
            );
            for number in 0..surplus {
                if File::create(ballast.join(number.to_string())).is_err() {
                    break;
                }
            }
        }
        let Some(bytes) = self.bytes else { return Ok(()) };
        let Ok(file) = File::create(ballast.join("bytes")) else { return Ok(()) };
        let mut surplus = space::free(side)?.bytes.saturating_sub(bytes);
        ensure!(surplus <= BALLAST_BYTES_MAX, "a ballast of {surplus} bytes is not for {}", side.display());
        while surplus >= BLOCK_BYTES {
            let length = surplus / BLOCK_BYTES * BLOCK_BYTES;
            match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, length) {
                // Free space is an estimate on some file systems.
                Err(Errno::NOSPC) => surplus = surplus / 16 * 15,
                result => return result.context("making the ballast"),
            }
        }
        Ok(())
    }

    /// Returns the shell commands that do the same in a script, where `side` is the file system.
    pub fn commands(&self) -> String {
        let mut text = format!("rm -rf side/{BALLAST}\n");
        if *self == Self::default() {
            return text;
        }
        text.push_str(&format!("mkdir side/{BALLAST}\n"));
        if let Some(inodes) = self.inodes {
            text.push_str(&format!(
                "for n in $(seq $(($(stat -f -c %d side) - {inodes} - 1))); do : >side/{BALLAST}/$n; done\n"
            ));
        }
        if let Some(bytes) = self.bytes {
            text.push_str(&format!(
                "fallocate -l $((($(stat -f -c '%a * %S' side) - {bytes}) / {BLOCK_BYTES} * {BLOCK_BYTES})) side/{BALLAST}/bytes\n"
            ));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_file_system_is_not_filled() {
        let folder = tempfile::tempdir().expect("a folder");
        assert!(space::free(folder.path()).expect("its space").bytes > BALLAST_BYTES_MAX + BLOCK_BYTES);
        let made = Headroom { bytes: Some(BLOCK_BYTES), inodes: None }.make(folder.path());
        assert!(made.is_err_and(|error| error.to_string().contains("a ballast of")));
    }
}
