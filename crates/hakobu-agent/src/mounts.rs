//! The mounts of this host, and the names that places have on their file systems.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use hakobu_core::landing::VolumePath;
use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

/// The maximum depth of overlays on overlays that is examined.
const LAYERS_MAX: u32 = 4;
/// The maximum number of mounts below a place that are reported.
const MOUNTS_TOLD_MAX: usize = 4096;
/// The file system types whose mount points must not be queried: that may take long, or cause a new mount.
const UNASKED: [&[u8]; 9] = [b"nfs", b"nfs4", b"cifs", b"smb3", b"autofs", b"fuse", b"ceph", b"9p", b"afs"];

/// One mount, as listed in `/proc/self/mountinfo` (proc_pid_mountinfo(5)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct MountInfo {
    id: u64,
    /// The file system's device, `major:minor`.
    device: Vec<u8>,
    /// The directory of the file system that is mounted.
    root: Vec<u8>,
    /// The mount point.
    point: Vec<u8>,
    kind: Vec<u8>,
    /// The mounted device, or the path on a server.
    source: Vec<u8>,
    /// The options of the file system.
    options: Vec<u8>,
}

/// All mounts that this process sees.
#[derive(Clone, Debug, Default)]
pub struct Mounts(Vec<MountInfo>);

impl Mounts {
    /// Reads the mounts. Returns none if the system does not show them.
    pub fn read() -> Self {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        Self(text.split(|byte| *byte == b'\n').filter_map(MountInfo::parse).collect())
    }

    /// Returns the names of a place on its file systems. `there`: the place itself or the nearest directory above it
    /// that exists, without symbolic links; `rest`: the path below that. For a whole tree, mounts in it are included.
    pub fn names_of(&self, there: &Path, rest: &[u8], tree: bool) -> Vec<VolumePath> {
        let mut names = Vec::new();
        self.add(there, rest, (&[], false, None), LAYERS_MAX, &mut names);
        if tree && rest.is_empty() {
            self.add_mounted(there.as_os_str().as_bytes(), &mut names);
        }
        names
    }

    /// Adds the names of a place. `known`: mount point, read-only flag and identity, which all names share.
    fn add(
        &self,
        there: &Path,
        rest: &[u8],
        known: (&[u8], bool, Option<(u64, u64)>),
        layers: u32,
        names: &mut Vec<VolumePath>,
    ) {
        let Some(mount) = self.mount_of(there) else { return };
        let inner = match there.as_os_str().as_bytes().strip_prefix(mount.point.as_slice()) {
            Some(inner) => joined(inner, rest),
            // The mount is not above the place, for example after a change of the root directory.
            None => return,
        };
        self.add_of_mount(mount, &inner, known, layers, names);
    }

    /// Adds the names of the path `inner` of a mount.
    fn add_of_mount(
        &self,
        mount: &MountInfo,
        inner: &[u8],
        (mounted_at, only_read, identity): (&[u8], bool, Option<(u64, u64)>),
        layers: u32,
        names: &mut Vec<VolumePath>,
    ) {
        let mut name = |volume: String, path: Vec<u8>| {
            names.push(VolumePath { volume, path, mounted_at: mounted_at.to_vec(), identity, only_read });
        };
        let within = joined(&mount.root, inner);
        name(String::from_utf8_lossy(&mount.device).into_owned(), within.clone());
        if let Some((server, exported)) = mount.server() {
            name(server, joined(&exported, &within));
        }
        if mount.kind == b"overlay" && layers > 0 {
            for (layer, only_read) in mount.layers() {
                let Ok(layer) = fs::canonicalize(Path::new(OsStr::from_bytes(&layer))) else { continue };
                let known = (mounted_at, only_read, identity);
                self.add(&layer, &within, known, layers - 1, names);
            }
        }
    }

    /// Adds the names of the mounts below a directory, as far as they are visible.
    fn add_mounted(&self, directory: &[u8], names: &mut Vec<VolumePath>) {
        for mount in &self.0 {
            let below = mount.point.strip_prefix(directory);
            let is_below = below.is_some_and(|below| {
                !below.is_empty() && (below.starts_with(b"/") || directory.ends_with(b"/"))
            });
            if !is_below {
                continue;
            }
            let identity = match mount.may_be_asked() {
                true => match identity(&mount.point) {
                    // Another mount covers this one.
                    Some((_, id)) if id != mount.id => continue,
                    found => found.map(|(identity, _)| identity),
                },
                false => None,
            };
            self.add_of_mount(mount, b"", (&mount.point, false, identity), LAYERS_MAX, names);
            if names.len() > MOUNTS_TOLD_MAX {
                return;
            }
        }
    }

    /// Returns the mount that a path without symbolic links is on.
    fn mount_of(&self, there: &Path) -> Option<&MountInfo> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
        let found = statx(CWD, there, flags, StatxFlags::MNT_ID).ok();
        // Older kernels do not report the mount ID.
        if let Some(found) = found.filter(|found| found.stx_mask & StatxFlags::MNT_ID.bits() != 0) {
            return self.0.iter().find(|mount| mount.id == found.stx_mnt_id);
        }
        let path = there.as_os_str().as_bytes();
        let holds = |mount: &&MountInfo| {
            let rest = path.strip_prefix(mount.point.as_slice());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/") || mount.point.ends_with(b"/"))
        };
        // Of several mounts on one point, the last one is visible.
        self.0.iter().filter(holds).max_by_key(|mount| mount.point.len())
    }
}

impl MountInfo {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut words = line.split(|byte| *byte == b' ');
        let id = str::from_utf8(words.next()?).ok()?.parse().ok()?;
        let device = words.nth(1)?.to_vec();
        let (root, point) = (unescaped(words.next()?), unescaped(words.next()?));
        words.by_ref().find(|word| *word == b"-")?;
        let kind = words.next()?.to_vec();
        let source = unescaped(words.next().unwrap_or_default());
        let options = words.next().unwrap_or_default().to_vec();
        Some(Self { id, device, root, point, kind, source, options })
    }

    fn may_be_asked(&self) -> bool {
        !UNASKED.contains(&self.kind.as_slice()) && !self.kind.starts_with(b"fuse.")
    }

    /// Returns the file server of a mount, and the path on it.
    fn server(&self) -> Option<(String, Vec<u8>)> {
        let nfs = matches!(&self.kind[..], b"nfs" | b"nfs4");
        let smb = matches!(&self.kind[..], b"cifs" | b"smb3");
        if smb {
            let share = self.source.strip_prefix(b"//")?;
            let slash = share.iter().position(|byte| *byte == b'/')?;
            let host = self.option(b"addr").unwrap_or_else(|| share[..slash].to_vec());
            return Some((format!("smb {}", String::from_utf8_lossy(&host)), share[slash..].to_vec()));
        }
        if !nfs && !matches!(&self.kind[..], b"fuse.sshfs" | b"ceph") {
            return None;
        }
        // An address in brackets contains colons.
        let begin = self.source.iter().position(|byte| *byte == b']').unwrap_or(0);
        let colon = begin + self.source[begin..].iter().position(|byte| *byte == b':')?;
        let host = self.option(b"addr").unwrap_or_else(|| self.source[..colon].to_vec());
        let kind = if nfs { "nfs" } else { str::from_utf8(&self.kind).ok()? };
        Some((format!("{kind} {}", String::from_utf8_lossy(&host)), self.source[colon + 1..].to_vec()))
    }

    /// Returns the directories that an overlay consists of, and true for those that are only read.
    fn layers(&self) -> Vec<(Vec<u8>, bool)> {
        let mut layers = Vec::new();
        for option in self.options.split(|byte| *byte == b',') {
            let Some(equals) = option.iter().position(|byte| *byte == b'=') else { continue };
            let (name, value) = (&option[..equals], &option[equals + 1..]);
            let only_read = match name {
                b"upperdir" => false,
                b"lowerdir" | b"lowerdir+" | b"datadir+" => true,
                _ => continue,
            };
            let value = unescaped(value);
            let each = if only_read { split_unescaped(&value, b':') } else { vec![value] };
            let each = each.into_iter().map(|layer| without_backslashes(&layer));
            layers.extend(each.filter(|layer| layer.starts_with(b"/")).map(|layer| (layer, only_read)));
        }
        layers
    }

    fn option(&self, name: &[u8]) -> Option<Vec<u8>> {
        let value = |option: &[u8]| option.strip_prefix(name)?.strip_prefix(b"=").map(<[u8]>::to_vec);
        self.options.split(|byte| *byte == b',').find_map(value)
    }
}

/// Splits at a byte that is not preceded by a backslash.
fn split_unescaped(text: &[u8], at: u8) -> Vec<Vec<u8>> {
    let (mut parts, mut escaped) = (vec![Vec::new()], false);
    for byte in text {
        if *byte == at && !escaped {
            parts.push(Vec::new());
            continue;
        }
        escaped = *byte == b'\\' && !escaped;
        if let Some(last) = parts.last_mut() {
            last.push(*byte);
        }
    }
    parts
}

/// Removes one level of backslashes, with which overlay options escape colons.
fn without_backslashes(text: &[u8]) -> Vec<u8> {
    let mut rest = text.iter();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        plain.push(if *byte == b'\\' { *rest.next().unwrap_or(byte) } else { *byte });
    }
    plain
}

/// Decodes a word of the file, in which blanks, tabs, line ends and backslashes are written as three octal digits.
fn unescaped(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let digit = |byte: &u8| matches!(byte, b'0'..=b'7');
        match tail {
            [a @ b'0'..=b'3', b, c, behind @ ..] if *first == b'\\' && digit(b) && digit(c) => {
                plain.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = behind;
            }
            _ => {
                plain.push(*first);
                rest = tail;
            }
        }
    }
    plain
}

/// Joins a path and one below it, with one slash between two names and none at the end.
fn joined(path: &[u8], below: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(path.len() + below.len() + 1);
    let names = [path, below].into_iter().flat_map(|part| part.split(|byte| *byte == b'/'));
    for name in names.filter(|name| !name.is_empty()) {
        whole.push(b'/');
        whole.extend_from_slice(name);
    }
    if whole.is_empty() { b"/".to_vec() } else { whole }
}

/// Returns the device and inode number of what is at a path, and the ID of its mount.
fn identity(path: &[u8]) -> Option<((u64, u64), u64)> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::INO | StatxFlags::MNT_ID).ok()?;
    let device = makedev(found.stx_dev_major, found.stx_dev_minor);
    (found.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(((device, found.stx_ino), found.stx_mnt_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_escapes() {
        let line =
            br"36 35 98:0 /big/sub /mnt/a\040b rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue";
        let mount = MountInfo::parse(line).unwrap();
        assert_eq!((mount.id, &mount.device[..], &mount.root[..]), (36, &b"98:0"[..], &b"/big/sub"[..]));
        assert_eq!((&mount.point[..], &mount.kind[..]), (&b"/mnt/a b"[..], &b"ext4"[..]));
        assert_eq!(MountInfo::parse(b""), None);
        assert_eq!(MountInfo::parse(b"36 35 98:0 / /mnt rw"), None);
    }

    #[test]
    fn names_are_those_of_the_file_system() {
        let mounts =
            |lines: &[&str]| Mounts(lines.iter().filter_map(|it| MountInfo::parse(it.as_bytes())).collect());
        let names = |mounts: &Mounts, index: usize, inner: &str| -> Vec<(String, String)> {
            let mut names = Vec::new();
            mounts.add_of_mount(&mounts.0[index], inner.as_bytes(), (&[], false, None), 1, &mut names);
            names.into_iter().map(|it| (it.volume, String::from_utf8(it.path).unwrap())).collect()
        };
        let all = mounts(&[
            "1 0 8:1 / / rw - ext4 /dev/sda1 rw",
            "2 1 8:1 /big/sub /bind rw - ext4 /dev/sda1 rw",
            "3 1 0:50 / /n rw - nfs4 srv:/export/a rw,vers=4.2,addr=192.0.2.1",
            "4 1 0:51 / /m rw - nfs4 other:/export rw,addr=192.0.2.1",
            "5 1 0:52 /d /s rw - cifs //srv/share/x rw",
        ]);
        let name = |volume: &str, path: &str| (volume.to_owned(), path.to_owned());
        assert_eq!(names(&all, 0, "/big/sub/x"), [name("8:1", "/big/sub/x")]);
        assert_eq!(names(&all, 1, "/x"), [name("8:1", "/big/sub/x")]);
        assert_eq!(names(&all, 2, "/x")[1], name("nfs 192.0.2.1", "/export/a/x"));
        assert_eq!(names(&all, 3, "/a/x")[1], name("nfs 192.0.2.1", "/export/a/x"));
        assert_eq!(names(&all, 4, "")[1], name("smb srv", "/share/x/d"));
    }

    #[test]
    fn an_overlay_names_its_layers() {
        let options = r"rw,lowerdir=/l\134:1:/l2,upperdir=/u\0401,workdir=/w";
        let line = format!("7 1 0:60 / /merged rw - overlay overlay {options}");
        let mount = MountInfo::parse(line.as_bytes()).unwrap();
        let expected = [(&b"/l:1"[..], true), (b"/l2", true), (b"/u 1", false)];
        let found = mount.layers();
        assert_eq!(found.iter().map(|(path, read)| (&path[..], *read)).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn this_machines_places_have_names() {
        let place = tempfile::tempdir().unwrap();
        let there = fs::canonicalize(place.path()).unwrap();
        let mounts = Mounts::read();
        let (itself, below) = (mounts.names_of(&there, b"", true), mounts.names_of(&there, b"a/b", false));
        assert_eq!(below[0].path, [&itself[0].path, &b"/a/b"[..]].concat());
        assert!(mounts.names_of(Path::new("/"), b"", true).iter().any(|name| name.mounted_at == b"/proc"));
    }
}
