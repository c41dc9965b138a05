//! Determines the source and the target of the copy: both are examined, and the common landing rules decide the target
//! path.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{Landing, LandingRoot, SourceFound, TargetFound, land};
use hakobu_core::location::Location;
use hakobu_core::path::EntryPath;
use hakobu_proto::control::SourceAsk;

use super::listing::{NOWHERE, cannot_be_read};
use super::options::RsyncPurpose;
use super::output::{ItemizedEntry, RsyncMessage};
use super::record::RsyncRecord;
use super::remote::{as_directory, joined};
use super::remote_rsync::{RemoteAccess, RsyncOrder};
use hakobu_agent::inspect;
use hakobu_core::prompts::Prompts;

/// Both endpoints of a run.
#[derive(Debug)]
pub(super) struct RsyncEndpoints {
    /// The local directory that names are relative to.
    pub local: Vec<u8>,
    /// The remote directory that names are relative to.
    pub far: Vec<u8>,
    /// The prefix of all names: the tree's own name, or nothing if its contents are copied.
    pub prefix: EntryPath,
    /// For an entry that is not a tree: rsync's source and target arguments.
    pub single: Option<(OsString, OsString)>,
    /// True if a remote source is itself a file with a set-ID bit.
    pub has_set_id: bool,
    /// The source and the path where it lands, for people.
    pub source_name: Vec<u8>,
    pub target_name: Vec<u8>,
}

impl RsyncEndpoints {
    /// Returns the name of a single entry at the target.
    ///
    /// # Errors
    /// `Usage` if it has none.
    pub fn single_name(&self) -> Result<EntryPath> {
        let name = self.target_name.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        EntryPath::new(name)
    }

    /// Examines both endpoints.
    ///
    /// # Errors
    /// A path does not exist or cannot be accessed, or the landing rules refuse it.
    pub fn find(way: &RemoteAccess<'_>, prompts: &mut dyn Prompts) -> Result<Self> {
        let [source] = &way.request.sources[..] else {
            return Err(Error::new(ErrorKind::Usage, "looking at the locations", "there is one source"));
        };
        match way.outward {
            true => outward(way, source, prompts),
            false => inward(way, source, prompts),
        }
    }

    /// Returns rsync's argument for the local directory.
    fn local_argument(&self) -> OsString {
        OsString::from_vec(as_directory(&self.local))
    }

    /// Returns the order for the whole tree, without names.
    pub fn order(&self, way: &RemoteAccess<'_>) -> RsyncOrder {
        let (local, far) = (self.local_argument(), way.remote.argument(&self.far));
        match way.outward {
            true => RsyncOrder { from: local, to: far, names: None },
            false => RsyncOrder { from: far, to: local, names: None },
        }
    }

    /// Returns the order for some names below the two directories.
    pub fn order_of<'a>(
        &self,
        way: &RemoteAccess<'_>,
        paths: impl Iterator<Item = &'a EntryPath>,
    ) -> RsyncOrder {
        let order = self.order(way);
        if way.outward {
            return RsyncOrder { names: Some(names(b"./", paths)), ..order };
        }
        // A daemon of 3.5.0 without chroot opens no file of a list below another directory than the module's.
        let mut parts = self.far.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
        let module = parts.next().unwrap_or_default();
        let mut lead = parts.collect::<Vec<_>>().join(&b'/');
        lead.extend_from_slice(if lead.is_empty() { b"./" } else { b"/./" });
        RsyncOrder {
            from: way.remote.argument(&as_directory(module)),
            names: Some(names(&lead, paths)),
            ..order
        }
    }

    /// Returns the order for some names from another local directory to the same target.
    pub fn order_from<'a>(
        &self,
        way: &RemoteAccess<'_>,
        from: OsString,
        paths: impl Iterator<Item = &'a EntryPath>,
    ) -> RsyncOrder {
        RsyncOrder { from, names: Some(names(b"./", paths)), ..self.order(way) }
    }

    /// Returns the path of the local tree.
    pub fn local_tree(&self) -> Vec<u8> {
        joined(&self.local, self.prefix.as_bytes())
    }

    /// Returns the path of the remote tree.
    pub fn far_tree(&self) -> Vec<u8> {
        as_directory(&joined(&self.far, self.prefix.as_bytes()))
    }

    /// Records rsync's failures of single entries.
    pub fn failures(&self, record: &RsyncRecord<'_>, failures: Vec<(Vec<u8>, Error)>) {
        for (path, error) in failures {
            record.failure(self.below(&path), error);
        }
    }

    /// Returns the path of an entry that rsync named in full, relative to the directory of all names.
    fn below(&self, named: &[u8]) -> Vec<u8> {
        let in_module = self.far.splitn(2, |byte| *byte == b'/').nth(1).unwrap_or_default();
        let tops = [&self.local[..], &self.far[..], in_module];
        let bare = |path: &[u8]| path.strip_prefix(b"/").unwrap_or(path).to_vec();
        let named = bare(named);
        let below = tops.iter().map(|top| bare(top)).filter(|top| !top.is_empty()).find_map(|top| {
            let rest = named.strip_prefix(top.strip_suffix(b"/").unwrap_or(&top))?;
            rest.strip_prefix(b"/").map(<[u8]>::to_vec)
        });
        without_suffix_of_a_draft(below.unwrap_or(named))
    }
}

/// Returns names in the format of `--files-from --from0`. With a leading `./` none is read as a comment, and the part
/// before `/./` does not belong to the name.
fn names<'a>(lead: &[u8], paths: impl Iterator<Item = &'a EntryPath>) -> Vec<u8> {
    let mut names = Vec::new();
    for path in paths {
        names.extend_from_slice(lead);
        names.extend_from_slice(path.as_bytes());
        names.push(0);
    }
    names
}

/// Removes the suffix of a draft: rsync writes `dir/.name.XXXXXX`, and names that in an error.
fn without_suffix_of_a_draft(path: Vec<u8>) -> Vec<u8> {
    let begin = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let name = &path[begin..];
    let suffix = name.len().saturating_sub(7);
    let random = &name[suffix..];
    let is_draft = name.first() == Some(&b'.')
        && suffix > 1
        && random.first() == Some(&b'.')
        && random.get(1..).is_some_and(|rest| rest.iter().all(u8::is_ascii_alphanumeric));
    match is_draft {
        true => [&path[..begin], &name[1..suffix]].concat(),
        false => path,
    }
}

/// Finds the endpoints of a copy from this host to the remote one.
fn outward(way: &RemoteAccess<'_>, source: &Location, prompts: &mut dyn Prompts) -> Result<RsyncEndpoints> {
    let ask = SourceAsk { path: source.path().to_vec(), contents: source.means_contents() };
    let look = inspect::source(&ask)?;
    check_kind(source, look.kind)?;
    let target = &way.request.target;
    let found = far_target(way, target, prompts)?;
    let landing = land(&[SourceFound { location: source, kind: look.kind }], target, found)?;
    let far = as_directory(target.path());
    let mut ends = RsyncEndpoints {
        local: look.root,
        far,
        prefix: look.entry,
        single: None,
        has_set_id: false,
        source_name: look.resolved.clone(),
        target_name: Vec::new(),
    };
    let place = match look.kind == EntryKind::Directory {
        true => joined(&ends.far, ends.prefix.as_bytes()),
        false => {
            let place = place_of_one(&landing, target.path(), ends.prefix.as_bytes());
            let from = OsString::from_vec(look.resolved);
            ends.single = Some((from, way.remote.argument(&place.0)));
            place.1
        }
    };
    ends.target_name = way.remote.name_of(&place);
    Ok(ends)
}

/// Finds the endpoints of a copy from the remote host to this one.
fn inward(way: &RemoteAccess<'_>, source: &Location, prompts: &mut dyn Prompts) -> Result<RsyncEndpoints> {
    let contents = source.means_contents();
    let item = far_look(way, source.path(), contents, prompts)?.ok_or_else(|| {
        let words = match contents {
            true => "there is no such directory",
            false => "there is no such file or directory",
        };
        let name = way.remote.name_of(source.path());
        Error::new(ErrorKind::NotFound, "looking at the source", words).at(name)
    })?;
    check_kind(source, item.kind)?;
    let target = &way.request.target;
    let look = inspect::target(target.path())?;
    let landing = land(&[SourceFound { location: source, kind: item.kind }], target, look.found)?;
    let name = match contents {
        true => EntryPath::root(),
        false => EntryPath::new(source.final_name().unwrap_or_default())?,
    };
    let from = match contents {
        true => source.path().to_vec(),
        false => source.parent_path().unwrap_or_default(),
    };
    let mut ends = RsyncEndpoints {
        local: look.resolved,
        far: as_directory(&from),
        prefix: name,
        single: None,
        has_set_id: item.has_set_id(),
        source_name: way.remote.name_of(source.path()),
        target_name: Vec::new(),
    };
    ends.target_name = match item.kind == EntryKind::Directory {
        true => ends.local_tree(),
        false => {
            let place = place_of_one(&landing, &ends.local, ends.prefix.as_bytes());
            ends.single = Some((way.remote.argument(source.path()), OsString::from_vec(place.0)));
            place.1
        }
    };
    Ok(ends)
}

/// Returns the target path of a single entry: as rsync's argument, and in full.
fn place_of_one(landing: &Landing, target: &[u8], name: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let into = landing.root == LandingRoot::Target || landing.create_target_directory.is_some();
    match into {
        true => (as_directory(target), joined(target, name)),
        false => (target.to_vec(), target.to_vec()),
    }
}

fn check_kind(source: &Location, kind: EntryKind) -> Result<()> {
    if matches!(kind, EntryKind::Directory | EntryKind::File | EntryKind::Symlink) {
        return Ok(());
    }
    let words = format!("it is {}; rsync copies trees, files and links", kind.words());
    Err(Error::new(ErrorKind::Usage, "looking at the source", words).at(source.as_typed()))
}

/// Returns a local path.
pub(super) fn here(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Returns the entry at a remote path; `inside` follows symbolic links, for directories only.
pub(super) fn far_look(
    way: &RemoteAccess<'_>,
    path: &[u8],
    inside: bool,
    prompts: &mut dyn Prompts,
) -> Result<Option<ItemizedEntry>> {
    let path = if inside { as_directory(path) } else { path.to_vec() };
    let order = RsyncOrder { from: way.remote.argument(&path), to: OsString::from(NOWHERE), names: None };
    let (mut found, mut unread) = (None, None);
    let failures =
        way.run_patiently(RsyncPurpose::Look { inside }, &order, prompts, &mut |said| match said {
            RsyncMessage::Item(item) => drop(found.get_or_insert(item)),
            RsyncMessage::Unread(line) => drop(unread.get_or_insert(line)),
            _ => {}
        })?;
    if let (None, Some(line)) = (&found, unread) {
        return Err(cannot_be_read(&line).at(way.remote.name_of(&path)));
    }
    let absent = |kind| matches!(kind, ErrorKind::NotFound | ErrorKind::Conflict);
    match failures.into_iter().find(|(_, error)| !absent(error.kind)) {
        Some((_, error)) if found.is_none() => Err(error.at(way.remote.name_of(&path))),
        _ => Ok(found),
    }
}

/// Returns the kind of the remote target.
fn far_target(way: &RemoteAccess<'_>, target: &Location, prompts: &mut dyn Prompts) -> Result<TargetFound> {
    let is_module = way.remote.is_module();
    let as_directory = is_module || target.names_a_directory();
    let bare = target.path().strip_suffix(b"/").filter(|bare| !bare.is_empty()).unwrap_or(target.path());
    let found = match is_module {
        // A module has no entry of its own.
        true => far_look(way, target.path(), true, prompts),
        false => far_look(way, bare, false, prompts),
    };
    let item = match found {
        // A directory that cannot be listed may still be writable.
        Err(error) if error.kind == ErrorKind::WriteOnly && as_directory => {
            return Ok(TargetFound::Directory);
        }
        Err(error) if error.kind == ErrorKind::WriteOnly => {
            let words =
                "the module can only be written to; a slash at the end says that the target is a directory";
            return Err(Error { detail: words.to_owned(), ..error }.at(target.as_typed()));
        }
        found => found?,
    };
    // If the parent directory does not exist, rsync reports that when it creates the target.
    let Some(item) = item else { return Ok(TargetFound::Absent { parent_exists: true }) };
    Ok(match item.kind {
        EntryKind::Directory => TargetFound::Directory,
        EntryKind::File => TargetFound::File,
        // A symbolic link to a directory counts as that directory.
        EntryKind::Symlink => match far_look(way, bare, true, prompts)? {
            Some(_) => TargetFound::Directory,
            None => TargetFound::Symlink,
        },
        _ => TargetFound::Special,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_be_taken_for_anything_else() {
        let paths = [EntryPath::new("#no comment").unwrap(), EntryPath::new("-a\nb").unwrap()];
        assert_eq!(names(b"./", paths.iter()), b"./#no comment\0./-a\nb\0");
    }

    #[test]
    fn entries_are_named_from_where_the_copy_begins() {
        let ends = RsyncEndpoints {
            local: b"/data/src".to_vec(),
            far: b"m/back up/".to_vec(),
            prefix: EntryPath::root(),
            single: None,
            has_set_id: false,
            source_name: Vec::new(),
            target_name: Vec::new(),
        };
        for (named, below) in [
            ("/data/src/a/b", "a/b"),
            ("/back up/a/.b.tar.Xy12zQ", "a/b.tar"),
            ("back up/a/b", "a/b"),
            ("a/b", "a/b"),
            (".hidden", ".hidden"),
            ("/data/srcx", "data/srcx"),
        ] {
            assert_eq!(ends.below(named.as_bytes()), below.as_bytes(), "{named}");
        }
    }
}
