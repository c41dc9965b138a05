//! Names of what a harness makes outside its own folder (mounts, network namespaces), and tidying up after one that was killed.
//!
//! Every such name holds `hakobu-torture-PID-START-N`, where START is when the process PID began, in the kernel's ticks. Where no process has
//! both, the thing is a leftover: numbers of processes are given out again.

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

/// A new name: `hakobu-torture-PID-START-N`.
#[must_use]
pub fn new_name() -> String {
    let process = std::process::id();
    let start = OWN_START.get_or_init(|| processes::start(process).unwrap_or_default());
    format!("{MARK}{process}-{start}-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The process that made what has this name, and when that began; if it is one of ours.
fn maker(name: &str) -> Option<(u32, u64)> {
    let mut numbers = name.split_once(MARK)?.1.split(|other: char| !other.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// True where the maker is gone.
fn is_leftover(name: &str) -> bool {
    maker(name).is_some_and(|(process, start)| processes::start(process) != Some(start))
}

/// The mount points of this process, oldest first.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn mount_points() -> std::io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescaped(field)))
        .collect())
}

/// The kernel writes space, tab, newline and backslash as `\OOO`.
fn unescaped(field: &str) -> String {
    let mut out = field.to_owned();
    for (escaped, plain) in [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")] {
        out = out.replace(escaped, plain);
    }
    out
}

/// Unmounts, with some patience for what still uses it; at last it is only taken out of the tree.
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

/// Removes what killed harnesses left: mounts, network namespaces with what runs in them, and folders in a scratch folder. Returns how
/// many.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn clean(scratch: &Path) -> std::io::Result<usize> {
    let mut count = 0;
    for name in names_in(Path::new("/run/netns")) {
        remove_namespace(&name);
        count += 1;
    }
    // The newest first: one may be mounted in another.
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

/// The leftovers in a folder.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_leftover(name))
        .collect()
}

/// Ends what runs in a network namespace, and removes it.
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
        // No process has a number this high, and this one did not begin with the machine.
        assert!(is_leftover("/tmp/hakobu-torture-4194999-5-1"));
        assert!(is_leftover(&format!("/tmp/hakobu-torture-{}-0-1", std::process::id())));
        assert!(!is_leftover("/tmp/other"));
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
