//! Block devices to measure with: loop devices on files of ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::sources::Medium;

/// What the kernel counts sectors in, whatever the device's are.
const SECTOR_BYTES: u64 = 512;

/// A loop device. Dropping it takes it away; its file stays.
#[derive(Debug)]
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Makes a device of a file.
    ///
    /// # Errors
    /// What `losetup` says: most likely that it takes root.
    pub fn attach(file: &Path, medium: Medium) -> Result<Self> {
        let mut command = Command::new("losetup");
        command.args(["--find", "--show"]);
        if medium == Medium::OwnDisk {
            command.arg("--direct-io=on");
        }
        let output = command.arg(file).stdin(Stdio::null()).output().context("running losetup")?;
        let path = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() || path.is_empty() {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            bail!("losetup {}: {}", file.display(), words.trim());
        }
        Ok(Self { path: path.into() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that have been read from it, by the kernel's counter.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_bytes(&self) -> Result<u64> {
        let name = self.path.file_name().context("a device without a name")?;
        let stat = Path::new("/sys/class/block").join(name).join("stat");
        let text = fs::read_to_string(&stat).with_context(|| format!("reading {}", stat.display()))?;
        sectors_read(&text).map(|sectors| sectors * SECTOR_BYTES).context("a device without counters")
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        detach(&self.path);
    }
}

fn detach(device: &Path) {
    // Whatever is wrong with it, there is nothing else to be done.
    let _ = Command::new("losetup").arg("-d").arg(device).stdin(Stdio::null()).stderr(Stdio::null()).status();
}

/// Takes away the devices on files below a directory that somebody left behind.
pub fn detach_below(directory: &Path) {
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim_end()).starts_with(directory) {
            detach(&Path::new("/dev").join(entry.file_name()));
        }
    }
}

fn sectors_read(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_from_a_recorded_file() {
        let stat =
            "   47161       12 17109026    22399     4204    12106  3782846     4670        0    18200\n";
        assert_eq!(sectors_read(stat), Some(17_109_026));
        assert_eq!(sectors_read("1 2"), None);
    }

    #[test]
    fn what_is_read_is_counted_and_what_is_left_is_detached() {
        if hakobu_testkit::sshd::no_root() {
            return;
        }
        let directory = std::env::temp_dir().join(format!("hakobu-loops-test-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("disk");
        fs::write(&file, vec![7; 8 << 20]).unwrap();
        let device = LoopDevice::attach(&file, Medium::Memory).unwrap();
        let before = device.read_bytes().unwrap();
        let content = fs::read(device.path()).unwrap();
        assert!(content.len() == 8 << 20 && content.iter().all(|byte| *byte == 7));
        assert_eq!(device.read_bytes().unwrap() - before, 8 << 20);
        let path = device.path().to_owned();
        std::mem::forget(device);
        detach_below(&directory);
        let name = path.file_name().unwrap();
        let backing = Path::new("/sys/class/block").join(name).join("loop/backing_file");
        let still = fs::read_to_string(backing).unwrap_or_default();
        assert!(!Path::new(still.trim_end()).starts_with(&directory), "{still}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
