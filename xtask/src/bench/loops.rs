//! Loop devices on files of the bench, as block devices to measure with.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use hakobu_testkit::devices::LoopDevice;

use super::sources::Medium;

/// The unit of the kernel's sector counters, whatever the device's sector size.
const SECTOR_BYTES: u64 = 512;

/// Attaches a loop device to a file.
///
/// # Errors
/// Returns the error of `losetup`, most likely that root is needed.
pub fn attach(file: &Path, medium: Medium) -> Result<LoopDevice> {
    let options: &[&str] = match medium {
        Medium::Memory => &[],
        Medium::OwnDisk => &["--direct-io=on"],
    };
    LoopDevice::over(file, options).with_context(|| format!("making a device of {}", file.display()))
}

/// Returns the number of bytes that have been read from a device, by the kernel's counter.
///
/// # Errors
/// Returns an error if the counter cannot be read.
pub fn read_bytes(device: &LoopDevice) -> Result<u64> {
    let stat = Path::new("/sys/class/block").join(device.name()).join("stat");
    let text = fs::read_to_string(&stat).with_context(|| format!("reading {}", stat.display()))?;
    sectors_read(&text).map(|sectors| sectors * SECTOR_BYTES).context("a device without counters")
}

/// Detaches the loop devices that were left behind on files below a directory.
pub fn detach_below(directory: &Path) {
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let file = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if Path::new(file.trim_end()).starts_with(directory) {
            let device = Path::new("/dev").join(entry.file_name());
            // Nothing else can be done if this fails.
            let _ = Command::new("losetup").arg("--detach").arg(device).stdin(Stdio::null()).output();
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
    fn reads_are_counted_and_left_devices_are_detached() {
        if hakobu_testkit::sshd::no_root() {
            return;
        }
        let directory = std::env::temp_dir().join(format!("hakobu-loops-test-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let file = directory.join("disk");
        fs::write(&file, vec![7; 8 << 20]).unwrap();
        let device = attach(&file, Medium::Memory).unwrap();
        let before = read_bytes(&device).unwrap();
        let content = fs::read(device.path()).unwrap();
        assert!(content.len() == 8 << 20 && content.iter().all(|byte| *byte == 7));
        assert_eq!(read_bytes(&device).unwrap() - before, 8 << 20);
        let backing = Path::new("/sys/class/block").join(device.name()).join("loop/backing_file");
        std::mem::forget(device);
        detach_below(&directory);
        let still = fs::read_to_string(backing).unwrap_or_default();
        assert!(!Path::new(still.trim_end()).starts_with(&directory), "{still}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
