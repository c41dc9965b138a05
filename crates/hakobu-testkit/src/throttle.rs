//! Limits the processor time of processes, and the rate of disks, with control groups of version 1 or 2, whichever
//! this machine has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rustix::fs::{major, minor, stat};

/// The period of the processor quota, in microseconds.
const PERIOD_US: u32 = 100_000;
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const DISKS_VERSION_1: &str = "/sys/fs/cgroup/blkio";
const VERSION_2: &str = "/sys/fs/cgroup";

/// The limited kind of access to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThrottledAccess {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// A group of processes. Dropping it removes the limits.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    /// The group to which its processes return at the end.
    parent: &'static str,
    /// The file with the rule for processes outside of the group, and the text that revokes it.
    outside: Option<(PathBuf, String)>,
}

impl Throttle {
    /// Creates a group whose processes share `percent` of one processor.
    ///
    /// # Errors
    /// File system errors: it requires root, and control groups for processors.
    pub fn processor(percent: u32) -> io::Result<Self> {
        let quota_us = PERIOD_US / 100 * percent;
        let is_version_1 = Path::new(VERSION_1).join("cpu.cfs_quota_us").exists();
        let throttle = Self::within(if is_version_1 { VERSION_1 } else { VERSION_2 }, "+cpu")?;
        match is_version_1 {
            true => {
                throttle.rule("cpu.cfs_period_us", &PERIOD_US.to_string())?;
                throttle.rule("cpu.cfs_quota_us", &quota_us.to_string())?;
            }
            false => throttle.rule("cpu.max", &format!("{quota_us} {PERIOD_US}"))?,
        }
        Ok(throttle)
    }

    /// Creates a group whose processes share a rate limit in bytes per second on a disk. With version 1 the rule
    /// applies to all other processes on the machine as well, since they write the data in the page cache. So it
    /// should be a dedicated disk.
    ///
    /// # Errors
    /// File system errors: it requires root, control groups for disks, and a disk.
    pub fn disk(device: &Path, access: ThrottledAccess, bytes_per_second: u64) -> io::Result<Self> {
        let number = stat(device)?.st_rdev;
        let disk = format!("{}:{}", major(number), minor(number));
        let is_version_1 = Path::new(DISKS_VERSION_1).join("blkio.throttle.read_bps_device").exists();
        if !is_version_1 {
            let throttle = Self::within(VERSION_2, "+io")?;
            let what = if access == ThrottledAccess::Read { "rbps" } else { "wbps" };
            throttle.rule("io.max", &format!("{disk} {what}={bytes_per_second}"))?;
            return Ok(throttle);
        }
        let mut throttle = Self::within(DISKS_VERSION_1, "")?;
        let what = if access == ThrottledAccess::Read { "read" } else { "write" };
        let (file, rule) =
            (format!("blkio.throttle.{what}_bps_device"), format!("{disk} {bytes_per_second}"));
        throttle.rule(&file, &rule)?;
        let outside = Path::new(DISKS_VERSION_1).join(file);
        fs::write(&outside, rule)?;
        throttle.outside = Some((outside, format!("{disk} 0")));
        Ok(throttle)
    }

    /// Creates a group.
    fn within(parent: &'static str, controller: &str) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hakobu-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        if parent == VERSION_2 {
            fs::write(Path::new(VERSION_2).join("cgroup.subtree_control"), controller)?;
        }
        let group = Path::new(parent).join(name);
        fs::create_dir(&group)?;
        Ok(Self { group, parent, outside: None })
    }

    fn rule(&self, file: &str, rule: &str) -> io::Result<()> {
        fs::write(self.group.join(file), rule)
    }

    /// Returns a command that starts in the group.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
        command.arg("-c").arg(enter).arg(&self.group).arg(program);
        command
    }

    /// Returns the path of the file to which a script writes the IDs of processes to add.
    #[must_use]
    pub fn way_in(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Adds a process with all its threads.
    ///
    /// # Errors
    /// If there is no such process.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.way_in(), process.to_string())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        if let Some((file, rule)) = &self.outside {
            let _ = fs::write(file, rule);
        }
        let left = fs::read_to_string(self.way_in()).unwrap_or_default();
        for process in left.lines() {
            // A process that has ended meanwhile is gone as well.
            let _ = fs::write(Path::new(self.parent).join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
    use crate::devices::LoopDevice;
    use crate::sshd::no_root;

    #[test]
    fn a_process_is_taken_in_and_let_go() {
        if no_root() {
            return;
        }
        let throttle = Throttle::processor(20).unwrap();
        let mut child = Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap();
        throttle.add(child.id()).unwrap();
        let inside = fs::read_to_string(throttle.group.join("cgroup.procs")).unwrap();
        assert_eq!(inside.trim(), child.id().to_string());
        let group = throttle.group.clone();
        drop(throttle);
        assert!(!group.exists());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Checks that only the requested access is limited, and only as long as the throttle exists.
    #[test]
    fn a_disk_is_limited_and_let_go() {
        if no_root() || !Path::new(DISKS_VERSION_1).exists() {
            return;
        }
        let disk = LoopDevice::new(1 << 20).unwrap();
        let rules = |what: &str| {
            let file = format!("blkio.throttle.{what}_bps_device");
            fs::read_to_string(Path::new(DISKS_VERSION_1).join(file)).unwrap()
        };
        let number = stat(disk.path()).unwrap().st_rdev;
        let rule = format!("{}:{} 1000000\n", major(number), minor(number));
        let throttle = Throttle::disk(disk.path(), ThrottledAccess::Write, 1_000_000).unwrap();
        assert!(rules("write").contains(&rule) && !rules("read").contains(&rule));
        drop(throttle);
        assert!(!rules("write").contains(&rule));
    }
}
