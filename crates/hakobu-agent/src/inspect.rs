//! Examines the locations that the user named, on the host where they are.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hakobu_core::disk::{DeviceFacts, DeviceIdentity, DiskList};
use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{Ancestry, FileIdentity, TargetFound};
use hakobu_core::path::EntryPath;
use hakobu_endpoints::block::inspect::{
    KernelDirectories, all_disks, inspect_device, inspect_image, is_stray,
};
use hakobu_endpoints::local::{StateDirectory, is_on_network};
use hakobu_proto::control::{SourceAsk, SourceLook, TargetLook};
use rustix::fs::{OFlags, major, minor};

use crate::machine::state_directory;
use crate::mounts::Mounts;
use crate::stream::Descriptor;

/// The device number of `/dev/null` on Linux.
const DEV_NULL: u64 = 0x103;
/// The minimum size of a disk image in bytes. No image with content is smaller.
const IMAGE_BYTES_MIN: u64 = 1 << 20;
/// The size of a sector in bytes. An image consists of whole sectors.
const SECTOR_BYTES: u64 = 512;
/// The time within which what another machine has made is to be seen.
const APPEARS_WITHIN: Duration = Duration::from_secs(5);
/// The time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Examines one source.
///
/// # Errors
/// `NotFound` or another error of the system, with the path as typed. `Usage` for a descriptor of a process.
pub fn source(ask: &SourceAsk) -> Result<SourceLook> {
    let fail = |error: std::io::Error| Error::io("looking at the source", &error).at(&ask.path);
    let mut typed = path_of(&ask.path);
    let mut metadata = fs::symlink_metadata(&typed).map_err(|error| {
        let mut failed = fail(error);
        if failed.kind == ErrorKind::NotFound && typed.starts_with("/dev") && !typed.starts_with("/dev/shm") {
            failed = failed.hint("`hakobu disks` lists the disks that are there");
        }
        failed
    })?;
    if metadata.is_symlink() && !ask.contents && Descriptor::of(&typed).is_some() {
        return Err(no_descriptor("looking at the source", &ask.path));
    }
    if metadata.is_symlink()
        && let Some(led_to) = followed(&typed, ask.contents).map_err(fail)?
    {
        typed = fs::canonicalize(&typed).map_err(fail)?;
        metadata = led_to;
    }
    let (root, entry) = if ask.contents && metadata.is_dir() {
        (fs::canonicalize(&typed).map_err(fail)?, EntryPath::root())
    } else {
        let (parent, name) = parent_and_name(&typed).map_err(fail)?;
        (parent, EntryPath::new(name)?)
    };
    let mut resolved = root.clone();
    if !entry.is_root() {
        resolved.push(OsStr::from_bytes(entry.as_bytes()));
    }
    let kind = kind_of(&metadata);
    let device = if kind == EntryKind::BlockDevice { Some(Box::new(inspect_device(&typed)?)) } else { None };
    Ok(SourceLook {
        kind,
        size_bytes: device.as_ref().map_or(metadata.len(), |device| device.size_bytes),
        device,
        image: if kind == EntryKind::File { image(&resolved, metadata.len()) } else { None },
        ancestry: source_ancestry(&resolved, &metadata, is_on_network(&root)).map_err(fail)?,
        network: is_on_network(&root),
        written_sectors: if kind == EntryKind::BlockDevice { written_sectors(metadata.rdev()) } else { None },
        root: root.into_os_string().into_vec(),
        entry,
        resolved: resolved.into_os_string().into_vec(),
    })
}

/// Returns the sectors of 512 bytes written to and discarded on a block device, as the kernel counts them
/// (`Documentation/block/stat.rst`).
fn written_sectors(number: u64) -> Option<u64> {
    let path = format!("/sys/dev/block/{}:{}/stat", major(number), minor(number));
    let text = fs::read_to_string(path).ok()?;
    let figures: Vec<u64> = text.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(figures.get(6)?.saturating_add(figures.get(13).copied().unwrap_or(0)))
}

/// Returns the facts about a possible disk image. A file that cannot be read fails later, with a better message.
fn image(path: &Path, size_bytes: u64) -> Option<Box<DeviceFacts>> {
    if size_bytes < IMAGE_BYTES_MIN || !size_bytes.is_multiple_of(SECTOR_BYTES) {
        return None;
    }
    // The path may lead to something else by now, which must be neither followed nor waited for.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    image_in(file.as_fd(), size_bytes)
}

/// Returns the facts about an open file that may be the image of a disk, if anything is found in it.
pub fn image_in(file: BorrowedFd<'_>, size_bytes: u64) -> Option<Box<DeviceFacts>> {
    if size_bytes < IMAGE_BYTES_MIN || !size_bytes.is_multiple_of(SECTOR_BYTES) {
        return None;
    }
    let facts = inspect_image(file, size_bytes);
    (!facts.contents.is_empty()).then(|| Box::new(facts))
}

/// Returns the metadata of what a symbolic link leads to, if that is meant instead of the link: its contents, or a
/// device, for which `/dev` has many names.
fn followed(link: &Path, contents: bool) -> std::io::Result<Option<Metadata>> {
    match fs::metadata(link) {
        Ok(metadata) if contents || metadata.file_type().is_block_device() => Ok(Some(metadata)),
        Err(error) if contents => Err(error),
        _ => Ok(None),
    }
}

/// Waits for something at a path that another machine has made, at most for [`APPEARS_WITHIN`]. Returns false if nothing is there.
///
/// A client of a file server may remember that there was nothing. Opening the directory above has it ask the server.
pub fn appears(path: &Path) -> bool {
    let ends = Instant::now() + APPEARS_WITHIN;
    loop {
        let _asks = path.parent().map(fs::File::open);
        if fs::symlink_metadata(path).is_ok() {
            return true;
        }
        if Instant::now() >= ends {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Examines a target, which need not exist.
///
/// # Errors
/// An error of the system, except that nothing is there. `Usage` for a descriptor of a process.
pub fn target(typed: &[u8]) -> Result<TargetLook> {
    let path = path_of(typed);
    let fail = |error: std::io::Error| Error::io("looking at the target", &error).at(typed);
    let found = match fs::symlink_metadata(&path) {
        Ok(metadata) if metadata.is_symlink() && !path.is_dir() && Descriptor::of(&path).is_some() => {
            return Err(no_descriptor("looking at the target", typed));
        }
        Ok(metadata) if metadata.is_symlink() => match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => TargetFound::Symlink,
            Ok(metadata) => found_of(&metadata),
            Err(_) => TargetFound::Symlink,
        },
        Ok(metadata) => found_of(&metadata),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => match parent_and_name(&path) {
            // A slash after a symbolic link asks for what it leads to, which is missing: an unmounted disk.
            Ok((parent, name)) if is_link(&parent.join(OsStr::from_bytes(&name))) => TargetFound::Symlink,
            Ok((parent, _)) => TargetFound::Absent { parent_exists: parent.is_dir() },
            Err(_) => TargetFound::Absent { parent_exists: false },
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            let words = "something on the way to it is not a directory";
            return Err(Error::new(ErrorKind::Conflict, "looking at the target", words).at(typed));
        }
        Err(error) => return Err(fail(error)),
    };
    let followed = match found {
        TargetFound::Symlink | TargetFound::Absent { .. } => None,
        _ => fs::canonicalize(&path).ok(),
    };
    let (parent, name) = match &followed {
        Some(followed) => match (followed.parent(), followed.file_name()) {
            (Some(parent), Some(name)) => (parent.to_path_buf(), name.as_bytes().to_vec()),
            _ => (followed.clone(), Vec::new()),
        },
        None => parent_and_name(&path).unwrap_or_else(|_| (path.clone(), Vec::new())),
    };
    let resolved = followed.unwrap_or_else(|| parent.join(OsStr::from_bytes(&name)));
    let device = match found {
        TargetFound::BlockDevice => Some(Box::new(inspect_device(&resolved)?)),
        _ => None,
    };
    let state = device.as_ref().and(state_directory());
    let unfinished =
        device.as_ref().zip(state).and_then(|(device, state)| state.unfinished(&device.identity));
    Ok(TargetLook {
        found,
        network: is_on_network(&parent),
        resolved: resolved.into_os_string().into_vec(),
        parent: parent.into_os_string().into_vec(),
        name,
        device,
        unfinished,
        stray: is_stray(&KernelDirectories::default(), &path).unwrap_or(false),
    })
}

/// Examines all disks.
///
/// # Errors
/// `NotFound` if the system does not show them.
pub fn disks() -> Result<DiskList> {
    let mut disks = all_disks(&KernelDirectories::default())?;
    if let Some(state) = state_directory() {
        disks.iter_mut().for_each(|disk| note_unfinished(disk, &state));
    }
    Ok(DiskList(disks))
}

/// Adds a note to a disk if a copy onto it, or onto a partition of it, is unfinished.
fn note_unfinished(disk: &mut DeviceFacts, state: &StateDirectory) {
    const WORDS: &str = "has not ended; the same command continues it";
    if state.unfinished(&disk.identity).is_some() {
        disk.note(format!("a copy onto it {WORDS}"));
    }
    let parts: Vec<_> = disk.partitions.iter().map(|partition| partition.number).collect();
    for number in parts {
        let place_id = format!("{}-part{number}", disk.identity.place_id);
        if state.unfinished(&DeviceIdentity { place_id, ..DeviceIdentity::default() }).is_some() {
            disk.note(format!("a copy onto its partition {number} {WORDS}"));
        }
    }
}

/// Returns the identities of places below a directory and of all directories above them.
///
/// # Errors
/// An error of the system.
pub fn places(root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
    let mounts = Mounts::read();
    places.iter().map(|place| place_with(&mounts, root, place)).collect()
}

fn place_with(mounts: &Mounts, root: &[u8], place: &EntryPath) -> Result<Ancestry> {
    let mut path = path_of(root);
    place.names().for_each(|name| path.push(OsStr::from_bytes(name)));
    ancestry(&path, Some((mounts, true)))
        .map_err(|error| Error::io("looking at the target", &error).at(path.as_os_str().as_bytes()))
}

/// Returns the identities of a source. A file's own are sufficient, unless a server shows it through several mounts.
fn source_ancestry(resolved: &Path, found: &Metadata, on_network: bool) -> std::io::Result<Ancestry> {
    match found.is_dir() || on_network {
        true => ancestry(resolved, Some((&Mounts::read(), found.is_dir()))),
        false => ancestry(resolved, None),
    }
}

/// Returns the directory of a typed path, with symbolic links resolved, and the last name of the path.
fn parent_and_name(path: &Path) -> std::io::Result<(PathBuf, Vec<u8>)> {
    // `file_name` ignores trailing slashes. A path that ends in `..` has none.
    match path.file_name() {
        Some(name) => {
            let parent = match path.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            Ok((fs::canonicalize(parent)?, name.as_bytes().to_vec()))
        }
        None => {
            let whole = fs::canonicalize(path)?;
            match (whole.parent(), whole.file_name()) {
                (Some(parent), Some(name)) => Ok((parent.to_path_buf(), name.as_bytes().to_vec())),
                _ => Err(std::io::Error::new(
                    std::io::ErrorKind::InvalidInput,
                    "the root directory has no name",
                )),
            }
        }
    }
}

/// Returns the identities of a path without symbolic links and of the directories above it. With `mounts` it also
/// returns its names on its file systems, and for a tree those of what is mounted in it.
fn ancestry(path: &Path, mounts: Option<(&Mounts, bool)>) -> std::io::Result<Ancestry> {
    let boot_id = boot_id();
    let identity = |metadata: &Metadata| FileIdentity {
        boot_id: boot_id.clone(),
        device: metadata.dev(),
        inode: metadata.ino(),
    };
    let (mut upwards, mut there) = (Vec::new(), None);
    let mut exists = true;
    for (depth, above) in path.ancestors().enumerate() {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        match fs::symlink_metadata(above) {
            Ok(metadata) => {
                upwards.push(identity(&metadata));
                there.get_or_insert(above);
            }
            Err(_) if upwards.is_empty() => exists = false,
            Err(error) => return Err(error),
        }
        debug_assert!(depth < 5000);
    }
    let names = |there: &Path, (mounts, tree): (&Mounts, bool)| {
        let rest = path.strip_prefix(there).map_or(&b""[..], |rest| rest.as_os_str().as_bytes());
        mounts.names_of(there, rest, tree)
    };
    let volumes = there.zip(mounts).map_or_else(Vec::new, |(there, mounts)| names(there, mounts));
    Ok(Ancestry { exists, upwards, volumes })
}

/// Returns the kernel's boot ID, the same for all processes. If it is empty, only device numbers are compared.
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Returns the error for a descriptor of a process. It is not a file, and is neither copied nor replaced.
fn no_descriptor(during: &'static str, typed: &[u8]) -> Error {
    let words = "it is a descriptor of a process; only those of hakobu itself are streams that can be copied from and to, \
                 and not where its messages go";
    Error::new(ErrorKind::Usage, during, words).at(typed)
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// Returns what the target path is, for the landing rule.
pub fn found_of(metadata: &Metadata) -> TargetFound {
    match kind_of(metadata) {
        EntryKind::Directory => TargetFound::Directory,
        EntryKind::File => TargetFound::File,
        EntryKind::Symlink => TargetFound::Symlink,
        EntryKind::CharDevice => TargetFound::CharacterDevice { null: metadata.rdev() == DEV_NULL },
        EntryKind::BlockDevice => TargetFound::BlockDevice,
        EntryKind::Fifo | EntryKind::Socket => TargetFound::Special,
    }
}

/// Returns the kind of an entry.
pub fn kind_of(metadata: &Metadata) -> EntryKind {
    let kind = metadata.file_type();
    if kind.is_dir() {
        EntryKind::Directory
    } else if kind.is_symlink() {
        EntryKind::Symlink
    } else if kind.is_fifo() {
        EntryKind::Fifo
    } else if kind.is_socket() {
        EntryKind::Socket
    } else if kind.is_block_device() {
        EntryKind::BlockDevice
    } else if kind.is_char_device() {
        EntryKind::CharDevice
    } else {
        EntryKind::File
    }
}

fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(path: &Path, contents: bool) -> Result<SourceLook> {
        source(&SourceAsk { path: path.as_os_str().as_bytes().to_vec(), contents })
    }

    #[test]
    fn a_source_link_is_itself_unless_its_contents_are_meant() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("real")).unwrap();
        std::os::unix::fs::symlink("real", place.path().join("link")).unwrap();
        let link = place.path().join("link");
        let itself = ask(&link, false).unwrap();
        assert_eq!((itself.kind, itself.entry.as_bytes()), (EntryKind::Symlink, &b"link"[..]));
        let contents = ask(&link, true).unwrap();
        assert!(contents.kind == EntryKind::Directory && contents.entry.is_root());
        assert!(contents.resolved.ends_with(b"/real"));
        assert_eq!(ask(&place.path().join("none"), false).unwrap_err().kind, ErrorKind::NotFound);

        fs::write(place.path().join("file"), "content").unwrap();
        std::os::unix::fs::symlink("file", place.path().join("to-file")).unwrap();
        let to_file = place.path().join("to-file");
        assert_eq!(ask(&to_file, false).unwrap().kind, EntryKind::Symlink);
        let content = ask(&to_file, true).unwrap();
        assert_eq!(
            (content.kind, content.entry.as_bytes(), content.size_bytes),
            (EntryKind::File, &b"file"[..], 7)
        );
    }

    #[test]
    fn targets_are_told_apart() {
        let place = tempfile::tempdir().unwrap();
        let look = |name: &str| target(place.path().join(name).as_os_str().as_bytes()).unwrap();
        fs::create_dir(place.path().join("dir")).unwrap();
        fs::write(place.path().join("file"), "x").unwrap();
        std::os::unix::fs::symlink("dir", place.path().join("to-dir")).unwrap();
        std::os::unix::fs::symlink("file", place.path().join("to-file")).unwrap();
        assert_eq!(look("dir").found, TargetFound::Directory);
        assert_eq!(look("to-dir").found, TargetFound::Directory);
        assert!(look("to-dir").resolved.ends_with(b"/dir"));
        assert_eq!(look("to-file").found, TargetFound::Symlink);
        assert_eq!(look("to-file").name, b"to-file");
        assert_eq!(look("new").found, TargetFound::Absent { parent_exists: true });
        assert_eq!(look("no/new").found, TargetFound::Absent { parent_exists: false });
        // A disk that is not mounted.
        std::os::unix::fs::symlink("/nowhere/disk", place.path().join("gone")).unwrap();
        for gone in ["gone", "gone/", "gone//", "gone/."] {
            assert_eq!(look(gone).found, TargetFound::Symlink, "{gone}");
        }
        for below in ["gone/sub", "gone/sub/", "gone/./sub"] {
            assert_eq!(look(below).found, TargetFound::Absent { parent_exists: false }, "{below}");
        }
        assert_eq!(target(b"/dev/null").unwrap().found, TargetFound::CharacterDevice { null: true });
    }

    #[test]
    fn a_place_that_is_not_there_has_the_identities_of_what_is_above() {
        let place_dir = tempfile::tempdir().unwrap();
        let root = place_dir.path().as_os_str().as_bytes();
        let found = places(root, &[EntryPath::root(), EntryPath::new("a/b").unwrap()]).unwrap();
        let [there, absent] = &found[..] else { panic!("{found:?}") };
        assert!(there.exists && !absent.exists);
        assert_eq!(there.upwards, absent.upwards);
        assert_eq!(absent.volumes[0].path, [&there.volumes[0].path, &b"/a/b"[..]].concat());
    }
}
