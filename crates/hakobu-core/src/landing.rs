//! Where things land: the rule of rsync, decided before anything is touched.
//!
//! `dir` goes to TARGET`/dir`; `dir/` gives its contents to TARGET. A file goes to TARGET, or
//! into it when it is a directory or ends in `/`. Several sources go into TARGET. Whether TARGET
//! exists changes nothing for a directory (rsync departs from that for an empty one; this rule
//! does not).
//!
//! Sources may land on one place, or one within the other: `dir/ other/ TARGET`. They are merged:
//! of two files of one name that of the source named first is copied, the other is a failure of
//! that entry. The engine sees to that ([`crate::engine`]).

use crate::entry::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::location::Location;
use crate::path::EntryPath;

/// One source that exists.
#[derive(Clone, Copy, Debug)]
pub struct SourceFound<'a> {
    /// What the user typed.
    pub location: &'a Location,
    /// What is there: looked at through links where the location
    /// [means contents](Location::means_contents), and only there.
    pub kind: Kind,
}

/// What is at the place the user named as the target. Links are followed to directories and
/// devices only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetFound {
    /// Nothing.
    Absent {
        /// Whether the directory that would hold it is there.
        parent_exists: bool,
    },
    /// A directory, or a link to one.
    Directory,
    /// A regular file.
    File,
    /// A link to a file or to nothing. It is replaced, never written through.
    Symlink,
    /// A character device.
    CharacterDevice {
        /// Whether it is `/dev/null`.
        null: bool,
    },
    /// A block device.
    BlockDevice,
    /// A FIFO, a socket or something else.
    Special,
    /// Standard output.
    Stream,
}

/// The existing directory, or the sink, that all places are named from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LandingRoot {
    /// The target itself, which is a directory.
    Target,
    /// The directory that holds the target ([`Location::parent_path`]).
    Parent,
    /// `/dev/null`: content is read, checked and dropped.
    Discard,
    /// A block device: it is written to.
    Device,
    /// Standard output: content goes there in order.
    Stream,
}

/// Where everything lands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landing {
    /// What the places are below of.
    pub root: LandingRoot,
    /// For each source, in their order, the path below the root: none to two names. The empty
    /// path is the root itself and occurs for the contents of a directory only.
    pub places: Vec<EntryPath>,
    /// The directory below the root that is the target and must be created first, if there is
    /// one. Where a source's contents go to it, it is that source's place.
    pub create_target_directory: Option<EntryPath>,
}

/// Decides where the sources land.
///
/// # Errors
/// `Usage`: no source, several sources for one file, two sources for one place, a kind of target
/// that this version does not write. `NotFound`: the target's parent is missing. `Conflict`: a
/// directory onto something else, or a slash behind something that is no directory.
pub fn land(sources: &[SourceFound<'_>], target: &Location, found: TargetFound) -> Result<Landing> {
    check_sources(sources)?;
    check_input(sources, target, found)?;
    // Everything that is no directory, if it comes alone, takes the target's own name.
    let single = matches!(sources, [one] if one.kind != Kind::Directory);
    match found {
        TargetFound::Directory => into_directory(sources, LandingRoot::Target, &EntryPath::root()),
        TargetFound::Absent { parent_exists: false } => Err(unfit(
            target,
            ErrorKind::NotFound,
            "the directory that would hold it is not there; create it first",
        )),
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

/// Where a tree lands of which only digests are taken.
pub fn nowhere() -> Landing {
    as_target(LandingRoot::Discard, EntryPath::root())
}

/// Whether something that was named is content, and not a link, pipe or socket.
fn has_content(source: &SourceFound<'_>) -> bool {
    matches!(source.kind, Kind::File | Kind::BlockDevice) || source.location.is_stream()
}

/// Standard input has no name that it could have in a directory, and comes alone.
fn check_input(sources: &[SourceFound<'_>], target: &Location, found: TargetFound) -> Result<()> {
    if !sources.iter().any(|source| source.location.is_stream()) {
        return Ok(());
    }
    if sources.len() > 1 {
        let words = "standard input is copied alone";
        return Err(Error::new(ErrorKind::Usage, "looking at the sources", words).at("-"));
    }
    if found == TargetFound::Directory || target.names_a_directory() {
        let words = "standard input has no name; name the file that it shall become";
        return Err(unfit(target, ErrorKind::Usage, words));
    }
    Ok(())
}

/// Why the sources cannot take the place of what is there, which is no directory.
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
            "it is a symbolic link that does not lead to a directory, although a slash is behind it; is what it leads \
             to mounted?",
        ),
        _ if target.names_a_directory() => {
            (ErrorKind::Conflict, "it is not a directory, although a slash is behind it")
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
        if source.location.means_contents() && source.kind != Kind::Directory {
            let detail = "it is not a directory, although a slash is behind it";
            let error = Error::new(ErrorKind::Conflict, "looking at the source", detail);
            return Err(error.at(source.location.as_typed()));
        }
    }
    Ok(())
}

/// The target's own name below the directory that holds it.
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

/// Directories that land on one place are merged, as rsync does; anything else that the user named
/// would be left out although it was named.
fn check_apart(sources: &[SourceFound<'_>], places: &[EntryPath]) -> Result<()> {
    let mut by_place: Vec<_> = places.iter().zip(sources).collect();
    by_place.sort_by_key(|(place, _)| *place);
    for pair in by_place.windows(2) {
        let ((first_place, first), (second_place, second)) = (pair[0], pair[1]);
        let both_directories = [first, second].iter().all(|one| one.kind == Kind::Directory);
        if first_place == second_place && !both_directories {
            let detail = format!("it would land on the same name as {}", first.location);
            let error = Error::new(ErrorKind::Usage, "looking at the source", detail);
            return Err(error.at(second.location.as_typed()));
        }
    }
    Ok(())
}

/// What makes one file or directory itself, on any machine, for as long as it runs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The kernel's identity since it started, so that numbers of two machines never match.
    pub boot_id: String,
    /// The device number.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
}

/// The identities from an entry up to `/`, the entry first, not following a link at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ancestry {
    /// Whether the entry is there. If not, the first identity is the nearest directory above it
    /// that is.
    pub exists: bool,
    /// The identities upwards.
    pub upwards: Vec<Identity>,
    /// The place as its file system names it, under all names that are known, and what is mounted
    /// below it.
    pub volumes: Vec<VolumePath>,
}

/// A place named from the root of its file system, which is the same whatever is mounted where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePath {
    /// The file system: its device number, or the file server that it comes from.
    pub volume: String,
    /// The path from its root, beginning with a slash.
    pub path: Vec<u8>,
    /// Where it is mounted below the place that was asked about; empty for that place itself.
    pub mounted_at: Vec<u8>,
    /// The device and inode number of what is mounted, where they could be asked for.
    pub identity: Option<(u64, u64)>,
    /// Whether content is read from there but never written to: the lower layer of an overlay.
    pub only_read: bool,
}

/// So many names of a place are looked at: they may come from another machine, and each is compared with each.
const VOLUMES_MAX: usize = 8192;

impl Ancestry {
    fn volumes(&self) -> impl Iterator<Item = &VolumePath> {
        self.volumes.iter().take(VOLUMES_MAX)
    }
}

impl VolumePath {
    /// Whether `self` is the place `other`, or a directory that holds it.
    fn holds(&self, other: &VolumePath) -> bool {
        self.volume == other.volume
            && match other.path.strip_prefix(self.path.as_slice()) {
                Some(rest) => rest.is_empty() || rest.starts_with(b"/") || self.path.ends_with(b"/"),
                None => false,
            }
    }
}

/// How a source and the place it lands on lie to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// They have nothing to do with each other.
    Apart,
    /// They are one and the same.
    Same,
    /// The place lies within the source, so the copy would contain itself.
    TargetInSource,
    /// The place holds the source, so the copy could replace its own source.
    SourceInTarget,
}

/// How a source lies to its landing place (not to the target that was typed). Only a directory
/// can hold something, and a file beside its landing place is fine.
pub fn relation(source: &Ancestry, source_is_directory: bool, place: &Ancestry) -> Relation {
    let (Some(source_self), Some(place_first)) = (source.upwards.first(), place.upwards.first()) else {
        return Relation::Apart;
    };
    if place.exists && source_self == place_first {
        return Relation::Same;
    }
    if source_self.boot_id == place_first.boot_id
        && let Some(relation) = relation_by_volume(source, source_is_directory, place)
    {
        return relation;
    }
    if !source_is_directory {
        return Relation::Apart;
    }
    if place.upwards.contains(source_self) {
        return Relation::TargetInSource;
    }
    if place.exists && source.upwards.contains(place_first) {
        return Relation::SourceInTarget;
    }
    Relation::Apart
}

/// The same by the names that their file systems have for them: a bind mount, a layer of an overlay or a second mount of
/// one file server has other directories above it.
fn relation_by_volume(source: &Ancestry, source_is_directory: bool, place: &Ancestry) -> Option<Relation> {
    for from in source.volumes().filter(|from| from.mounted_at.is_empty()) {
        for to in place.volumes().filter(|to| to.mounted_at.is_empty() && !to.only_read) {
            match (from.holds(to), to.holds(from)) {
                (true, true) if place.exists => return Some(Relation::Same),
                (true, false) if source_is_directory => return Some(Relation::TargetInSource),
                (false, true) if source_is_directory && place.exists => {
                    return Some(Relation::SourceInTarget);
                }
                _ => {}
            }
        }
    }
    None
}

/// A mount below a source or below the place it lands on that leads to the other one, or to a part of it: the mount point,
/// and whether it is below the source. `one_file_system`: what is on other file systems is not looked into.
pub fn mounted_within<'a>(
    source: &'a Ancestry,
    place: &'a Ancestry,
    one_file_system: bool,
) -> Option<(&'a [u8], bool)> {
    let (source_first, place_first) = (source.upwards.first()?, place.upwards.first()?);
    if source_first.boot_id != place_first.boot_id {
        return None;
    }
    let seen = |of: &'a Ancestry, first: &'a Identity| {
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

/// The directories, device and inode number each, by which a target may meet its source while it looks through a tree: the
/// source itself, what is mounted below it of a file system that the target has as well, and what is mounted below the target
/// and lies in the source.
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

/// The directory by which a source may meet the place where it lands: that itself, or where it is not there yet the one that
/// will hold it.
pub fn met_by_source(source: &Ancestry, place: &Ancestry) -> Option<(u64, u64)> {
    let first = place.upwards.first().filter(|first| on_one_machine(first, source))?;
    Some((first.device, first.inode))
}

fn on_one_machine(identity: &Identity, other: &Ancestry) -> bool {
    other.upwards.first().is_some_and(|other| other.boot_id == identity.boot_id)
}

impl Relation {
    /// Refuses everything but [`Relation::Apart`].
    ///
    /// # Errors
    /// `Refused`, saying how the two lie.
    pub fn check(self, source: &Location, target: &Location) -> Result<()> {
        let detail = match self {
            Relation::Apart => return Ok(()),
            Relation::Same => format!("source and target are the same: it would land on {source} itself"),
            Relation::TargetInSource => {
                format!("it would land within {source}, so the copy would contain itself")
            }
            Relation::SourceInTarget => {
                format!("it would land on a directory that holds {source} itself")
            }
        };
        Err(Error::new(ErrorKind::Refused, "copying to", detail).at(target.as_typed()))
    }
}

#[cfg(test)]
#[path = "landing_tests.rs"]
mod tests;
