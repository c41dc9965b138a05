//! Processes that get a share of a processor, and no more: a control group of version 1 or 2, whichever this machine has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The time that a share is of.
const PERIOD_US: u32 = 100_000;
const VERSION_1: &str = "/sys/fs/cgroup/cpu";
const VERSION_2: &str = "/sys/fs/cgroup";

/// A group of processes. Dropping it lets them go.
#[derive(Debug)]
pub struct Throttle {
    group: PathBuf,
    /// Where its processes go in the end.
    parent: &'static str,
}

impl Throttle {
    /// A group whose processes have `percent` of one processor together.
    ///
    /// # Errors
    /// Those of the file system: it takes root, and control groups for processors.
    pub fn processor(percent: u32) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("hakobu-test-{}-{}", std::process::id(), COUNT.fetch_add(1, Relaxed));
        let quota_us = PERIOD_US / 100 * percent;
        let is_version_1 = Path::new(VERSION_1).join("cpu.cfs_quota_us").exists();
        let parent = if is_version_1 { VERSION_1 } else { VERSION_2 };
        if !is_version_1 {
            fs::write(Path::new(VERSION_2).join("cgroup.subtree_control"), "+cpu")?;
        }
        let group = Path::new(parent).join(name);
        fs::create_dir(&group)?;
        let throttle = Self { group, parent };
        match is_version_1 {
            true => {
                fs::write(throttle.group.join("cpu.cfs_period_us"), PERIOD_US.to_string())?;
                fs::write(throttle.group.join("cpu.cfs_quota_us"), quota_us.to_string())?;
            }
            false => fs::write(throttle.group.join("cpu.max"), format!("{quota_us} {PERIOD_US}"))?,
        }
        Ok(throttle)
    }

    /// A command that begins in the group.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let enter = "echo $$ > \"$0\"/cgroup.procs && exec \"$@\"";
        command.arg("-c").arg(enter).arg(&self.group).arg(program);
        command
    }

    /// The file that takes processes in, for a script: their numbers are written to it.
    #[must_use]
    pub fn way_in(&self) -> PathBuf {
        self.group.join("cgroup.procs")
    }

    /// Takes a process in, with all its threads.
    ///
    /// # Errors
    /// When there is no such process.
    pub fn add(&self, process: u32) -> io::Result<()> {
        fs::write(self.way_in(), process.to_string())
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let left = fs::read_to_string(self.way_in()).unwrap_or_default();
        for process in left.lines() {
            // One that has ended meanwhile is gone as well.
            let _ = fs::write(Path::new(self.parent).join("cgroup.procs"), process);
        }
        let _ = fs::remove_dir(&self.group);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;
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
}
