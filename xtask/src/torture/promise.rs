//! What a step promises: the target that it has to leave behind, and the exit code.
//!
//! Everything here is written from README.md, the book and the design notes, and from nothing else; when a document and this file say
//! different things, one of them is wrong. The prediction starts from what the oracle saw of both sides before the step. Where
//! the documents leave something open, the expectation is free in that, and a comment says why.

use std::collections::{BTreeMap, BTreeSet};

use super::ground::faults::Fault;
use super::model::{Name, Time};
use super::select::Selection;
use super::step::{Step, Verb};
use super::walk::{Entry, Kind, Snapshot};

/// What the target and the way to it can hold.
#[derive(Clone, Debug)]
pub struct Abilities {
    /// Owners and groups.
    pub owners: bool,
    /// All bits of the mode.
    pub modes: bool,
    /// Symbolic links.
    pub symlinks: bool,
    /// The longest target of a symbolic link.
    pub link_bytes_max: usize,
    /// Several names of one file.
    pub hard_links: bool,
    /// Whether it is told which names are of one file.
    pub tells_inodes: bool,
    /// How many inode numbers the source gives to its files; fewer than all are shared by files that are not the same.
    pub inode_numbers: u64,
    /// Whether the target may show names for a moment that are gone: the kernel remembers them where it takes one file for two.
    pub remembers_names: bool,
    /// Whether the target shows its times cut to 32 bits.
    pub cuts_times: bool,
    /// Pipes and devices.
    pub special_files: bool,
    /// Extended attributes of users.
    pub user_xattrs: bool,
    /// Extended attributes `trusted.*`, and capabilities.
    pub trusted_xattrs: bool,
    /// Access lists.
    pub acls: bool,
    /// Names that are no UTF-8.
    pub any_names: bool,
    /// Names that differ in case alone are two.
    pub case_sensitive: bool,
    /// The step of times in nanoseconds.
    pub mtime_step_ns: u64,
    /// First and last second that a time can have.
    pub mtime_range_s: (i64, i64),
    /// The step in which the source shows its times: what differs by less is not known to differ.
    pub seen_step_ns: u64,
    /// The same of times before 1970, of which programs behind FUSE may show whole seconds only.
    pub seen_early_step_ns: u64,
    /// Whether attributes are kept in ways that are not described here: only kinds and contents are looked at.
    pub loose: bool,
    /// All attributes of a file together that surely fit, in bytes.
    pub xattr_bytes_max: usize,
}

impl Default for Abilities {
    /// Returns what a file system has that holds everything.
    fn default() -> Self {
        Self {
            owners: true,
            modes: true,
            symlinks: true,
            link_bytes_max: usize::MAX,
            hard_links: true,
            tells_inodes: true,
            inode_numbers: u64::MAX,
            remembers_names: false,
            cuts_times: false,
            special_files: true,
            user_xattrs: true,
            trusted_xattrs: true,
            acls: true,
            any_names: true,
            case_sensitive: true,
            mtime_step_ns: 1,
            seen_step_ns: 1,
            seen_early_step_ns: 1,
            mtime_range_s: (i64::MIN, i64::MAX),
            xattr_bytes_max: usize::MAX,
            loose: false,
        }
    }
}

impl Abilities {
    /// Returns the time that the target keeps of this one.
    pub fn time(&self, time: Time) -> Time {
        let (first, last) = self.mtime_range_s;
        if time.s < first {
            return Time { s: first, ns: 0 };
        }
        let step = self.mtime_step_ns;
        if time.s > last {
            // The last that the way can tell may be within a step of the target.
            let seconds = (step / 1_000_000_000).max(1) as i64;
            return Time { s: last.div_euclid(seconds) * seconds, ns: 0 };
        }
        if step < 1_000_000_000 {
            return Time { s: time.s, ns: (u64::from(time.ns) / step * step) as u32 };
        }
        let seconds = (step / 1_000_000_000) as i64;
        Time { s: time.s.div_euclid(seconds) * seconds, ns: 0 }
    }

    /// Returns true if attributes of this name can be held.
    pub fn has_attribute(&self, name: &Name) -> bool {
        let text = &name.0;
        if text.starts_with(b"system.posix_acl") {
            self.acls
        } else if text.starts_with(b"user.") {
            self.user_xattrs
        } else {
            self.trusted_xattrs
        }
    }
}

impl Abilities {
    /// Returns true if the target surely takes an entry of this name and kind.
    pub fn takes(&self, path: &Name, entry: &Entry) -> bool {
        let kind = match entry.kind {
            // A file system whose names are text keeps what a link leads to as text as well.
            Kind::Link(ref to) => {
                let is_text = self.any_names || std::str::from_utf8(to).is_ok();
                self.symlinks && is_text && to.len() <= self.link_bytes_max
            }
            Kind::Pipe | Kind::Character(_) | Kind::Block(_) => self.special_files,
            _ => true,
        };
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let base = path.base();
        let name = self.any_names && self.case_sensitive
            || base.iter().all(plain) && base.len() < 200 && !base.ends_with(b".") && base != b"CON";
        kind && name
    }

    /// Returns true if the attributes of an entry surely fit.
    pub fn fits(&self, entry: &Entry) -> bool {
        let held = entry.xattrs.iter().filter(|(name, _)| self.has_attribute(name));
        held.map(|(name, value)| name.0.len() + value.len() + 20).sum::<usize>() <= self.xattr_bytes_max
    }
}

impl Promise {
    /// Frees all entries of what the run has told as a loss, in the word of the report.
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

/// What is not promised of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// The owner.
    pub owner: bool,
    /// All of the mode.
    pub mode: bool,
    /// Set-ID bits.
    pub set_id: bool,
    /// Fewer permissions than those that are expected.
    pub narrower: bool,
    /// The time.
    pub mtime: bool,
    /// Extended attributes but access lists.
    pub xattrs: bool,
    /// Access lists.
    pub acl: bool,
    /// Everything, be it there or not.
    pub all: bool,
}

/// An entry that the target has to have.
#[derive(Clone, Debug)]
pub struct Expected {
    /// The entry; its inode, ctime and room mean nothing unless `kept` is true.
    pub entry: Entry,
    /// The contents it may have instead.
    pub or: Vec<Kind>,
    /// What is not promised.
    pub free: Free,
    /// Whether it has to be the very inode that was there.
    pub kept: bool,
}

/// What a step promises.
#[derive(Clone, Debug, Default)]
pub struct Promise {
    /// The exit codes that it may end with: one, where the documents leave nothing open.
    pub codes: BTreeSet<i32>,
    /// The whole target.
    pub entries: BTreeMap<Name, Expected>,
    /// Names that have to be one file.
    pub links: Vec<Vec<Name>>,
    /// Which file of the source each name is: names of different files must not be one file.
    pub apart: BTreeMap<Name, (u64, u64)>,
    /// Whether a second run has to change nothing.
    pub stable: bool,
    /// What the target may not take. It fails there, or is a loss, and so is all below it.
    pub vague: Vec<Name>,
}

/// Returns what `source` becomes at `target`. `code` is what the step ended with: it decides where the documents
/// leave open which entries count for the limit of deletion, and whether something that the target does not hold is a failure.
pub fn of(step: &Step, source: &Snapshot, target: &Snapshot, able: &Abilities, code: Option<i32>) -> Promise {
    let mut making = Making {
        step,
        select: Selection::of(step),
        source,
        target,
        able,
        promise: Promise { stable: true, ..Promise::default() },
        tainted: tainted(step, source, target),
        failed: 0,
        code,
        blocked: Vec::new(),
        brought: BTreeSet::new(),
        making_way: Vec::new(),
    };
    making.failed += if step.verb == Verb::Sync && (step.delete || step.during) {
        0 // removed at the target, as the source lacks them
    } else {
        making.select.missing(source)
    };
    making.bring_over();
    making.remove();
    making.link();
    making.promise
}

struct Making<'a> {
    step: &'a Step,
    select: Selection<'a>,
    source: &'a Snapshot,
    target: &'a Snapshot,
    able: &'a Abilities,
    promise: Promise,
    tainted: BTreeSet<Name>,
    failed: usize,
    code: Option<i32>,
    /// Directories of the source under which nothing arrives.
    blocked: Vec<Name>,
    /// What of the source arrives.
    brought: BTreeSet<Name>,
    /// Directories of the target that have to go before a file of the source can come.
    making_way: Vec<Name>,
}

impl Making<'_> {
    /// All of the source that takes part.
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
                    // "A link at the target in the place of a directory is replaced by a directory."
                    if entry.is_directory()
                        && !there.is_directory()
                        && !matches!(there.kind, Kind::Link(_))
                        && self.step.verb == Verb::Copy =>
                {
                    self.failed += 1;
                    self.blocked.push(path.clone());
                    continue;
                }
                Some(there) if !entry.is_directory() && there.is_directory() => {
                    if self.step.verb == Verb::Copy {
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

    /// Returns what becomes of one entry.
    fn expected(&self, path: &Name, entry: &Entry, there: Option<&Entry>) -> Expected {
        let mut expected = Expected { entry: entry.clone(), or: Vec::new(), free: self.free(), kept: false };
        expected.entry.mtime = self.able.time(entry.mtime);
        expected.entry.xattrs.retain(|name, _| self.able.has_attribute(name));
        // Without its access list an entry may give fewer rights, and never more.
        expected.free.narrower = entry.xattrs.keys().any(|name| !self.able.has_attribute(name));
        if !self.able.fits(entry) {
            // What does not fit is a loss or a failure, and which of them goes first is not promised.
            expected.free.xattrs = true;
            expected.free.acl = true;
            expected.free.mode = true;
        }
        let is_early = entry.mtime.s < 0;
        let step_ns = if is_early { self.able.seen_early_step_ns } else { self.able.seen_step_ns };
        let seen = Abilities { mtime_step_ns: step_ns, ..Abilities::default() };
        // The server of OpenSSH cuts off what does not fit into 32 bits, and nobody can know.
        let shown = |time: Time| Time {
            s: if self.able.cuts_times { i64::from(time.s as u32) } else { time.s },
            ..time
        };
        let within_step = |there: &Entry| seen.time(shown(there.mtime)) == seen.time(entry.mtime);
        if step_ns > 1 && there.is_some_and(within_step) {
            expected.free.mtime = true;
        }
        if let Some(there) = there.filter(|there| there.is_file() && entry.is_file()) {
            let alike =
                there.size() == entry.size() && (there.mtime == expected.entry.mtime || expected.free.mtime);
            if alike && !self.step.by_digest {
                // "Files whose size and time are equal are left alone"; who looks closer may bring it over as well.
                expected.or.push(there.kind.clone());
            }
            // Of a file of several names one is written and the others are linked.
            let one_name = entry.links == 1 && there.links == 1 && !self.able.remembers_names;
            if self.step.in_place && self.step.verb == Verb::Sync && one_name {
                expected.kept = true;
                expected.entry.inode = there.inode;
            }
        }
        if there.is_some_and(Entry::is_directory) && entry.is_directory() {
            expected.kept = true;
            expected.entry.inode = there.map_or((0, 0), |there| there.inode);
        }
        if self.tainted.contains(path) {
            // Names are one file at the target and several at the source, or the reverse: "the target may have names elsewhere
            // that are nobody's business", so what one of them gets the others get, in no order.
            expected.free = Free {
                owner: true,
                mode: true,
                set_id: true,
                narrower: false,
                mtime: true,
                xattrs: true,
                acl: true,
                all: false,
            };
            expected.or = there.map(|there| there.kind.clone()).into_iter().collect();
            expected.kept = false;
        }
        expected
    }

    fn free(&self) -> Free {
        let without = |what: &str| self.step.is_without(what);
        if self.able.loose {
            return Free {
                owner: true,
                mode: true,
                set_id: true,
                narrower: false,
                mtime: true,
                xattrs: true,
                acl: true,
                all: false,
            };
        }
        Free {
            owner: without("owner") || !self.able.owners,
            narrower: false,
            // A set-ID bit without its owner would give the rights of somebody else.
            set_id: without("owner") || !self.able.owners,
            mode: !self.able.modes,
            mtime: false,
            // What cannot be seen or set is left as it is.
            xattrs: without("xattr") || !self.able.user_xattrs || !self.able.trusted_xattrs,
            acl: without("acl") || !self.able.acls,
            all: false,
        }
    }

    /// What only the target has, and what is in the way.
    fn remove(&mut self) {
        let consent = self.step.delete || self.step.during;
        let refused = self.code == Some(6);
        let gone: BTreeSet<Name> = self.removable();
        let sync = self.step.verb == Verb::Sync;
        // A rule protects something in the directory that is in the way: a failure, after which nothing is removed.
        let target = self.target;
        let stays = |path: &Name| {
            target.keys().any(|other| (other == path || other.is_below(path)) && !gone.contains(other))
        };
        self.failed += self.making_way.iter().filter(|path| stays(path)).count();
        self.making_way.retain(|path| !stays(path));
        let (count, total) = (gone.len(), self.target.len().saturating_sub(1));
        // Where both ends were lost nobody knows what they had made, and as little counts as had been seen by then.
        let may_be_unknown = self.step.fault.as_ref().is_some_and(Fault::may_lose_both_ends);
        let limit_holds = self.step.all_may_go
            || count * 2 <= total.saturating_sub(2) && !(may_be_unknown && refused)
            // Whether the root counts, and what is in the way: not promised.
            || count * 2 <= total + 2 && !refused;
        // What comes in the place of a directory comes after the removal, and may fail then.
        let comes_last = |path: &Name| {
            let is_directory = |tree: &Snapshot| tree.get(path).is_some_and(Entry::is_directory);
            is_directory(target) && !is_directory(self.source)
        };
        let fails_late = consent && self.promise.vague.iter().any(comes_last);
        // What goes before anything is brought over is gone, whatever fails afterwards.
        if sync && (self.step.during || fails_late) && (self.failed > 0 || self.code != Some(0)) {
            self.promise.vague.extend(gone.iter().cloned());
        }
        // What fails at the target keeps everything from being removed.
        let vague = !self.promise.vague.is_empty();
        // A rule protects something in a directory that is in the way: that fails before anything is removed.
        let keeps = |above: &&Name| {
            self.target.keys().any(|path| (path == *above || path.is_below(above)) && !gone.contains(path))
        };
        self.failed += if sync && consent { self.making_way.iter().filter(keeps).count() } else { 0 };
        let removes = sync && consent && self.failed == 0 && limit_holds && !(vague && self.code != Some(0));
        for (path, entry) in self.target {
            if self.promise.entries.contains_key(path) || removes && gone.contains(path) {
                continue;
            }
            let mut expected =
                Expected { entry: entry.clone(), or: Vec::new(), free: Free::default(), kept: true };
            // What is removed in a directory changes its time.
            expected.free.mtime = entry.is_directory();
            // Another name of the same file takes part: what that gets, this one gets ("the snapshot sees it too").
            let is_vague =
                |path: &Name| self.promise.vague.iter().any(|vague| path == vague || path.is_below(vague));
            let shares = |(other, its): (&Name, &Entry)| {
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
        // The target has grown, so that in a second run the same number may be less than half of it.
        self.promise.stable &= !(stay && consent);
        self.promise.codes = match (self.failed > 0, stay) {
            (false, false) => [0].into(),
            (false, true) => [6].into(),
            (true, false) => [3].into(),
            // After a failure nothing is removed. Which of the two is said first is not promised.
            (true, true) => [3, 6].into(),
        };
        // Where attributes are kept in ways of their own, setting them may fail.
        if vague || self.able.loose {
            self.promise.codes.insert(3);
            // Below what the target may have taken something may be there only, which stays without consent.
            let is_below = |path: &Name| self.promise.vague.iter().any(|vague| path.is_below(vague));
            if sync && self.target.keys().any(|path| !self.source.contains_key(path) && is_below(path)) {
                self.promise.codes.insert(6);
            }
            self.promise.stable = false;
        }
        // What the target takes all the same may have entries there that the source has not: of those it is told as of others.
        let extra = |path: &&Name| {
            !self.source.contains_key(*path) && self.promise.vague.iter().any(|vague| path.is_below(vague))
        };
        if sync && self.target.keys().any(|path| extra(&path)) {
            self.promise.codes.insert(6);
            self.promise.stable = false;
        }
    }

    /// Returns what only the target has and nothing protects. A directory stays if something in it does.
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

    /// Which names have to be one file.
    fn link(&mut self) {
        // Attributes that do not fit are tried again, which changes the time of the inode.
        let too_large = self.promise.entries.values().any(|expected| !self.able.fits(&expected.entry));
        // Over SFTP times that do not fit "become the nearest, and count as different ever after", and nobody finds out there that the
        // target keeps them in larger steps than seconds, or has fewer years.
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
            // "If a name should be a hard link and is not, it is linked: by its first name's size and time": so it has the content of any
            // that is left alone.
            // Of a name that the target may or may not hold nothing is promised, but it may be the first.
            let of_vague = self
                .source
                .iter()
                .filter(|(path, entry)| entry.inode == inode && self.promise.vague.contains(*path))
                .filter_map(|(path, _)| self.target.get(path).map(|there| there.kind.clone()));
            let of_vague: Vec<Kind> = of_vague.collect();
            let left_alone: Vec<Kind> = group
                .iter()
                .filter_map(|path| self.promise.entries.get(path))
                .flat_map(|expected| expected.or.clone())
                .chain(of_vague.iter().cloned())
                .collect();
            // And its time, where that is equal in coarse steps only. Nobody knows which those are of a name that may not be held.
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
            // "Names that are equal files of their own there stay so, as the server does not tell which are one file."
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
                // Which of them are linked to which depends on the order in which they are met: a later run may link more.
                self.promise.stable = false;
            }
            let is_told = self.able.tells_inodes || left.len() < 2;
            if self.able.hard_links && is_told && !self.is_shared(inode) && group.len() > 1 {
                self.promise.links.push(group);
            }
        }
    }
}

impl Making<'_> {
    /// Returns the files of the source to which it gives the same inode number as to this one.
    fn of_same_number(&self, inode: (u64, u64)) -> impl Iterator<Item = &Entry> {
        let numbers = self.able.inode_numbers;
        let files = self.source.values().filter(|entry| entry.is_file());
        files.filter(move |entry| entry.inode.1 % numbers == inode.1 % numbers)
    }

    /// Returns true if the source gives the inode number to other files as well. "Names that do not agree become files of their own."
    fn is_shared(&self, inode: (u64, u64)) -> bool {
        self.able.inode_numbers < u64::MAX && self.of_same_number(inode).any(|entry| entry.inode != inode)
    }

    /// Returns a file of which this one may become a name: "names are hard links where the source gives them one inode number and says
    /// the same of them: size, times, mode, owner", and where the content is equal.
    fn said_to_be(&self, inode: (u64, u64)) -> (u64, u64) {
        if !self.is_shared(inode) {
            return inode;
        }
        let facts = |entry: &Entry| (entry.kind.clone(), entry.mode, entry.owner, entry.mtime);
        let Some(own) = self.source.values().find(|entry| entry.inode == inode).map(facts) else {
            return inode;
        };
        self.of_same_number(inode).find(|entry| facts(entry) == own).map_or(inode, |entry| entry.inode)
    }
}

/// Returns a path and the directories that it is in, up to the root.
pub fn path_and_above(path: &Name) -> impl Iterator<Item = Name> {
    std::iter::successors(Some(path.clone()), Name::parent)
}

/// Returns the names of files that are linked at the target otherwise than at the source, and all that hangs together with them.
fn tainted(step: &Step, source: &Snapshot, target: &Snapshot) -> BTreeSet<Name> {
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
        if step.is_without("hardlinks")
            || at_source.iter().any(|inode| inode.is_none() || *inode != at_source[0])
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

/// A single file under `sync` is compared by content and changed where it lies.
pub fn of_one_file(step: &Step, before: &Snapshot, promise: &mut Promise) {
    let there = before.get(&Name::default());
    for expected in promise.entries.values_mut() {
        if let Some(there) = there.filter(|there| there.is_file() && step.verb == Verb::Sync) {
            expected.or.clear();
            expected.kept = true;
            expected.entry.inode = there.inode;
        }
    }
}
