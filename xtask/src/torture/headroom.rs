//! Changes the free space of a target's file system, by means of a ballast beside the target.

use std::fs::{self, File};
use std::path::Path;

use anyhow::Context;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::space;

/// The name of the ballast: a directory beside the target.
pub const BALLAST: &str = "ballast";
const BLOCK_BYTES: u64 = 4096;

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
            for number in 0..surplus {
                if File::create(ballast.join(number.to_string())).is_err() {
                    break;
                }
            }
        }
        let Some(bytes) = self.bytes else { return Ok(()) };
        let Ok(file) = File::create(ballast.join("bytes")) else { return Ok(()) };
        let mut surplus = space::free(side)?.bytes.saturating_sub(bytes);
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
