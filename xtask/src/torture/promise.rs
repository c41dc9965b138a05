//! The promise of a step: the target that it must leave, and the exit code.
//!
//! Everything here is written from README.md, the book and the design notes only. If a document and this file disagree,
//! one of them is wrong. The prediction starts from what the oracle saw on both sides before the step. Where the
//! documents leave something open, the expectation allows any result, and a comment says why.

use std::collections::{BTreeMap, BTreeSet};

use super::abilities::Abilities;
use super::environment::faults::Fault;
use super::model::{Name, Time};
use super::select::Selection;
use super::step::{Step, StepVerb};
use super::unpromised::UnpromisedProperties;
use super::walk::{SeenEntry, SeenKind, Snapshot};

impl Promise {
    /// Allows any result for what the run has reported as a loss. `what` is the report's word.
    pub fn free(&mut self, what: &str) {
        for expected in self.entries.values_mut() {
            let free = &mut expected.free;
            match what {
                "xattr" => free.xattrs = true,
                "acl" => (free.acl, free.mode) = (true, true),
                "owner" => (free.owner, free.set_id) = (true, true),
                "setid" => (free.set_id, free.xattrs) = (true, true),
                "times" => free.mtime = true,
                _ => {}
            }
        }
        if what == "hardlinks" {
            self.links.clear();
        }
    }
}

/// An entry that the target must have.
#[derive(Clone, Debug)]
pub struct ExpectedEntry {
    /// The entry. Its inode, change time and allocated space are meaningless unless `kept` is true.
    pub entry: SeenEntry,
    /// Contents that it may have instead.
    pub or: Vec<SeenKind>,
    /// The properties that are not promised.
    pub free: UnpromisedProperties,
    /// True if it must be the inode that was there before.
    pub kept: bool,
}

/// The promise of a step.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// The permitted exit codes; only one if the documents leave nothing open.
    pub codes: BTreeSet<i32>,
    /// The whole target.
    pub entries: BTreeMap<Name, ExpectedEntry>,
    /// Groups of names that must be one file.
    pub links: Vec<Vec<Name>>,
    /// The source's file for each name. Names of different files must not be one file.
    pub apart: BTreeMap<Name, (u64, u64)>,
    /// True if a second run must change nothing.
    pub stable: bool,
    /// Entries that the target may not accept. They fail or are a loss, as is everything below them.
    pub vague: Vec<Name>,
}

/// Returns the promise of copying `source` to `target`. `code` is the exit code of the step. It decides what the
/// documents leave open: which entries count towards the limit of deletion, and whether something that the target
/// cannot hold is a failure.
pub fn of(step: &Step, source: &Snapshot, target: &Snapshot, able: &Abilities, code: Option<i32>) -> Promise {
    let mut builder = PromiseBuilder {
        step,
        select: Selection::of(step),
        source,
        target,
        able,
        promise: Promise { stable: true, ..Promise::default() },
        tainted: tainted(step, source, target, able),
        failed: 0,
        code,
        blocked: Vec::new(),
        brought: BTreeSet::new(),
        making_way: Vec::new(),
    };
    builder.failed += if step.verb == StepVerb::Sync && (step.delete || step.during) {
        0 // removed at the target, as the source lacks them
    } else {
        builder.select.missing(source)
    };
    builder.bring_over();
    builder.remove();
    builder.leave_open();
    builder.link();
    builder.promise
}

struct PromiseBuilder<'a> {
    step: &'a Step,
    select: Selection<'a>,
    source: &'a Snapshot,
    target: &'a Snapshot,
    able: &'a Abilities,
    promise: Promise,
    tainted: BTreeSet<Name>,
    failed: usize,
    code: Option<i32>,
    /// Directories of the source below which nothing is copied.
    blocked: Vec<Name>,
    /// Entries of the source that are copied.
    brought: BTreeSet<Name>,
    /// Paths at which a directory of the target must be deleted before an entry of the source can be created.
    making_way: Vec<Name>,
}

impl PromiseBuilder<'_> {
    /// Adds the entries of the source that take part.
    fn bring_over(&mut self) {
        for (path, entry) in self.source {
            if self.blocked.iter().any(|blocked| path.is_below(blocked)) {
                continue;
            }
            if !self.select.takes(path, self.source) {
                self.blocked.push(path.clone());
                continue;
            }
            if !self.able.takes(path, entry) {
                self.promise.vague.push(path.clone());
                self.blocked.push(path.clone());
                continue;
            }
            let there = self.target.get(path);
            match there {
                Some(there)
                    // A symbolic link at the target is replaced by the directory.
                    if entry.is_directory()
                        && !there.is_directory()
                        && !matches!(there.kind, SeenKind::Link(_))
                        && self.step.verb == StepVerb::Copy =>
                {
                    self.failed += 1;
                    self.blocked.push(path.clone());
                    continue;
                }
                Some(there) if !entry.is_directory() && there.is_directory() => {
                    if self.step.verb == StepVerb::Copy {
                        self.failed += 1;
                    } else {
                        self.making_way.push(path.clone());
                    }
                    continue;
                }
                _ => {}
            }
            let expected = self.expected(path, entry, there);
            self.promise.entries.insert(path.clone(), expected);
            self.brought.insert(path.clone());
        }
    }

    /// Allows a store's directories to keep their attributes if something has failed: a run without failures sets them,
    /// when all in them has been examined.
    fn leave_open(&mut self) {
        let is_store = self.able.keys[1].is_some();
        let may_have_failed = self.failed > 0 || !self.promise.vague.is_empty();
        if !is_store || self.code != Some(3) || !may_have_failed {
            return;
        }
        for (path, expected) in &mut self.promise.entries {
            let is_there = self.target.get(path).is_some_and(SeenEntry::is_directory);
            if is_there && self.brought.contains(path) && expected.entry.is_directory() {
                expected.free = UnpromisedProperties::of_any_attributes();
            }
        }
    }

    /// Returns the expected state of one entry.
    fn expected(&self, path: &Name, entry: &SeenEntry, there: Option<&SeenEntry>) -> ExpectedEntry {
        let mut expected =
            ExpectedEntry { entry: entry.clone(), or: Vec::new(), free: self.free(), kept: false };
        expected.entry.mtime = self.able.time(entry.mtime);
        expected.entry.xattrs.retain(|name, _| self.able.has_attribute(name));
        // Without its access control list an entry may grant fewer permissions, but never more.
        expected.free.narrower = entry.xattrs.keys().any(|name| !self.able.has_attribute(name));
        let list = entry.xattrs.get(&Name(b"system.posix_acl_access".to_vec()));
        if let Some(list) = list.filter(|_| !self.able.acls && !self.step.is_without("acl")) {
            expected.entry.mode &= permitted_without(list);
        }
        if !self.able.fits(entry) {
            // Attributes that do not fit are a loss or a failure. Which of them is affected first is not promised.
            expected.free.xattrs = true;
            expected.free.acl = true;
            expected.free.mode = true;
        }
        let is_early = entry.mtime.s < 0;
        let step_ns = if is_early { self.able.seen_early_step_ns } else { self.able.seen_step_ns };
        let seen = Abilities { mtime_step_ns: step_ns, ..Abilities::default() };
        // OpenSSH's server truncates times to 32 bits, which cannot be noticed.
        let shown = |time: Time| Time {
            s: if self.able.cuts_times { i64::from(time.s as u32) } else { time.s },
            ..time
        };
        // A time out of the target's range is sent as the nearest one, and not compared any closer.
        let nearest = self.able.time(entry.mtime);
        let within_step = |there: &SeenEntry| {
            let there = seen.time(shown(there.mtime));
            there == seen.time(entry.mtime) || there == seen.time(nearest)
        };
        if step_ns > 1 && there.is_some_and(within_step) {
            expected.free.mtime = true;
        }
        if there.is_some_and(|there| self.is_proven(entry, there)) {
            // Neither content nor attributes are looked at, even if other attributes are to be preserved than before.
            let is_compared = self.step.by_digest && entry.is_file();
            expected.or.extend(there.filter(|_| !is_compared).map(|there| there.kind.clone()));
            (expected.free.owner, expected.free.set_id) = (true, true);
            (expected.free.mode, expected.free.mtime) = (true, true);
            expected.free.xattrs |= self.able.left_out.iter().any(|what| what == "xattr");
            expected.free.acl |= self.able.left_out.iter().any(|what| what == "acl");
            // Another program has put equal content there, without attributes.
            let is_bare = there.and_then(|there| there.stored).is_some_and(|stored| stored.is_bare);
            expected.free.xattrs |= is_bare;
            expected.free.acl |= is_bare;
        }
        if let Some(there) = there.filter(|there| there.is_file() && entry.is_file()) {
            // The time of an object without metadata is that of its upload, in seconds.
            let shows = entry.stored.filter(|stored| stored.is_bare).map(|stored| stored.uploaded.s);
            let is_its_time = there.mtime == expected.entry.mtime || shows == Some(there.mtime.s);
            let alike = there.size() == entry.size() && (is_its_time || expected.free.mtime);
            if alike && !self.step.by_digest {
                // Files of equal size and time are left alone. A closer comparison may copy it.
                expected.or.push(there.kind.clone());
            }
            // Of a file with several names, one is written and the others are linked.
            let one_name = entry.links == 1 && there.links == 1 && !self.able.remembers_names;
            if self.step.in_place && self.step.verb == StepVerb::Sync && one_name {
                expected.kept = true;
                expected.entry.inode = there.inode;
            }
        }
        if let (SeenKind::Link(to), Some(SeenKind::Link(other))) =
            (&entry.kind, there.map(|there| &there.kind))
        {
            // The text of a link in a store is its content. A link that was made after the upload is not compared with it.
            let is_from_store = self.able.keys[0].is_some() && !self.step.by_digest;
            if is_from_store && to.len() == other.len() {
                expected.or.push(SeenKind::Link(other.clone()));
            }
        }
        // The server removes a directory that is no object with its last entry, and makes it again.
        if there.is_some_and(SeenEntry::is_directory) && entry.is_directory() && !self.able.replaces_whole {
            expected.kept = true;
            expected.entry.inode = there.map_or((0, 0), |there| there.inode);
        }
        if entry.stored.is_some_and(|stored| stored.is_bare) {
            // Without metadata, an entry gets what new files get.
            (expected.free.owner, expected.free.mode, expected.free.mtime) = (true, true, true);
        }
        if self.tainted.contains(path) {
            // Names are one file at the target and several at the source, or the reverse. The target may have further
            // names elsewhere, so a change of one name reaches others, in no particular order.
            expected.free = UnpromisedProperties::of_any_attributes();
            expected.or = there.map(|there| there.kind.clone()).into_iter().collect();
            expected.kept = false;
        }
        expected
    }

    fn free(&self) -> UnpromisedProperties {
        let without = |what: &str| self.step.is_without(what);
        if self.able.loose {
            return UnpromisedProperties::of_any_attributes();
        }
        UnpromisedProperties {
            owner: without("owner") || !self.able.owners,
            narrower: false,
            // A set-ID bit without its owner would grant another user's privileges.
            set_id: without("owner") || !self.able.owners,
            mode: !self.able.modes,
            mtime: false,
            // Attributes that cannot be read or set are left as they are.
            xattrs: without("xattr") || !self.able.user_xattrs || !self.able.trusted_xattrs,
            acl: without("acl") || !self.able.acls,
            all: false,
        }
    }

    /// Decides about extra entries and entries that are in the way.
    fn remove(&mut self) {
        let consent = self.step.delete || self.step.during;
        let refused = self.code == Some(6);
        let gone: BTreeSet<Name> = self.removable();
        let sync = self.step.verb == StepVerb::Sync;
        // A rule protects something in a directory that is in the way: the entry fails, and nothing is deleted
        // afterwards.
        let target = self.target;
        let stays = |path: &Name| {
            target.keys().any(|other| (other == path || other.is_below(path)) && !gone.contains(other))
        };
        self.failed += self.making_way.iter().filter(|path| stays(path)).count();
        self.making_way.retain(|path| !stays(path));
        let (count, total) = (gone.len(), self.target.len().saturating_sub(1));
        // Not promised: whether what rules leave out counts. Directories that they leave out are not looked into.
        let is_hidden = |path: &&Name| self.select.is_protected(path, target);
        let hidden = target.keys().filter(is_hidden).count();
        // If both ends were lost, it is unknown what they had created, and only what was seen until then counts.
        let may_be_unknown = self.step.fault.as_ref().is_some_and(Fault::may_lose_both_ends);
        let limit_holds = self.step.all_may_go
            || count * 2 <= total.saturating_sub(2 + hidden) && !(may_be_unknown && refused)
            // Not promised: whether the root and the entries that are in the way count.
            || count * 2 <= total + 2 && !refused;
        // An entry that replaces a directory is created after the deletion, and may fail then.
        let comes_last = |path: &Name| {
            let is_directory = |tree: &Snapshot| tree.get(path).is_some_and(SeenEntry::is_directory);
            is_directory(target) && !is_directory(self.source)
        };
        // A name waits for other names of its file.
        let waits = |path: &Name| {
            let one = self.source.get(path).filter(|entry| entry.is_file() && entry.links > 1);
            let mut others =
                self.source.iter().filter(|(_, its)| one.is_some_and(|one| its.inode == one.inode));
            others.any(|(other, _)| comes_last(other))
        };
        let fails_late = consent && self.promise.vague.iter().any(|path| comes_last(path) || waits(path));
        // Entries that are deleted before the copy stay deleted, whatever fails afterwards.
        if sync && (self.step.during || fails_late) && (self.failed > 0 || self.code != Some(0)) {
            self.promise.vague.extend(gone.iter().cloned());
        }
        // A failure at the target prevents all deletion.
        let vague = !self.promise.vague.is_empty();
        // If a rule protects something in a directory that is in the way, that fails before anything is deleted.
        let keeps = |above: &&Name| {
            self.target.keys().any(|path| (path == *above || path.is_below(above)) && !gone.contains(path))
        };
        self.failed += if sync && consent { self.making_way.iter().filter(keeps).count() } else { 0 };
        let removes = sync && consent && self.failed == 0 && limit_holds && !(vague && self.code != Some(0));
        for (path, entry) in self.target {
            if self.promise.entries.contains_key(path) || removes && gone.contains(path) {
                continue;
            }
            let mut expected = ExpectedEntry {
                entry: entry.clone(),
                or: Vec::new(),
                free: UnpromisedProperties::default(),
                kept: true,
            };
            // Deletions in a directory change its time.
            expected.free.mtime = entry.is_directory();
            // Another name of the same file takes part, and a change of it shows here too.
            let is_vague =
                |path: &Name| self.promise.vague.iter().any(|vague| path == vague || path.is_below(vague));
            let shares = |(other, its): (&Name, &SeenEntry)| {
                its.inode == entry.inode && (self.brought.contains(other) || is_vague(other))
            };
            if is_vague(path)
                || self.tainted.contains(path)
                || entry.links > 1 && entry.is_file() && self.target.iter().any(shares)
            {
                expected.free.all = true;
            }
            let displaced = path_and_above(path).any(|above| {
                let new = self.promise.entries.get(&above);
                above != *path && new.is_some_and(|new| !new.entry.is_directory())
            });
            if !displaced {
                self.promise.entries.insert(path.clone(), expected);
            }
        }
        if removes {
            for path in std::mem::take(&mut self.making_way) {
                let still_there =
                    self.promise.entries.keys().any(|other| *other == path || other.is_below(&path));
                if still_there {
                    // A rule protects something in the directory that is in the way.
                    self.failed += 1;
                } else if let Some(entry) = self.source.get(&path) {
                    let expected = self.expected(&path, entry, None);
                    self.promise.entries.insert(path.clone(), expected);
                    self.brought.insert(path);
                }
            }
        }
        let stay = sync && !gone.is_empty() && !removes;
        // The target has grown, so a second run may find that the same number is less than half of it.
        self.promise.stable &= !(stay && consent);
        self.promise.codes = match (self.failed > 0, stay) {
            (false, false) => [0].into(),
            (false, true) => [6].into(),
            (true, false) => [3].into(),
            // After a failure nothing is deleted. Which of the two is reported first is not promised.
            (true, true) => [3, 6].into(),
        };
        // If attributes are kept in other ways, setting them may fail.
        if vague || self.able.loose {
            self.promise.codes.insert(3);
            // Below an entry that the target may have accepted there may be extra entries, which stay without consent.
            let is_below = |path: &Name| self.promise.vague.iter().any(|vague| path.is_below(vague));
            if sync && self.target.keys().any(|path| !self.source.contains_key(path) && is_below(path)) {
                self.promise.codes.insert(6);
            }
            self.promise.stable = false;
        }
        // If the target accepts an entry after all, extra entries below it are reported like others.
        let extra = |path: &&Name| {
            !self.source.contains_key(*path) && self.promise.vague.iter().any(|vague| path.is_below(vague))
        };
        if sync && self.target.keys().any(|path| extra(&path)) {
            self.promise.codes.insert(6);
            self.promise.stable = false;
        }
    }

    /// Returns the extra entries that nothing protects. A directory stays if something in it does.
    fn removable(&self) -> BTreeSet<Name> {
        let mut gone = BTreeSet::new();
        for (path, entry) in self.target.iter().rev() {
            let in_the_way = path_and_above(path).any(|above| self.making_way.contains(&above));
            let blocked = self.blocked.iter().any(|blocked| path == blocked || path.is_below(blocked));
            let only_here = !self.source.contains_key(path) && !blocked;
            let mut inside = self.target.keys().filter(|other| other.is_below(path));
            let empties = !entry.is_directory() || inside.all(|other| gone.contains(other));
            let is_displaced = path_and_above(path)
                .any(|above| self.promise.entries.get(&above).is_some_and(|new| !new.entry.is_directory()));
            if (only_here || in_the_way)
                && empties
                && !is_displaced
                && self.select.may_remove(path, self.target)
            {
                gone.insert(path.clone());
            }
        }
        gone
    }

    /// Decides which names must be one file.
    fn link(&mut self) {
        // Attributes that do not fit are tried again in each run, which changes the inode's change time.
        let too_large = self.promise.entries.values().any(|expected| !self.able.fits(&expected.entry));
        // Over SFTP times out of range become the nearest one and differ in every later run. hakobu cannot find out
        // there that the target has a resolution coarser than seconds, or a smaller range.
        let sent = |time: Time| Time { s: time.s.clamp(0, u32::MAX.into()), ns: 0 };
        let coarse = self.able.cuts_times
            && self.source.values().any(|entry| self.able.time(entry.mtime) != sent(entry.mtime));
        if !self.tainted.is_empty() || too_large || coarse {
            self.promise.stable = false;
        }
        if self.step.is_without("hardlinks") {
            return;
        }
        let mut groups: BTreeMap<(u64, u64), Vec<Name>> = BTreeMap::new();
        for (path, entry) in self.source.iter().filter(|(_, entry)| entry.is_file()) {
            if self.brought.contains(path) {
                groups.entry(entry.inode).or_default().push(path.clone());
            }
        }
        for (inode, mut group) in groups {
            // A name that should be a hard link and is not is linked if the first name agrees in size and time, so it
            // may get the content of any name that is left alone. The first may also be a name that the target may not
            // accept, for which nothing is promised.
            let of_vague = self
                .source
                .iter()
                .filter(|(path, entry)| entry.inode == inode && self.promise.vague.contains(*path))
                .filter_map(|(path, _)| self.target.get(path).map(|there| there.kind.clone()));
            let of_vague: Vec<SeenKind> = of_vague.collect();
            let left_alone: Vec<SeenKind> = group
                .iter()
                .filter_map(|path| self.promise.entries.get(path))
                .flat_map(|expected| expected.or.clone())
                .chain(of_vague.iter().cloned())
                .collect();
            // It also gets that name's time if the times are equal only in coarse steps. For a name that the target may
            // not accept this is unknown.
            let mut members = group.iter().filter_map(|path| self.promise.entries.get(path));
            let keeps_time = !of_vague.is_empty() || members.any(|it| it.free.mtime);
            for path in &group {
                if let Some(expected) = self.promise.entries.get_mut(path) {
                    expected.free.mtime |= keeps_time;
                    expected.or.extend(left_alone.iter().cloned());
                }
            }
            group.retain(|path| !self.tainted.contains(path));
            let stands_for = self.said_to_be(inode);
            self.promise.apart.extend(group.iter().map(|path| (path.clone(), stands_for)));
            // Over SFTP equal but separate files stay separate, as the server does not tell which names are one file.
            let is_left = |path: &&Name| {
                let (there, entry) = (self.target.get(*path), self.source.get(*path));
                there.zip(entry).is_some_and(|(there, entry)| there.is_file() && there.size() == entry.size())
            };
            let left: BTreeSet<_> = group
                .iter()
                .filter(is_left)
                .filter_map(|path| self.target.get(path))
                .map(|it| it.inode)
                .collect();
            if self.is_shared(inode) && group.len() > 1 {
                // Which of them are linked depends on the order in which they are met, so a later run may link more.
                self.promise.stable = false;
            }
            // A target may tell one number of different files.
            let is_told = self.able.tells_inodes && !self.able.remembers_names || left.len() < 2;
            // Names that the listing proves to be equal are left alone, even if it was copied without hard links.
            let is_unproven = |path: &&Name| {
                let pair = self.source.get(*path).zip(self.target.get(*path));
                !pair.is_some_and(|(entry, there)| self.is_proven(entry, there))
            };
            let are_unproven = group.iter().all(|path| is_unproven(&path));
            if self.able.hard_links && is_told && are_unproven && !self.is_shared(inode) && group.len() > 1 {
                self.promise.links.push(group);
            }
        }
    }
}

impl PromiseBuilder<'_> {
    /// Returns true if the listing of a store proves that two entries are equal.
    fn is_proven(&self, entry: &SeenEntry, there: &SeenEntry) -> bool {
        (self.able.change_times || entry.stored.is_some()) && is_proven(entry, there)
    }

    /// Returns the files of the source that are reported with the same inode number.
    fn of_same_number(&self, inode: (u64, u64)) -> impl Iterator<Item = &SeenEntry> {
        let numbers = self.able.inode_numbers;
        let files = self.source.values().filter(|entry| entry.is_file());
        files.filter(move |entry| entry.inode.1 % numbers == inode.1 % numbers)
    }

    /// Returns true if the source reports the inode number for other files as well. Names that do not agree become
    /// separate files.
    fn is_shared(&self, inode: (u64, u64)) -> bool {
        self.able.inode_numbers < u64::MAX && self.of_same_number(inode).any(|entry| entry.inode != inode)
    }

    /// Returns a file that this one may become a hard link to: the source reports the same inode number, size, time,
    /// mode and owner for both, and their content is equal.
    fn said_to_be(&self, inode: (u64, u64)) -> (u64, u64) {
        if !self.is_shared(inode) {
            return inode;
        }
        let facts = |entry: &SeenEntry| (entry.kind.clone(), entry.mode, entry.owner, entry.mtime);
        let Some(own) = self.source.values().find(|entry| entry.inode == inode).map(facts) else {
            return inode;
        };
        self.of_same_number(inode).find(|entry| facts(entry) == own).map_or(inode, |entry| entry.inode)
    }
}

/// Returns true if the listing of a store proves that two entries of equal size are equal, as the documents say, although
/// another program may have changed one of them.
fn is_proven(entry: &SeenEntry, there: &SeenEntry) -> bool {
    // The listing shows the length of a link's text as a size, and of other kinds only directories.
    let listed_bytes = |it: &SeenEntry| match &it.kind {
        SeenKind::Directory => None,
        SeenKind::Link(to) => Some(to.len() as u64),
        _ => Some(it.size()),
    };
    if listed_bytes(entry) != listed_bytes(there) {
        return false;
    }
    // The kernel's clock for files advances in steps.
    let before = |time: Time, other: Time| {
        let ns = |time: Time| i128::from(time.s) * 1_000_000_000 + i128::from(time.ns);
        ns(time) <= ns(other) + 10_000_000
    };
    match (entry.stored, there.stored) {
        (None, Some(stored)) if !stored.shows_all => before(entry.ctime, stored.uploaded),
        (Some(stored), None) if !stored.shows_all => before(stored.uploaded, there.ctime),
        (Some(one), Some(other)) if !one.shows_all && !other.shows_all => {
            before(one.uploaded, other.uploaded)
        }
        _ => false,
    }
}

/// Returns the mode bits that a file may have without its access control list. The owning group may hold users that the list
/// names, and whoever it names may fall under the others: they must not gain anything.
fn permitted_without(list: &[u8]) -> u32 {
    let entries = list.get(4..).unwrap_or_default().chunks_exact(8);
    let entries: Vec<(u8, u32)> = entries.map(|entry| (entry[0], u32::from(entry[2]))).collect();
    let least =
        |tag: u8| entries.iter().filter(|(other, _)| *other == tag).fold(7, |all, (_, bits)| all & bits);
    let (users, owning_group, groups, mask) = (least(0x02), least(0x04), least(0x08), least(0x10));
    // Nobody is named without a mask.
    let named = if entries.iter().any(|(tag, _)| matches!(tag, 0x02 | 0x08)) { mask } else { 7 };
    0o7700 | (owning_group & users & mask) << 3 | (users & groups & named)
}

/// Returns a path and its parent directories, up to the root.
pub fn path_and_above(path: &Name) -> impl Iterator<Item = Name> {
    std::iter::successors(Some(path.clone()), Name::parent)
}

/// Returns the names of files with other hard links at the target than at the source that a run may leave so, and all names
/// that are connected with them by hard links.
fn tainted(step: &Step, source: &Snapshot, target: &Snapshot, able: &Abilities) -> BTreeSet<Name> {
    let select = Selection::of(step);
    // Names are separated if all of them take part.
    let tells = able.tells_all_names() && able.hard_links && !able.remembers_names;
    let is_compared = |name: &&Name| {
        let is_file = source.get(*name).is_some_and(SeenEntry::is_file);
        is_file && select.takes(name, source) && able.takes(name, &source[*name])
    };
    let is_separated =
        |names: &[&Name]| tells && !step.is_without("hardlinks") && names.iter().all(is_compared);
    let mut by_inode: BTreeMap<(bool, (u64, u64)), Vec<&Name>> = BTreeMap::new();
    for (is_target, side) in [(false, source), (true, target)] {
        for (path, entry) in side.iter().filter(|(_, entry)| entry.links > 1 && !entry.is_directory()) {
            by_inode.entry((is_target, entry.inode)).or_default().push(path);
        }
    }
    let mut found = BTreeSet::new();
    for ((_, _), names) in by_inode.iter().filter(|((is_target, _), names)| *is_target && names.len() > 1) {
        let at_source: Vec<Option<(u64, u64)>> =
            names.iter().map(|name| source.get(*name).map(|entry| entry.inode)).collect();
        if !is_separated(names)
            && (step.is_without("hardlinks")
                || at_source.iter().any(|inode| inode.is_none() || *inode != at_source[0]))
        {
            found.extend(names.iter().map(|name| (*name).clone()));
        }
    }
    loop {
        let before = found.len();
        for names in by_inode.values() {
            if names.iter().any(|name| found.contains(*name)) {
                found.extend(names.iter().map(|name| (*name).clone()));
            }
        }
        if found.len() == before {
            return found;
        }
    }
}

/// Adjusts the promise of a single file, which `sync` compares by content and changes in place.
pub fn of_one_file(step: &Step, before: &Snapshot, able: &Abilities, promise: &mut Promise) {
    let there = before.get(&Name::default()).filter(|_| !able.replaces_whole);
    for expected in promise.entries.values_mut() {
        if let Some(there) = there.filter(|there| there.is_file() && step.verb == StepVerb::Sync) {
            expected.or.clear();
            expected.kept = true;
            expected.entry.inode = there.inode;
        }
    }
}
