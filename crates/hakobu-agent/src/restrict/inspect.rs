//! Examines paths for a login that is restricted to one directory. Everything is opened beneath that directory's
//! descriptor and no symbolic link is followed, so nothing outside is accessed, even if a checked path is replaced.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{Ancestry, FileIdentity, TargetFound};
use hakobu_core::path::EntryPath;
use hakobu_endpoints::local::is_on_network;
use hakobu_proto::control::{SourceAsk, SourceLook, TargetLook};
use rustix::fs::OFlags;

use super::resolve::ConfinedDirectory;
use crate::inspect::{boot_id, found_of, image_in, kind_of};

/// Examines a source at `place`, which contains no symbolic links.
///
/// # Errors
/// `NotFound`, `PermissionDenied` or another I/O error.
pub(super) fn source(beneath: &ConfinedDirectory, place: &Path, ask: &SourceAsk) -> Result<SourceLook> {
    let fail = |error: io::Error| Error::io("looking at the source", &error).at(&ask.path);
    let metadata = beneath.lstat(place).map_err(fail)?;
    let kind = kind_of(&metadata);
    let (root, entry) = match (ask.contents && metadata.is_dir(), place.parent(), place.file_name()) {
        (false, Some(parent), Some(name)) => (parent, EntryPath::new(name.as_bytes())?),
        _ => (place, EntryPath::root()),
    };
    let image = match kind {
        EntryKind::File => beneath
            .open(place, OFlags::RDONLY | OFlags::NONBLOCK)
            .ok()
            .and_then(|file| image_in(file.as_fd(), metadata.len())),
        _ => None,
    };
    Ok(SourceLook {
        kind,
        size_bytes: metadata.len(),
        device: None,
        image,
        ancestry: ancestry(beneath, place).map_err(fail)?,
        network: on_network(beneath, place),
        written_sectors: None,
        root: root.as_os_str().as_bytes().to_vec(),
        entry,
        resolved: place.as_os_str().as_bytes().to_vec(),
    })
}

/// Examines a target, which need not exist. `place` is the path without following a symbolic link in its last
/// component, `led_to` with following it.
///
/// # Errors
/// An I/O error other than that the path does not exist.
pub(super) fn target(
    beneath: &ConfinedDirectory,
    place: &Path,
    led_to: &Path,
    typed: &[u8],
) -> Result<TargetLook> {
    let found = match beneath.lstat(place) {
        Ok(metadata) if metadata.is_symlink() => match beneath.lstat(led_to) {
            Ok(metadata) if metadata.is_file() || metadata.is_symlink() => TargetFound::Symlink,
            Ok(metadata) => found_of(&metadata),
            Err(_) => TargetFound::Symlink,
        },
        Ok(metadata) => found_of(&metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let is_directory = |metadata: Metadata| metadata.is_dir();
            let parent = place.parent().map(|parent| beneath.lstat(parent));
            TargetFound::Absent { parent_exists: parent.is_some_and(|found| found.is_ok_and(is_directory)) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            let words = "something on the way to it is not a directory";
            return Err(Error::new(ErrorKind::Conflict, "looking at the target", words).at(typed));
        }
        Err(error) => return Err(Error::io("looking at the target", &error).at(typed)),
    };
    let resolved = match found {
        TargetFound::Symlink | TargetFound::Absent { .. } => place,
        _ => led_to,
    };
    let (parent, name) = match (resolved.parent(), resolved.file_name()) {
        (Some(parent), Some(name)) => (parent, name.as_bytes()),
        _ => (resolved, &b""[..]),
    };
    Ok(TargetLook {
        found,
        network: on_network(beneath, parent),
        resolved: resolved.as_os_str().as_bytes().to_vec(),
        parent: parent.as_os_str().as_bytes().to_vec(),
        name: name.to_vec(),
        device: None,
        unfinished: None,
        stray: false,
    })
}

/// Returns the identities of a path below a directory and of all directories above it.
///
/// # Errors
/// An I/O error.
pub(super) fn place(beneath: &ConfinedDirectory, root: &Path, place: &EntryPath) -> Result<Ancestry> {
    let mut path = root.to_owned();
    place.names().for_each(|name| path.push(std::ffi::OsStr::from_bytes(name)));
    ancestry(beneath, &path)
        .map_err(|error| Error::io("looking at the target", &error).at(path.into_os_string().into_vec()))
}

fn ancestry(beneath: &ConfinedDirectory, path: &Path) -> io::Result<Ancestry> {
    let boot_id = boot_id();
    let mut upwards = Vec::new();
    let mut exists = true;
    for above in path.ancestors() {
        // The holder of the key can change nothing above the directory.
        let found = match (above == beneath.path(), beneath.holds(above)) {
            (true, _) => beneath.confinement().fd().try_clone().and_then(|own| File::from(own).metadata()),
            (false, true) => beneath.lstat(above),
            (false, false) => std::fs::symlink_metadata(above),
        };
        match found {
            Ok(found) => {
                upwards.push(FileIdentity {
                    boot_id: boot_id.clone(),
                    device: found.dev(),
                    inode: found.ino(),
                });
            }
            Err(_) if upwards.is_empty() => exists = false,
            Err(error) => return Err(error),
        }
    }
    // Other names that mounts give a path are not looked up here: only identities are compared.
    Ok(Ancestry { exists, upwards, volumes: Vec::new() })
}

/// Returns true if a path is on a network file system. False if it is missing or cannot be opened.
fn on_network(beneath: &ConfinedDirectory, place: &Path) -> bool {
    let within = if beneath.holds(place) { place } else { beneath.path() };
    beneath.hold_directory(within).is_ok_and(|(_held, path)| is_on_network(&path))
}
