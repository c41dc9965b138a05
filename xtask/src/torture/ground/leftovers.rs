//! Names of what a harness makes outside its own folder (mounts, network namespaces), and tidying up after one that was killed.
//!
//! Every such name holds `hakobu-torture-PID-N`. Where the process PID is gone, or is another program by now, the thing is a leftover.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::mount::UnmountFlags;
use rustix::process::{Pid, Signal};

const MARK: &str = "hakobu-torture-";
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A new name: `hakobu-torture-PID-N`.
#[must_use]
pub fn new_name() -> String {
    format!("{MARK}{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The process that made what has this name, if it is one of ours.
fn maker(name: &str) -> Option<u32> {
    let rest = name.split_once(MARK)?.1;
    rest.split(|other: char| !other.is_ascii_digit()).next()?.parse().ok()
}

/// True where the maker is gone.
fn is_leftover(name: &str) -> bool {
    let Some(process) = maker(name) else { return false };
    let program = |process: &str| fs::read_link(format!("/proc/{process}/exe")).ok();
    match program(&process.to_string()) {
        None => true,
        // The number may have been given to another program.
        Some(other) => {
            process != std::process::id()
                && other.file_name() != program("self").as_deref().and_then(Path::file_name)
        }
    }
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

/// Removes what killed harnesses left: mounts and network namespaces, and what runs in these. Returns how many.
///
/// # Errors
/// Where `/proc` cannot be read.
pub fn clean() -> std::io::Result<usize> {
    let mut count = 0;
    // The newest first: one may be mounted in another.
    for mount_point in mount_points()?.into_iter().rev() {
        if is_leftover(&mount_point.to_string_lossy()) {
            let _ = rustix::mount::unmount(&mount_point, UnmountFlags::DETACH);
            count += 1;
        }
    }
    for entry in fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if is_leftover(&name) {
            remove_namespace(&name);
            count += 1;
        }
    }
    Ok(count)
}

/// Ends what runs in a network namespace, and removes it.
pub fn remove_namespace(name: &str) {
    if let Ok(said) = Command::new("ip").args(["netns", "pids", name]).output() {
        for process in String::from_utf8_lossy(&said.stdout).lines() {
            if let Some(process) = process.trim().parse().ok().and_then(Pid::from_raw) {
                let _ = rustix::process::kill_process(process, Signal::KILL);
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
        assert_eq!(maker(&format!("/tmp/x/{name}/m")), Some(std::process::id()));
        assert!(!is_leftover(&name));
        // No process has a number this high.
        assert!(is_leftover("/tmp/hakobu-torture-4194999-1"));
        assert!(!is_leftover("/tmp/other"));
    }

    #[test]
    fn mount_points_are_unescaped() {
        assert_eq!(unescaped("/a\\040b\\134c"), "/a b\\c");
    }
}
