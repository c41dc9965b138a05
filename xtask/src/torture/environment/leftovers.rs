//! Names of what a harness creates outside its own directory (mounts, network namespaces), and cleaning up after a
//! harness that was killed.
//!
//! Every such name contains `hakobu-torture-PID-START-N`, where START is the start time of the process PID in the
//! kernel's ticks. Anything whose PID and START match no process is a leftover. The PID alone is not enough, since PIDs
//! are reused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mount::UnmountFlags;
use rustix::process::Signal;

use super::processes;

const MARK: &str = "hakobu-torture-";
static NEXT: AtomicU32 = AtomicU32::new(1);
static OWN_START: OnceLock<u64> = OnceLock::new();

/// Returns a new name: `hakobu-torture-PID-START-N`.
#[must_use]
pub fn new_name() -> String {
    let process = std::process::id();
    let start = OWN_START.get_or_init(|| processes::start(process).unwrap_or_default());
    format!("{MARK}{process}-{start}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Returns PID and start time of the process that a name belongs to, or `None` if no harness made the name.
fn maker(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.split_once(MARK)?.1.split(|other: char| !other.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Returns true if the process that created it has ended.
fn is_leftover(name: &str) -> bool {
    maker(name).is_some_and(|(process, start)| processes::start(process) != Some(start))
}

/// Returns the mount points of this process, oldest first.
///
/// # Errors
/// Returns an error if `/proc` cannot be read.
pub fn mount_points() -> std::io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescaped(field)))
        .collect())
}

/// Decodes a field of `mountinfo`, where the kernel writes space, tab, newline and backslash as `\OOO`.
fn unescaped(field: &str) -> String {
    let mut out = field.to_owned();
    for (escaped, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(escaped, plain);
    }
    out
}

/// Unmounts a file system, and waits for a while if it is busy. Finally detaches it.
pub fn unmount(mount_point: &Path) {
    for _ in 0..20 {
        match rustix::mount::unmount(mount_point, UnmountFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return,
            Err(rustix::io::Errno::BUSY) => thread::sleep(Duration::from_millis(50)),
            Err(_) => break,
        }
    }
    let _ = rustix::mount::unmount(mount_point, UnmountFlags::DETACH);
}

/// Removes what killed harnesses left: mounts, network namespaces with their processes, and directories in a scratch
/// directory. Returns the number of removed things.
///
/// # Errors
/// Returns an error if `/proc` cannot be read.
pub fn clean(scratch: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for name in names_in(Path::new("/run/netns")) {
        remove_namespace(&name);
        count += 1;
    }
    // Newest first, since one may be mounted in another.
    for mount_point in mount_points()?.into_iter().rev() {
        if is_leftover(&mount_point.to_string_lossy()) {
            let _ = rustix::mount::unmount(&mount_point, UnmountFlags::DETACH);
            count += 1;
        }
    }
    for name in names_in(scratch) {
        let _ = fs::remove_dir_all(scratch.join(name));
        count += 1;
    }
    Ok(count)
}

/// Returns the leftovers in a directory.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_leftover(name))
        .collect()
}

/// Kills the processes in a network namespace, and removes it.
pub fn remove_namespace(name: &str) {
    if let Ok(said) = Command::new("ip").args(["netns", "pids", name]).output() {
        for process in String::from_utf8_lossy(&said.stdout).lines() {
            if let Ok(process) = process.trim().parse() {
                processes::signal(process, Signal::KILL);
            }
        }
    }
    let _ = Command::new("ip").args(["netns", "delete", name]).output();
}

#[cfg(test)]
mod tests {
    use super::{is_leftover, maker, new_name, unescaped};

    #[test]
    fn a_name_tells_its_maker() {
        let name = new_name();
        let made = maker(&format!("/tmp/x/{name}/m"));
        assert_eq!(made.map(|(process, _)| process), Some(std::process::id()));
        assert!(!is_leftover(&name));
        // No process has so high a PID, and this process did not start together with the machine.
        assert!(is_leftover("/tmp/hakobu-torture-4194999-5-1"));
        assert!(is_leftover(&format!("/tmp/hakobu-torture-{}-0-1", std::process::id())));
        assert!(!is_leftover("/tmp/other"));
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
