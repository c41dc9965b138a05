//! The rules for where sources land, which are those of rsync, applied before anything is changed.
//!
//! `dir` lands at TARGET`/dir`; the contents of `dir/` land in TARGET. A file lands at TARGET, or inside it if that is
//! a directory or ends in `/`. Several sources land inside TARGET. For a directory it makes no difference whether
//! TARGET exists. (rsync makes an exception for an empty directory; hakobu does not.)
//!
//! Sources may land on the same place, or one within the other: `dir/ other/ TARGET`. They are merged: of two files of
//! the same name, the one from the source named first is copied, and the other is a failure of that entry. The engine
//! takes care of that ([`crate::engine`]).

use crate::entry::EntryKind;
use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::path::EntryPath;

/// An existing source.
#[derive(Clone, Copy, Debug)]
pub struct SourceFound<'a> {
    /// The location as typed by the user.
    pub location: &'a Location,
    /// The kind of entry. A symbolic link is followed only if the location [means contents](Location::means_contents).
    pub kind: EntryKind,
}

/// The state of the place that the user named as the target. Symbolic links are followed only to directories and
/// devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFound {
    /// There is nothing.
    Absent {
        /// True if the directory that would hold it exists.
        parent_exists: bool,
    },
    /// A directory, or a symbolic link to one.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link to a file or to nothing. It is replaced, never written through.
    Symlink,
    /// A character device.
    CharacterDevice {
        /// True if it is `/dev/null`.
        null: bool,
    },
    /// A block device.
    BlockDevice,
    /// A named pipe, a socket or something else.
    Special,
    /// Standard output.
    Stream,
}

/// The existing directory or sink to which all places are relative.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandingRoot {
    /// The target itself, which is a directory.
    Target,
    /// The directory that holds the target ([`Location::parent_path`]).
    Parent,
    /// `/dev/null`: content is read, checked and discarded.
    Discard,
    /// A block device, which is written to.
    Device,
    /// Standard output, which receives content in order.
    Stream,
}

/// The places where everything lands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// The root to which the places are relative.
    pub root: LandingRoot,
    /// For each source, in order, the path below the root. No two names land on the same path. The empty path is the
    /// root itself, and is used for the contents of a directory only.
    pub places: Vec<EntryPath>,
    /// The directory below the root that is the target and must be created first, if there is one. If the contents of a
    /// source land in it, it is that source's place.
    pub create_target_directory: Option<EntryPath>,
}

/// Determines where the sources land.
///
/// # Errors
/// `Usage`: no source, several sources for one file, two sources for one place, or a kind of target that this version
/// does not write. `NotFound`: the target's parent is missing. `Conflict`: a directory onto something else, or a
/// trailing slash on something that is not a directory.
pub fn land(sources: &[SourceFound<'_>], target: &Location, found: TargetFound) -> Result<Landing> {
    check_sources(sources)?;
    check_input(sources, target, found)?;
    // A single source that is not a directory takes the target's own name.
    let single = matches!(sources, [one] if one.kind != EntryKind::Directory);
    match found {
        TargetFound::Directory => into_directory(sources, LandingRoot::Target, &EntryPath::root()),
        TargetFound::Absent { parent_exists: false } => {
            Err(unfit(target, ErrorKind::NotFound, "its parent directory does not exist; create it first"))
        }
        TargetFound::Absent { .. } => {
            let place = place_of(target)?;
            if single && !target.names_a_directory() {
                return Ok(as_target(LandingRoot::Parent, place));
            }
            let mut landing = into_directory(sources, LandingRoot::Parent, &place)?;
            landing.create_target_directory = Some(place);
            Ok(landing)
        }
        TargetFound::File | TargetFound::Symlink if single && !target.names_a_directory() => {
            Ok(as_target(LandingRoot::Parent, place_of(target)?))
        }
        TargetFound::CharacterDevice { null: true } if single && has_content(&sources[0]) => {
            Ok(as_target(LandingRoot::Discard, EntryPath::root()))
        }
        TargetFound::BlockDevice if single && has_content(&sources[0]) => {
            Ok(as_target(LandingRoot::Device, EntryPath::root()))
        }
        TargetFound::Stream if single && has_content(&sources[0]) => {
            Ok(as_target(LandingRoot::Stream, EntryPath::root()))
        }
        _ => Err(why_not_onto(sources, target, found)),
    }
}

/// Returns the landing of a tree for which only digests are computed.
pub fn nowhere() -> Landing {
    as_target(LandingRoot::Discard, EntryPath::root())
}

/// Returns true if a source has content, unlike a symbolic link, pipe or socket.
fn has_content(source: &SourceFound<'_>) -> bool {
    matches!(source.kind, EntryKind::File | EntryKind::BlockDevice) || source.location.is_stream()
}

/// Checks the use of standard input, which has no name inside a directory and must be the only source.
fn check_input(sources: &[SourceFound<'_>], target: &Location, found: TargetFound) -> Result<()> {
    if !sources.iter().any(|source| source.location.is_stream()) {
        return Ok(());
    }
    if sources.len() > 1 {
        let words = "standard input is copied alone";
        return Err(Error::new(ErrorKind::Usage, "looking at the sources", words).at("-"));
    }
    if found == TargetFound::Directory || target.names_a_directory() {
        let words = "standard input has no name; give the path of the file";
        return Err(unfit(target, ErrorKind::Usage, words));
    }
    Ok(())
}

/// Returns the reason why the sources cannot take the place of the target, which is not a directory.
fn why_not_onto(sources: &[SourceFound<'_>], target: &Location, found: TargetFound) -> Error {
    let (kind, detail) = match found {
        TargetFound::BlockDevice => {
            (ErrorKind::Usage, "a block device takes the content of one file or one device")
        }
        TargetFound::CharacterDevice { null: true } => {
            (ErrorKind::Usage, "it takes the content of one file at a time")
        }
        TargetFound::Stream => {
            (ErrorKind::Usage, "standard output takes the content of one file or one device")
        }
        TargetFound::CharacterDevice { .. } | TargetFound::Special => {
            (ErrorKind::Usage, "writing to a device, FIFO or socket is not in this version; /dev/null is")
        }
        TargetFound::Symlink if target.names_a_directory() => (
            ErrorKind::Conflict,
            "it is a symbolic link that does not lead to a directory, although its path ends in a slash; is its \
             target mounted?",
        ),
        _ if target.names_a_directory() => {
            (ErrorKind::Conflict, "it is not a directory, although its path ends in a slash")
        }
        _ if sources.len() > 1 => (ErrorKind::Usage, "several sources need a directory as target"),
        _ => (
            ErrorKind::Conflict,
            "the source is a directory, and this is none; name another target, or remove this one if it is to be replaced",
        ),
    };
    unfit(target, kind, detail)
}

fn unfit(target: &Location, kind: ErrorKind, detail: &str) -> Error {
    Error::new(kind, "looking at the target", detail).at(target.as_typed())
}

fn as_target(root: LandingRoot, place: EntryPath) -> Landing {
    Landing { root, places: vec![place], create_target_directory: None }
}

fn check_sources(sources: &[SourceFound<'_>]) -> Result<()> {
    if sources.is_empty() {
        return Err(Error::new(ErrorKind::Usage, "looking at the sources", "there is none"));
    }
    for source in sources {
        if source.location.means_contents() && source.kind != EntryKind::Directory {
            let detail = "it is not a directory, although its path ends in a slash";
            let error = Error::new(ErrorKind::Conflict, "looking at the source", detail);
            return Err(error.at(source.location.as_typed()));
        }
    }
    Ok(())
}

/// Returns the target's own name below the directory that holds it.
fn place_of(target: &Location) -> Result<EntryPath> {
    let unsound =
        |detail: &str| Error::new(ErrorKind::Usage, "looking at the target", detail).at(target.as_typed());
    let name = target.final_name().ok_or_else(|| unsound("it has no name of its own"))?;
    EntryPath::root().join(name).map_err(|error| unsound(&error.detail))
}

fn into_directory(sources: &[SourceFound<'_>], root: LandingRoot, directory: &EntryPath) -> Result<Landing> {
    let mut places: Vec<EntryPath> = Vec::with_capacity(sources.len());
    for source in sources {
        let name = source.location.final_name().filter(|_| !source.location.means_contents());
        let place = match name {
            None => directory.clone(),
            Some(name) => directory.join(name).map_err(|error| {
                let error = Error::new(ErrorKind::Usage, "looking at the source", error.detail);
                error.at(source.location.as_typed())
            })?,
        };
        places.push(place);
    }
    check_apart(sources, &places)?;
    Ok(Landing { root, places, create_target_directory: None })
}

/// Checks that no two sources land on the same place. Directories there are merged, as in rsync; anything else that the
/// user named would silently be left out.
fn check_apart(sources: &[SourceFound<'_>], places: &[EntryPath]) -> Result<()> {
    let mut by_place: Vec<_> = places.iter().zip(sources).collect();
    by_place.sort_by_key(|(place, _)| *place);
    for pair in by_place.windows(2) {
        let ((first_place, first), (second_place, second)) = (pair[0], pair[1]);
        let both_directories = [first, second].iter().all(|one| one.kind == EntryKind::Directory);
        if first_place == second_place && !both_directories {
            let detail = format!("it would land on the same name as {}", first.location);
            let error = Error::new(ErrorKind::Usage, "looking at the source", detail);
            return Err(error.at(second.location.as_typed()));
        }
    }
    Ok(())
}

/// The identity of a file or directory among several machines, valid until its machine restarts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// The kernel's boot ID, so that numbers of two machines never match.
    pub boot_id: String,
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// The identities from an entry up to `/`, the entry first. A symbolic link at the end is not followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// True if the entry exists. If not, the first identity is that of the nearest existing directory above it.
    pub exists: bool,
    /// The identities from the entry upwards.
    pub upwards: Vec<FileIdentity>,
    /// The place within its file system, under all known names, and the mounts below it.
    pub volumes: Vec<VolumePath>,
}

/// A place named from the root of its file system, independent of mount points.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePath {
    /// The file system: its device number, or the file server that it comes from.
    pub volume: String,
    /// The path from the file system's root, beginning with a slash.
    pub path: Vec<u8>,
    /// The mount point below the place in question; empty for that place itself.
    pub mounted_at: Vec<u8>,
    /// The device and inode number of the mounted directory, if they could be determined.
    pub identity: Option<(u64, u64)>,
    /// True if content is read from there but never written to it: the lower layer of an overlay.
    pub only_read: bool,
}

/// The maximum number of names of a place that are considered. They may come from another machine, and each one is
/// compared with each.
const VOLUMES_MAX: usize = 8192;

impl Ancestry {
    fn volumes(&self) -> impl Iterator<Item = &VolumePath> {
        self.volumes.iter().take(VOLUMES_MAX)
    }
}

impl VolumePath {
    /// Returns true if `self` is the place `other`, or a directory that contains it.
    fn holds(&self, other: &VolumePath) -> bool {
        self.volume == other.volume
            && match other.path.strip_prefix(self.path.as_slice()) {
                Some(rest) => rest.is_empty() || rest.starts_with(b"/") || self.path.ends_with(b"/"),
                None => false,
            }
    }
}

/// The relation between a source and the place that it lands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandingRelation {
    /// They are unrelated.
    Apart,
    /// They are the same.
    Same,
    /// The place is within the source, so the copy would contain itself.
    TargetInSource,
    /// The place contains the source, so the copy could replace its own source.
    SourceInTarget,
}

/// Returns the relation of a source to its landing place (not to the target that was typed). Only a directory can
/// contain something; a file next to its landing place is fine.
pub fn relation(source: &Ancestry, source_is_directory: bool, place: &Ancestry) -> LandingRelation {
    let (Some(source_self), Some(place_first)) = (source.upwards.first(), place.upwards.first()) else {
        return LandingRelation::Apart;
    };
    if place.exists && source_self == place_first {
        return LandingRelation::Same;
    }
    if source_self.boot_id == place_first.boot_id
        && let Some(relation) = relation_by_volume(source, source_is_directory, place)
    {
        return relation;
    }
    if !source_is_directory {
        return LandingRelation::Apart;
    }
    if place.upwards.contains(source_self) {
        return LandingRelation::TargetInSource;
    }
    if place.exists && source.upwards.contains(place_first) {
        return LandingRelation::SourceInTarget;
    }
    LandingRelation::Apart
}

/// Returns the relation by names within the file systems. This detects bind mounts, layers of an overlay and second
/// mounts of a file server, which have other parent directories.
fn relation_by_volume(
    source: &Ancestry,
    source_is_directory: bool,
    place: &Ancestry,
) -> Option<LandingRelation> {
    for from in source.volumes().filter(|from| from.mounted_at.is_empty()) {
        for to in place.volumes().filter(|to| to.mounted_at.is_empty() && !to.only_read) {
            match (from.holds(to), to.holds(from)) {
                (true, true) if place.exists => return Some(LandingRelation::Same),
                (true, false) if source_is_directory => return Some(LandingRelation::TargetInSource),
                (false, true) if source_is_directory && place.exists => {
                    return Some(LandingRelation::SourceInTarget);
                }
                _ => {}
            }
        }
    }
    None
}

/// Finds a mount below a source, or below the place that it lands on, that leads to the other one or to a part of it.
/// Returns the mount point, and true if that is below the source. With `one_file_system`, mounts of other file systems
/// are ignored.
pub fn mounted_within<'a>(
    source: &'a Ancestry,
    place: &'a Ancestry,
    one_file_system: bool,
) -> Option<(&'a [u8], bool)> {
    let (source_first, place_first) = (source.upwards.first()?, place.upwards.first()?);
    if source_first.boot_id != place_first.boot_id {
        return None;
    }
    let seen = |of: &'a Ancestry, first: &'a FileIdentity| {
        let is_seen = move |it: &&VolumePath| {
            let elsewhere = it.identity.is_none_or(|(device, _)| device != first.device);
            it.mounted_at.is_empty() || !(one_file_system && elsewhere)
        };
        of.volumes().filter(is_seen)
    };
    for from in seen(source, source_first) {
        for to in seen(place, place_first).filter(|to| !to.only_read) {
            let is_nested = !from.mounted_at.is_empty() || !to.mounted_at.is_empty();
            if is_nested && (from.holds(to) || to.holds(from)) {
                return Some(match from.mounted_at.is_empty() {
                    true => (&to.mounted_at, false),
                    false => (&from.mounted_at, true),
                });
            }
        }
    }
    None
}

/// Returns device and inode number of each directory by which a target may reach its source while it walks a tree: the
/// source itself, mounts below it of a file system that the target has as well, and mounts below the target that lie in
/// the source.
pub fn met_by_target(source: &Ancestry, place: &Ancestry) -> Vec<(u64, u64)> {
    let Some(first) = source.upwards.first().filter(|first| on_one_machine(first, place)) else {
        return Vec::new();
    };
    let concerns = |it: &&VolumePath| place.volumes().any(|other| other.volume == it.volume);
    let in_source = |it: &&VolumePath| source.volumes().any(|source| source.holds(it));
    let at_source = source.volumes().filter(concerns).filter_map(|it| it.identity);
    let at_target = place.volumes().filter(in_source).filter_map(|it| it.identity);
    let mut met: Vec<_> = at_source.chain(at_target).chain([(first.device, first.inode)]).collect();
    met.sort_unstable();
    met.dedup();
    met
}

/// Returns device and inode number of the directory by which a source may reach the place where it lands: that place,
/// or the directory that will hold it if it does not exist yet.
pub fn met_by_source(source: &Ancestry, place: &Ancestry) -> Option<(u64, u64)> {
    let first = place.upwards.first().filter(|first| on_one_machine(first, source))?;
    Some((first.device, first.inode))
}

fn on_one_machine(identity: &FileIdentity, other: &Ancestry) -> bool {
    other.upwards.first().is_some_and(|other| other.boot_id == identity.boot_id)
}

impl LandingRelation {
    /// Rejects everything but [`LandingRelation::Apart`].
    ///
    /// # Errors
    /// `Refused`, describing the relation.
    pub fn check(self, source: &Location, target: &Location) -> Result<()> {
        let detail = match self {
            LandingRelation::Apart => return Ok(()),
            LandingRelation::Same => {
                format!("source and target are the same: it would land on {source} itself")
            }
            LandingRelation::TargetInSource => {
                format!("it would land within {source}, so the copy would contain itself")
            }
            LandingRelation::SourceInTarget => {
                format!("it would land on a directory that holds {source} itself")
            }
        };
        Err(Error::new(ErrorKind::Refused, "copying to", detail).at(target.as_typed()))
    }
}

#[cfg(test)]
#[path = "landing_tests.rs"]
mod tests;
