//! The extra entries of the target: found by listing it, agreed to, and removed by name.
//!
//! rsync removes exactly the names that it is given (`--delete-missing-args`), so entries that a filter excludes, or
//! that were created after the listing, stay. Directories are removed last, the deepest first, and only if they are
//! empty.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use hakobu_core::engine::{ONLY_IN_TARGET_KEPT_MAX, RunSummary};
use hakobu_core::entry::EntryKind;
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::event::{Event, Observer};
use hakobu_core::extended::Classes;
use hakobu_core::filter::Filter;
use hakobu_core::path::EntryPath;
use hakobu_endpoints::local::{LocalSource, SourceRoot};

use super::endpoints::RsyncEndpoints;
use super::listing::{below_of, list, list_far};
use super::options::{PARTIAL_DIRECTORY, RsyncPurpose};
use super::output::RsyncMessage;
use super::record::RsyncRecord;
use super::remote_rsync::RemoteAccess;
use super::scan::ScanResults;
use hakobu_core::outcome::{RunEnvironment, Transfer};
use hakobu_core::request::Deletion;

/// The extra entries of the target.
#[derive(Debug, Default)]
pub(super) struct Extras {
    going: DoomedNames,
    /// The content of directories that are in the way.
    going_first: DoomedNames,
    /// The number of these entries.
    count: u64,
    /// The number of entries of the target.
    total: u64,
    examples: Vec<EntryPath>,
    /// Directories at paths where the source has something else.
    pub in_the_way: Vec<EntryPath>,
}

/// Names to be removed.
#[derive(Debug, Default)]
struct DoomedNames {
    /// Everything except directories.
    others: Vec<EntryPath>,
    /// Directories by their depth, the deepest first.
    directories: BTreeMap<Reverse<usize>, Vec<EntryPath>>,
}

impl DoomedNames {
    fn add(&mut self, path: EntryPath, is_directory: bool) {
        let depth = path.as_bytes().iter().filter(|byte| **byte == b'/').count();
        match is_directory {
            true => self.directories.entry(Reverse(depth)).or_default().push(path),
            false => self.others.push(path),
        }
    }

    /// Returns the lists for one rsync each, in order.
    fn lists(&self) -> impl Iterator<Item = &Vec<EntryPath>> {
        std::iter::once(&self.others).chain(self.directories.values()).filter(|paths| !paths.is_empty())
    }
}

/// The entries of the target while they are sorted. A directory comes before its content.
struct SortedExtras<'a> {
    known: &'a HashMap<EntryPath, bool>,
    left_out: &'a HashSet<EntryPath>,
    filter: Option<&'a Filter>,
    prefix: &'a EntryPath,
    /// The extra entries, with true for directories.
    extras: BTreeMap<EntryPath, bool>,
    in_the_way: BTreeSet<EntryPath>,
    /// Directories that are in the way, and contain something that a rule protects.
    blocked: HashSet<EntryPath>,
    /// Directories that a rule protects.
    kept: HashSet<EntryPath>,
    found: Extras,
}

impl SortedExtras<'_> {
    /// Sorts one entry of the target, relative to its top directory.
    fn entry(&mut self, below: &EntryPath, kind: EntryKind) -> Result<()> {
        let is_directory = kind == EntryKind::Directory;
        let (parent, name) = below.split_last().unwrap_or_default();
        if below.is_root() || self.kept.contains(&parent) || name == PARTIAL_DIRECTORY.as_bytes() {
            if is_directory && !below.is_root() {
                self.kept.insert(below.clone());
            }
            return Ok(());
        }
        self.found.total += 1;
        let path = below_of(self.prefix, below)?;
        let by_a_rule = |filter: &Filter| filter.rules_leave_out(below.as_bytes(), is_directory);
        if self.left_out.contains(&path) || self.filter.is_some_and(by_a_rule) {
            if is_directory {
                self.kept.insert(below.clone());
            }
            self.keep_above(&path);
            return Ok(());
        }
        match self.known.get(&path) {
            None => {
                self.extras.insert(path, is_directory);
            }
            Some(false) if is_directory => {
                self.in_the_way.insert(path);
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Keeps the directories above a protected entry.
    fn keep_above(&mut self, path: &EntryPath) {
        let mut above = path.split_last().map(|(parent, _)| parent);
        while let Some(directory) = above {
            self.extras.remove(&directory);
            if self.in_the_way.remove(&directory) {
                self.blocked.insert(directory.clone());
            }
            above = directory.split_last().map(|(parent, _)| parent);
        }
    }

    fn finish(self) -> Extras {
        let Self { mut extras, in_the_way, blocked, found, .. } = self;
        extras.retain(|path, _| !has_above(path, |above| blocked.contains(above)));
        let examples = extras.keys().chain(&in_the_way).take(ONLY_IN_TARGET_KEPT_MAX).cloned().collect();
        let count = (extras.len() + in_the_way.len()) as u64;
        let (mut going, mut going_first) = (DoomedNames::default(), DoomedNames::default());
        for (path, is_directory) in extras {
            match has_above(&path, |above| in_the_way.contains(above)) {
                true => going_first.add(path, is_directory),
                false => going.add(path, is_directory),
            }
        }
        let in_the_way = in_the_way.into_iter().collect();
        Extras { going, going_first, count, total: found.total, examples, in_the_way }
    }
}

/// Returns true if a directory above the path matches.
fn has_above(path: &EntryPath, is_such: impl Fn(&EntryPath) -> bool) -> bool {
    let mut above = path.split_last().map(|(parent, _)| parent);
    while let Some(directory) = above {
        if is_such(&directory) {
            return true;
        }
        above = directory.split_last().map(|(parent, _)| parent);
    }
    false
}

impl Extras {
    /// Lists the target and finds the entries that the source lacks.
    ///
    /// # Errors
    /// The target cannot be listed.
    pub fn find(
        way: &RemoteAccess<'_>,
        ends: &RsyncEndpoints,
        found: &ScanResults,
        filter: Option<&Filter>,
        surroundings: &mut RunEnvironment<'_>,
    ) -> Result<Self> {
        let mut sorting = SortedExtras {
            known: &found.known,
            left_out: &found.left_out,
            filter,
            prefix: &ends.prefix,
            extras: BTreeMap::new(),
            in_the_way: BTreeSet::new(),
            blocked: HashSet::new(),
            kept: HashSet::new(),
            found: Self::default(),
        };
        match way.outward {
            true => {
                let mut seen = HashSet::new();
                let mut wrong = None;
                let each = &mut |item: super::output::ItemizedEntry| {
                    if wrong.is_none() && seen.insert(item.path.clone()) {
                        wrong = sorting.entry(&item.path, item.kind).err();
                    }
                };
                let failures = list_far(way, &ends.far_tree(), surroundings.prompts, each)?;
                let is_absent = |error: &Error| error.kind == ErrorKind::NotFound;
                if let Some((path, error)) = failures.into_iter().find(|(_, error)| !is_absent(error)) {
                    return Err(error.at(path));
                }
                if let Some(error) = wrong {
                    return Err(error);
                }
            }
            false => here(&ends.local_tree(), &mut sorting)?,
        }
        Ok(sorting.finish())
    }

    /// Subtracts up to `made` entries that this run has created from the target's entries: the deletion limit refers to
    /// the number of entries before the run.
    pub fn discount(&mut self, made: u64) {
        self.total = self.total.saturating_sub(made).max(self.count);
    }

    /// Returns true if there are no extra entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Copies the counts into a summary.
    pub fn tell(&self, summary: &mut RunSummary) {
        summary.counters.entries_only_in_target = self.count;
        summary.counters.entries_in_target = self.total;
        summary.counters.entries_in_the_way = self.in_the_way.len() as u64;
        summary.only_in_target.clone_from(&self.examples);
    }

    /// Reports the planned deletions.
    pub fn plan(&self, observer: &dyn Observer) {
        let listed = [&self.going_first, &self.going].into_iter().flat_map(DoomedNames::lists).flatten();
        for path in self.in_the_way.iter().chain(listed) {
            let (action, path) = ("delete".to_owned(), path.as_bytes().to_vec());
            observer.event(Event::Planned { action, path, size_bytes: 0 });
        }
    }

    /// Checks the deletion limits and asks the user. Returns false if the user does not agree.
    ///
    /// # Errors
    /// `Refused`, with the same messages as other transports.
    pub fn agree(
        &self,
        ends: &RsyncEndpoints,
        deletion: &Deletion,
        dry_run: bool,
        surroundings: &mut RunEnvironment<'_>,
    ) -> Result<bool> {
        let mut asked = Transfer { target: Some(ends.target_name.clone()), ..Transfer::default() };
        self.tell(&mut asked.summary);
        hakobu_core::consent::agree(&asked, deletion, dry_run, surroundings)
    }

    /// Removes the extra entries, and the content of directories that are in the way.
    ///
    /// # Errors
    /// The errors of [`RemoteAccess::run_patiently`].
    pub fn remove(
        &self,
        way: &RemoteAccess<'_>,
        ends: &RsyncEndpoints,
        record: &RsyncRecord<'_>,
        surroundings: &mut RunEnvironment<'_>,
    ) -> Result<()> {
        let mut removed = HashSet::new();
        // Below a path that is not a directory at the source, rsync does not treat names as missing, so it gets an
        // empty source.
        let nothing = match self.going_first.lists().next() {
            Some(_) => Some(EmptyDirectory::make()?),
            None => None,
        };
        let first = self.going_first.lists().map(|paths| (paths, nothing.as_ref()));
        for (paths, nothing) in first.chain(self.going.lists().map(|paths| (paths, None))) {
            let order = match nothing {
                Some(nothing) => ends.order_from(way, nothing.path.clone().into_os_string(), paths.iter()),
                None => ends.order_of(way, paths.iter()),
            };
            let mut stay = Vec::new();
            let mut failures = way.run_patiently(
                RsyncPurpose::Remove,
                &order,
                surroundings.prompts,
                &mut |said| match said {
                    RsyncMessage::Deleted(path) if removed.insert(path.clone()) => record.deleted(&path),
                    RsyncMessage::NotEmpty(path) => stay.push(path),
                    _ => {}
                },
            )?;
            let words = "something has come into the directory since it was agreed to remove it";
            let conflict = |path| (path, Error::new(ErrorKind::Conflict, "removing", words));
            failures.extend(stay.into_iter().map(conflict));
            // They are removed because they are missing at the source.
            failures.retain(|(_, error)| error.kind != ErrorKind::SourceVanished);
            ends.failures(record, failures);
        }
        Ok(())
    }
}

/// A temporary empty directory, removed when dropped.
struct EmptyDirectory {
    path: PathBuf,
}

impl EmptyDirectory {
    fn make() -> Result<Self> {
        let failed = |error: std::io::Error| Error::io("making an empty directory", &error);
        let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let name = format!("hakobu-nothing-{}-{}", std::process::id(), time.as_nanos());
        let path = std::env::temp_dir().join(name).join("");
        std::fs::DirBuilder::new().mode(0o700).create(&path).map_err(failed)?;
        Ok(Self { path })
    }
}

impl Drop for EmptyDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.path);
    }
}

/// Lists a local target, which need not exist yet.
fn here(tree: &[u8], sorting: &mut SortedExtras<'_>) -> Result<()> {
    let path = PathBuf::from(OsStr::from_bytes(tree));
    if !path.is_dir() {
        return Ok(());
    }
    let mut lane = LocalSource::open(&[SourceRoot { path }])?.lane();
    let mut open = VecDeque::from([EntryPath::root()]);
    while let Some(directory) = open.pop_front() {
        let entries = list(&mut lane, &directory, Classes::NONE)?.result?;
        for index in 0..entries.len() {
            let path = directory.join(entries.name(index))?;
            let kind = entries.metadata(index).kind;
            sorting.entry(&path, kind)?;
            if kind == EntryKind::Directory {
                open.push_back(path);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hakobu_core::filter::{FilterRule, FilterRules};

    use super::*;

    fn path(path: &str) -> EntryPath {
        EntryPath::new(path).unwrap()
    }

    fn sorted(known: &[(&str, bool)], rules: &[&str], target: &[(&str, EntryKind)]) -> Extras {
        sorted_without(known, &[], rules, target)
    }

    fn sorted_without(
        known: &[(&str, bool)],
        left_out: &[&str],
        rules: &[&str],
        target: &[(&str, EntryKind)],
    ) -> Extras {
        let known = known.iter().map(|(name, is_directory)| (path(name), *is_directory)).collect();
        let rules = rules.iter().map(|rule| FilterRule::exclude(rule, String::new())).collect();
        let filter = Filter::new(&FilterRules { rules, ..FilterRules::default() }).unwrap();
        let left_out = left_out.iter().map(|name| path(name)).collect();
        let prefix = EntryPath::root();
        let mut sorting = SortedExtras {
            known: &known,
            left_out: &left_out,
            filter: filter.as_ref(),
            prefix: &prefix,
            extras: BTreeMap::new(),
            in_the_way: BTreeSet::new(),
            blocked: HashSet::new(),
            kept: HashSet::new(),
            found: Extras::default(),
        };
        target.iter().for_each(|(name, kind)| sorting.entry(&path(name), *kind).unwrap());
        sorting.finish()
    }

    #[test]
    fn whole_directories_go_and_what_a_rule_protects_stays() {
        use EntryKind::{Directory, File};
        let target = [
            ("a", File),
            ("old", Directory),
            ("old/x", File),
            ("old/y", File),
            ("half", Directory),
            ("half/go", File),
            ("half/keep.log", File),
            ("logs", Directory),
            ("logs/x", File),
            (".rsync-partial", Directory),
            (".rsync-partial/a", File),
        ];
        let found = sorted(&[("a", false)], &["*.log", "logs/"], &target);
        assert_eq!(found.going.others, [path("half/go"), path("old/x"), path("old/y")]);
        assert_eq!(found.going.directories.into_values().flatten().collect::<Vec<_>>(), [path("old")]);
        // old, old/x, old/y and half/go; protected directories' content is not examined.
        assert_eq!((found.count, found.total), (4, 8));
    }

    #[test]
    fn a_directory_in_the_place_of_a_file_is_in_the_way() {
        use EntryKind::{Directory, File};
        let target = [("a", Directory), ("a/x", File)];
        let found = sorted(&[("a", false)], &[], &target);
        // Its content is removed first.
        assert_eq!(
            (found.in_the_way, found.going_first.others, found.count),
            (vec![path("a")], vec![path("a/x")], 2)
        );
        let target = [("a", Directory), ("a/x", File), ("a/y.log", File)];
        let found = sorted(&[("a", false)], &["*.log"], &target);
        assert_eq!((found.in_the_way, found.going.others, found.count), (vec![], vec![], 0));
    }

    #[test]
    fn what_the_source_has_and_leaves_out_protects_its_name_and_all_below() {
        use EntryKind::{Directory, File};
        let target = [("d", Directory), ("d/big", Directory), ("d/big/x", File), ("d/y", File)];
        let found = sorted_without(&[("d", false)], &["d/big"], &[], &target);
        assert_eq!((found.in_the_way, found.going.others, found.count), (vec![], vec![], 0));
        let found = sorted_without(&[("d", true)], &["d/big"], &[], &target);
        assert_eq!((found.going.others, found.count), (vec![path("d/y")], 1));
    }

    #[test]
    fn every_name_is_given_and_the_deepest_directory_first() {
        use EntryKind::{Directory, File};
        let target =
            [("a", Directory), ("a/b", Directory), ("a/b/c", Directory), ("a/b/x", File), ("d", Directory)];
        let found = sorted(&[], &[], &target);
        assert_eq!(found.going.others, [path("a/b/x")]);
        let levels: Vec<_> = found.going.directories.into_values().collect();
        assert_eq!(levels, [vec![path("a/b/c")], vec![path("a/b")], vec![path("a"), path("d")]]);
    }
}
