//! Reads the mounted file systems that hold data.

use hakobu_core::disk::PATH_BYTES_MAX;
use hakobu_core::host::{HostFacts, HostMount, KernelName, MOUNT_OPTIONS_BYTES_MAX, MOUNTS_MAX};

use super::system_root::SystemRoot;

/// The kinds of file system that people copy to and from, and whose options are known here.
const KINDS: [&str; 14] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "nfs", "nfs4", "cifs", "smb3", "vfat", "exfat", "ntfs3",
    "fuseblk",
];

pub(super) fn read(root: &SystemRoot<'_>, facts: &mut HostFacts) {
    let Some(text) = root.text("/proc/self/mounts") else {
        facts.unread("/proc/self/mounts: it cannot be read");
        return;
    };
    facts.mounts = text.lines().filter_map(mount).take(MOUNTS_MAX).collect();
}

/// Parses `device place type options 0 0`, in which spaces and similar characters are written as `\040`.
fn mount(line: &str) -> Option<HostMount> {
    let words: Vec<_> = line.split(' ').collect();
    let [_, path, kind, options, ..] = words[..] else { return None };
    if !KINDS.contains(&kind) {
        return None;
    }
    let mut path = unescaped(path.as_bytes());
    path.truncate(PATH_BYTES_MAX);
    let end = match options.len() > MOUNT_OPTIONS_BYTES_MAX {
        // A cut in the middle of an option could produce a different one.
        true => {
            options.as_bytes()[..MOUNT_OPTIONS_BYTES_MAX].iter().rposition(|&byte| byte == b',').unwrap_or(0)
        }
        false => options.len(),
    };
    Some(HostMount { path, kind: KernelName::from(kind), options: options.as_bytes()[..end].to_vec() })
}

fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits =
            tail.get(..3).filter(|_| byte == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                rest = &tail[3..];
            }
            None => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::facts;
    use super::*;

    #[test]
    fn only_file_systems_that_hold_data_are_told() {
        let text = "proc /proc proc rw 0 0\n/dev/sda1 / ext4 rw,relatime 0 0\n\
                    srv:/x /mnt/a\\040b nfs4 rw,sync,wsize=32768 0 0\nbroken\n";
        let mounts = facts(&[("proc/self/mounts", text)], None).mounts;
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].path, b"/mnt/a b");
        assert!(mounts[1].has("sync") && mounts[1].number("wsize") == Some(32_768));
    }

    #[test]
    fn long_options_end_with_a_whole_one() {
        let line = format!("a /b ext4 {}sync 0 0", "option=x,".repeat(200));
        let mount = mount(&line).unwrap();
        assert!(mount.options.len() <= MOUNT_OPTIONS_BYTES_MAX && mount.options.ends_with(b"option=x"));
        assert_eq!(unescaped(b"a\\134\\9"), b"a\\\\9");
    }
}
