//! Compares the result of a step with its promise.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use super::abilities::Abilities;
use super::generate::is_draft;
use super::model::{Name, Time};
use super::promise::{ExpectedEntry, Promise};
use super::select::Selection;
use super::step::Step;
use super::walk::{SeenEntry, SeenKind, Snapshot};

/// A difference between the result and the promise.
#[derive(Clone, Debug)]
pub struct Violation {
    /// A word for the kind of violation. Shrinking keeps the kind.
    pub kind: &'static str,
    /// The entry, if the violation is about one.
    pub path: Option<Name>,
    /// A description.
    pub words: String,
    /// The check that a script has to make.
    pub proof: Proof,
}

/// The check with which a script detects a violation without the oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The entry must be as at the source.
    LikeSource,
    /// The entry must be as it was at the target.
    LikeBefore,
    /// The entry must not exist.
    Absent,
    /// The exit code must be one of these.
    Code(Vec<i32>),
    /// A second run must not change the target.
    Stable,
    /// Only the oracle can tell.
    Words,
}

impl Violation {
    /// Returns a violation about an entry.
    pub fn at(kind: &'static str, path: &Name, words: impl Into<String>, proof: Proof) -> Self {
        Self { kind, path: Some(path.clone()), words: words.into(), proof }
    }

    /// Returns a violation about the whole run.
    pub fn of_run(kind: &'static str, words: impl Into<String>, proof: Proof) -> Self {
        Self { kind, path: None, words: words.into(), proof }
    }
}

impl std::fmt::Display for Violation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: ", self.kind)?;
        if let Some(path) = &self.path {
            write!(out, "/{path}: ")?;
        }
        write!(out, "{}", self.words)
    }
}

/// The time in seconds within which an object may be stored twice without another time of upload.
const UPLOADS_APART_S: i64 = 4;

/// Returns the objects that have changed, and not their times of upload, by which later runs see that they have.
/// Objects of stores whose lists show all attributes are left out: later runs see the change in the list. Google Cloud
/// Storage, for one, keeps the time when attributes change.
pub fn renewed(before: &Snapshot, after: &Snapshot) -> Vec<Violation> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_s = i64::try_from(now.as_secs()).unwrap_or(0);
    let facts =
        |entry: &SeenEntry| (entry.kind.clone(), entry.mode, entry.owner, entry.mtime, entry.xattrs.clone());
    let is_kept = |path: &Name, entry: &SeenEntry| {
        let Some((there, stored)) = before.get(path).zip(entry.stored) else { return false };
        let is_its_time = there.stored.is_some_and(|before| before.uploaded == stored.uploaded);
        !stored.shows_all
            && is_its_time
            && stored.uploaded.s + UPLOADS_APART_S < now_s
            && facts(there) != facts(entry)
    };
    let kept = after.iter().filter(|(path, entry)| !entry.is_directory() && is_kept(path, entry));
    kept.map(|(path, _)| {
        Violation::at("upload", path, "it has changed, and its time of upload has not", Proof::Words)
    })
    .collect()
}

/// Compares a target with its promise.
pub fn target(promise: &Promise, found: &Snapshot) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let is_vague = |path: &Name| promise.vague.iter().any(|vague| path == vague || path.is_below(vague));
    for (path, expected) in &promise.entries {
        let proof = if expected.kept && !expected.entry.is_directory() {
            Proof::LikeBefore
        } else {
            Proof::LikeSource
        };
        match found.get(path) {
            _ if expected.free.all => {}
            None => wrong.push(Violation::at("missing", path, "it is not there", proof)),
            Some(entry) => entry_as_promised(path, expected, entry, &proof, &mut wrong),
        }
    }
    let is_surplus = |path: &Name| !promise.entries.contains_key(path) && !is_vague(path);
    for (path, entry) in found.iter().filter(|(path, _)| is_surplus(path)) {
        let kind = if is_draft(path.base()) { "leftover" } else { "surplus" };
        let words =
            format!("nothing promises that this is there: {} with mode {:o}", told(&entry.kind), entry.mode);
        wrong.push(Violation::at(kind, path, words, Proof::Absent));
    }
    for group in &promise.links {
        let inodes: BTreeSet<_> =
            group.iter().filter_map(|path| found.get(path)).map(|entry| entry.inode).collect();
        if inodes.len() > 1 {
            let words = format!("{} names of one file are {} files", group.len(), inodes.len());
            wrong.push(Violation::at("links", &group[0], words, Proof::Words));
        }
    }
    let mut owner_of: BTreeMap<(u64, u64), &Name> = BTreeMap::new();
    for (path, entry) in found.iter().filter(|(_, entry)| entry.is_file()) {
        if let Some(other) = owner_of.insert(entry.inode, path)
            && let (Some(one), Some(two)) = (promise.apart.get(path), promise.apart.get(other))
            && one != two
        {
            wrong.push(Violation::at("links", path, format!("it is one file with /{other}"), Proof::Words));
        }
    }
    wrong
}

fn entry_as_promised(
    path: &Name,
    expected: &ExpectedEntry,
    found: &SeenEntry,
    proof: &Proof,
    wrong: &mut Vec<Violation>,
) {
    let (want, free) = (&expected.entry, expected.free);
    let mut say = |kind, words: String| wrong.push(Violation::at(kind, path, words, proof.clone()));
    if found.kind != want.kind && !expected.or.contains(&found.kind) {
        let words = format!("it is {}, and has to be {}", told(&found.kind), told(&want.kind));
        say("content", words);
        return;
    }
    let is_link = matches!(found.kind, SeenKind::Link(_));
    // Set-ID bits that the source lacks are removed, whatever the owner.
    let mask = if free.set_id { 0o1777 | 0o6000 & !want.mode } else { 0o7777 };
    let is_narrower = free.narrower && found.mode & !want.mode == 0;
    if !free.mode && !is_narrower && !is_link && found.mode & mask != want.mode & mask {
        say("mode", format!("the mode is {:o}, and has to be {:o}", found.mode, want.mode));
    }
    if !free.owner && found.owner != want.owner {
        say("owner", format!("the owner is {:?}, and has to be {:?}", found.owner, want.owner));
    }
    if !free.mtime && found.mtime != want.mtime {
        say("time", format!("the time is {}, and has to be {}", clock(found.mtime), clock(want.mtime)));
    }
    for (kind, is_acl, is_free) in [("xattr", false, free.xattrs), ("acl", true, free.acl)] {
        let of = |entry: &SeenEntry| -> BTreeMap<Name, Vec<u8>> {
            let ours =
                entry.xattrs.iter().filter(|(name, _)| name.0.starts_with(b"system.posix_acl") == is_acl);
            ours.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        if !is_free && of(found) != of(want) {
            let names =
                |entry: &SeenEntry| of(entry).keys().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            say(kind, format!("the attributes are [{}], and have to be [{}]", names(found), names(want)));
        }
    }
    // A new name of an object changes the made-up inode number, but not the object.
    let is_another = match (found.stored, want.stored) {
        (Some(found), Some(want)) => found.version != want.version,
        _ => found.inode != want.inode,
    };
    if expected.kept && is_another {
        say("replaced", "it was to stay the same file, and is another".to_owned());
    }
}

fn clock(time: Time) -> String {
    format!("{}.{:09}", time.s, time.ns)
}

fn told(kind: &SeenKind) -> String {
    match kind {
        SeenKind::File { size, digest } => {
            format!("a file of {size} B with digest {:02x}{:02x}{:02x}…", digest[0], digest[1], digest[2])
        }
        SeenKind::Link(to) => format!("a link to {}", Name(to.clone())),
        other => format!("{other:?}"),
    }
}

/// Compares a target with what may be there after a fault: under each name the old or the new entry, complete, and
/// nothing that only looks complete. `touched` are entries of the source that changed during the run.
pub fn after_fault(
    promise: &Promise,
    before: &Snapshot,
    found: &Snapshot,
    touched: &[Name],
    mixes: bool,
) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let is_touched = |path: &Name| {
        touched.iter().any(|touched| path == touched || path.is_below(touched) || touched.is_below(path))
    };
    let is_vague = |path: &Name| promise.vague.iter().any(|vague| path == vague || path.is_below(vague));
    for (path, entry) in found {
        let (old, new) = (before.get(path), promise.entries.get(path));
        if is_draft(path.base()) && old.is_none() && new.is_none()
            || is_touched(path)
            || is_vague(path)
            || entry.is_directory()
            || new.is_some_and(|new| new.free.all)
        {
            continue;
        }
        let is_old = old.is_some_and(|old| old.kind == entry.kind);
        let is_new = new.is_some_and(|new| new.entry.kind == entry.kind || new.or.contains(&entry.kind));
        if !(is_old || is_new || mixes && entry.is_file()) {
            let one = |entry: Option<&SeenKind>| entry.map_or("nothing".to_owned(), told);
            let words = format!(
                "after a fault it is {}, neither what was there ({}) nor what has to be ({})",
                told(&entry.kind),
                one(old.map(|old| &old.kind)),
                one(new.map(|new| &new.entry.kind)),
            );
            wrong.push(Violation::at("torn", path, words, Proof::Words));
        }
    }
    for (path, entry) in before {
        let stays =
            promise.entries.get(path).is_some_and(|new| !entry.is_directory() && !new.entry.is_directory());
        // Extra entries may already have been deleted.
        let hidden = is_touched(path) || is_vague(path) || !promise.apart.contains_key(path);
        if stays && !hidden && !found.contains_key(path) {
            wrong.push(Violation::at(
                "lost",
                path,
                "after a fault neither the old nor the new one is there",
                Proof::Words,
            ));
        }
    }
    wrong
}

/// Compares a side before and after a run that must not change it, including the inodes' change times.
pub fn unchanged(before: &Snapshot, after: &Snapshot, kind: &'static str) -> Vec<Violation> {
    let mut wrong = Vec::new();
    let proof = if kind == "second run" { Proof::Stable } else { Proof::Words };
    // The time of an object without one is that of its upload, which fake-gcs-server also changes where it copies one.
    let is_bare = |entry: &SeenEntry| entry.stored.is_some_and(|stored| stored.is_bare);
    for (path, entry) in before {
        match after.get(path) {
            None => wrong.push(Violation::at(kind, path, "it is gone", proof.clone())),
            // Allocated space may be reported late because of delayed allocation, and the reported size of a directory
            // means nothing. A server dates a directory by its entries.
            Some(now)
                if (SeenEntry {
                    room: entry.room,
                    told_bytes: entry.told_bytes,
                    stored: entry.stored,
                    mtime: if is_bare(entry) && is_bare(now) { entry.mtime } else { now.mtime },
                    ..now.clone()
                }) != *entry =>
            {
                let mut what = Vec::new();
                let mut add = |differs: bool, word: &'static str| {
                    if differs {
                        what.push(word);
                    }
                };
                add(now.kind != entry.kind, "content");
                add(now.mode != entry.mode, "mode");
                add(now.owner != entry.owner, "owner");
                add(now.mtime != entry.mtime, "time");
                add(now.xattrs != entry.xattrs, "attributes");
                add(now.inode != entry.inode, "inode");
                add(now.links != entry.links, "links");
                add(now.ctime != entry.ctime, "ctime");
                wrong.push(Violation::at(
                    kind,
                    path,
                    format!("it has changed: {}", what.join(", ")),
                    proof.clone(),
                ));
            }
            Some(_) => {}
        }
    }
    for path in after.keys().filter(|path| !before.contains_key(*path)) {
        wrong.push(Violation::at(kind, path, "it is new", proof.clone()));
    }
    wrong
}

/// The differences that `verify` must report: for each entry the values of `what` in the report.
pub type Differences = BTreeMap<Name, BTreeSet<&'static str>>;

/// Returns the differences between two sides, among the entries that take part in a step.
pub fn differences(step: &Step, source: &Snapshot, target: &Snapshot, able: &Abilities) -> Differences {
    let select = Selection::of(step);
    let mut found = Differences::new();
    let mut note = |path: &Name, what: &'static str| {
        found.entry(path.clone()).or_default().insert(what);
    };
    let mut blocked: Vec<Name> = Vec::new();
    let mut first_of: BTreeMap<(u64, u64), Vec<Name>> = BTreeMap::new();
    for (path, entry) in source {
        if blocked.iter().any(|above| path.is_below(above)) {
            continue;
        }
        if !select.takes(path, source) {
            blocked.push(path.clone());
            continue;
        }
        let Some(there) = target.get(path) else {
            note(path, "only_in_source");
            blocked.push(path.clone());
            continue;
        };
        if std::mem::discriminant(&entry.kind) != std::mem::discriminant(&there.kind) {
            note(path, "kind");
            blocked.push(path.clone());
            continue;
        }
        if entry.size() != there.size() {
            note(path, "size");
        } else if entry.kind != there.kind {
            note(path, "content");
        }
        let is_foreign = step.is_without("owner") || !able.owners;
        let mask = if is_foreign { 0o1777 | 0o6000 & !entry.mode } else { 0o7777 };
        if able.modes && !matches!(entry.kind, SeenKind::Link(_)) && entry.mode & mask != there.mode & mask {
            note(path, "mode");
        }
        if able.owners && !step.is_without("owner") && entry.owner != there.owner {
            note(path, "owner");
        }
        if able.time(entry.mtime) != there.mtime {
            note(path, "time");
        }
        let attributes = |entry: &SeenEntry| -> Vec<(Name, Vec<u8>)> {
            let compared = entry.xattrs.iter().filter(|(name, _)| {
                let is_acl = name.0.starts_with(b"system.posix_acl");
                able.has_attribute(name) && !step.is_without(if is_acl { "acl" } else { "xattr" })
            });
            compared.map(|(name, value)| (name.clone(), value.clone())).collect()
        };
        if attributes(entry) != attributes(there) {
            note(path, "xattr");
        }
        if entry.is_file() {
            first_of.entry(entry.inode).or_default().push(path.clone());
        }
    }
    // A name that should be a hard link and is not is reported, even if the file system has no hard links. Over SFTP
    // the server does not tell which names are one file, and a source that misreports inode numbers leaves nothing to
    // compare.
    if able.tells_inodes && able.inode_numbers == u64::MAX && !step.is_without("hardlinks") {
        for group in first_of.values().filter(|group| group.len() > 1) {
            for path in &group[1..] {
                if target[path].inode != target[&group[0]].inode {
                    note(path, "links");
                }
            }
        }
    }
    // The reverse as well: names of one file at the target that are several files at the source.
    if able.tells_all_names() && !step.is_without("hardlinks") {
        let mut owner_of: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
        for path in first_of.values().flatten() {
            let (entry, there) = (&source[path], &target[path]);
            if *owner_of.entry(there.inode).or_insert(entry.inode) != entry.inode {
                note(path, "links");
            }
        }
    }
    for path in target.keys() {
        let parent_differs =
            path.parent().is_some_and(|parent| !source.contains_key(&parent) || blocked.contains(&parent));
        // Sockets on neither side take part.
        let counts = target.get(path).is_some_and(|entry| entry.kind != SeenKind::Socket);
        if counts && !source.contains_key(path) && !parent_differs && select.may_remove(path, target) {
            note(path, "only_in_target");
        }
    }
    found
}

/// Compares the report of `verify` with the actual differences. Any name of a file may stand for its other names, and of
/// names that are linked otherwise at the target for all that they are connected with. `may_say_links`: returns true for names
/// that may be reported for their hard links without a difference.
pub fn verification(
    expected: &Differences,
    reported: &BTreeMap<Name, BTreeSet<String>>,
    (source, target): (&Snapshot, &Snapshot),
    may_say_links: &dyn Fn(&Name) -> bool,
) -> Vec<Violation> {
    let one_file = |path: &Name, other: &Name| {
        path == other
            || matches!((source.get(path), source.get(other)), (Some(one), Some(two)) if one.links > 1 && one.inode == two.inode)
    };
    let connected = |path: &Name| {
        let (mut found, mut next) = (BTreeSet::new(), vec![path.clone()]);
        while let Some(path) = next.pop() {
            for side in [source, target] {
                let Some(one) = side.get(&path).filter(|one| one.links > 1 && one.is_file()) else {
                    continue;
                };
                let others = side.iter().filter(|(_, other)| other.inode == one.inode && other.is_file());
                next.extend(others.map(|(other, _)| other).filter(|other| !found.contains(*other)).cloned());
            }
            found.insert(path);
        }
        found
    };
    let has_links = |what: &BTreeSet<&'static str>| what.contains("links");
    let links_differ = |path: &Name| {
        let connected = connected(path);
        expected.iter().any(|(other, what)| connected.contains(other) && has_links(what))
    };
    let links_are_said = |path: &Name| {
        let connected = connected(path);
        reported.iter().any(|(other, said)| connected.contains(other) && said.contains("links"))
    };
    let mut wrong = Vec::new();
    for (path, what) in expected {
        let said: BTreeSet<&str> = reported
            .iter()
            .filter(|(other, _)| one_file(path, other))
            .flat_map(|(_, said)| {
                said.iter().map(|word| if word == "range" { "content" } else { word.as_str() })
            })
            .collect();
        // A different size may be reported as different content.
        let is_said = |word: &str| {
            said.contains(word)
                || word == "size" && said.contains("content")
                || word == "links" && links_are_said(path)
        };
        for word in what.iter().filter(|word| !is_said(word)) {
            wrong.push(Violation::at(
                "verify misses",
                path,
                format!("{word} differs, and verify does not say so"),
                Proof::Words,
            ));
        }
    }
    for (path, said) in reported {
        let real: BTreeSet<&str> = expected
            .iter()
            .filter(|(other, _)| one_file(path, other))
            .flat_map(|(_, what)| what.iter().copied())
            .collect();
        let surplus = said.iter().map(|word| if word == "range" { "content" } else { word.as_str() });
        for word in surplus.filter(|word| {
            !(real.contains(word)
                || *word == "content" && real.contains("size")
                || *word == "links" && (may_say_links(path) || links_differ(path)))
        }) {
            wrong.push(Violation::at(
                "verify errs",
                path,
                format!("verify says that {word} differs, and it does not"),
                Proof::Words,
            ));
        }
    }
    wrong
}
