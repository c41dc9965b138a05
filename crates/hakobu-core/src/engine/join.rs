//! Compares the two sides of one directory by merging two sorted listings into tasks.

mod examine;
mod extras;
mod links;
mod losses;
mod merge;
mod names;
mod verify;

use std::cmp::Ordering;
use std::sync::Arc;

use super::large::{IfDifferent, LargeFile, LargeFileMode};
use super::links::LinkedName;
use super::node::{
    CountedDirectory, DirectoryNode, DirectoryProof, DirectoryTask, Origin, OriginListing, Prefetched,
    TargetState, TouchedAttributes,
};
use super::queue::PackTask;
use super::room::{Space, SpaceNeed};
use super::shared::{EngineState, fail};
use crate::counters::LaneCounters;
use crate::endpoint::{Change, DraftId, DraftKind, Pick, Picks, SourceFile, failure};
use crate::entry::{EntryKind, EntryMetadata, Inode, SET_ID};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::NameShare;
use crate::extended::{Classes, Extended, ExtendedAsk};
use crate::listing::Listing;
use crate::losses::LossKind;
use crate::losses::Losses;
use crate::names::FoldedNames;
use crate::pack::{PACK_BYTES_TARGET, PACKED_FILE_BYTES_MAX};
use crate::path::EntryPath;
use crate::planner::{Action, decide_listed, same_attributes};
use crate::plant::planted;

/// The results of comparing a directory.
#[derive(Debug, Default)]
pub(super) struct JoinResults {
    pub directories: Vec<DirectoryTask>,
    pub packs: Vec<PackTask>,
    pub files: Vec<Arc<LargeFile>>,
    /// Attribute changes of entries in this directory. Each is pending in its node.
    pub changes: Vec<AttributeChange>,
    /// Inodes whose first name could not be changed.
    pub failed: Vec<Inode>,
    /// New hard links to existing paths of the target. Each is counted as pending in its node.
    pub links: Vec<(LinkedName, EntryPath)>,
    /// Entries to be removed, without directories. Each is counted as pending in its node.
    pub removals: Vec<EntryPath>,
    /// Names that another run copies.
    pub given: Vec<NameShare>,
    /// Entries that have to be examined first, in the order of the parts. Nothing else has been done for them.
    pub unclear: Vec<UnclearEntry>,
}

/// A change of attributes to be made.
#[derive(Debug)]
pub(super) struct AttributeChange {
    pub entry: ChangedEntry,
    pub change: Change,
}

/// An entry whose attributes are being changed.
#[derive(Clone, Debug)]
pub(super) struct ChangedEntry {
    /// The path at the source.
    pub source: EntryPath,
    /// The path at the target.
    pub target: EntryPath,
    /// The inode whose other names wait for this one.
    pub first_of: Option<Inode>,
}

/// An entry of a part whose listed attributes do not suffice.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnclearEntry {
    /// The number of the part.
    pub part: usize,
    /// The index in its listing.
    pub index: usize,
    /// The index of the target's entry of that name, if there is one.
    pub beside: Option<usize>,
}

/// Reads the extended attributes of an entry from the source, and records those that are lost.
pub(super) type AttributeExaminer<'a> =
    dyn FnMut(u16, &EntryPath, ExtendedAsk) -> Result<Option<Extended>> + 'a;

/// The comparison of one directory.
pub(super) struct Join<'a> {
    pub shared: &'a EngineState<'a>,
    pub counters: &'a LaneCounters,
    pub node: &'a Arc<DirectoryNode>,
    /// Listings of directories further down that the target sent along.
    pub prefetched: &'a Prefetched,
    /// Returns the ID of the next draft.
    pub next_draft: &'a mut dyn FnMut() -> DraftId,
    /// Reads the extended attributes of an entry. Fails if it has some that must not be lost.
    pub examine: &'a mut AttributeExaminer<'a>,
    pub found: JoinResults,
    losses: Losses,
    /// The index of the origin whose entries are being decided; below it its root and its path.
    origin: usize,
    root: u16,
    below: &'a EntryPath,
    /// The name at the target of the origin's only entry.
    target_name: Option<&'a [u8]>,
    picks: Vec<Pick>,
    picked_bytes: u64,
    /// True if one of them has further names at one of the ends, which only this run knows.
    has_linked_picks: bool,
    /// The entries picked for a pack whose content is compared, and their size in bytes.
    compared: Vec<Pick>,
    compared_bytes: u64,
    /// The action for those that differ.
    compared_as: IfDifferent,
    /// The inode of the entry that is being decided, if its other names wait for its attributes.
    first_of: Option<Inode>,
    /// True if the target's entry of that name is a name of another file than at the source, so that it becomes a new one.
    separates: bool,
    /// True for each of the target's entries that the source has as well. Empty if this is not needed.
    matched: Vec<bool>,
    /// True if these entries were unclear before and have been examined, and all others are left alone.
    again: bool,
    /// True if the run makes the directory, so that nothing of an earlier run is in it.
    is_new: bool,
    need: SpaceNeed,
    /// The number of files that a plan deletes.
    deletions: u64,
    /// The node's path for filter rules, as a prefix for a name.
    below_top: Vec<u8>,
    /// The names in the directory, if the target ignores case.
    folded: Option<FoldedNames>,
}

impl<'a> Join<'a> {
    pub fn new(
        shared: &'a EngineState<'a>,
        counters: &'a LaneCounters,
        node: &'a Arc<DirectoryNode>,
        prefetched: &'a Prefetched,
        next_draft: &'a mut dyn FnMut() -> DraftId,
        examine: &'a mut AttributeExaminer<'a>,
    ) -> Self {
        Self {
            shared,
            counters,
            node,
            prefetched,
            next_draft,
            examine,
            found: JoinResults::default(),
            losses: Losses::default(),
            origin: 0,
            root: 0,
            below: node.source(),
            target_name: None,
            picks: Vec::new(),
            picked_bytes: 0,
            has_linked_picks: false,
            compared: Vec::new(),
            compared_bytes: 0,
            compared_as: IfDifferent::Write(DraftKind::File),
            first_of: None,
            separates: false,
            matched: Vec::new(),
            again: false,
            is_new: false,
            need: SpaceNeed::default(),
            deletions: 0,
            below_top: if shared.filter.is_some() { node.below_top() } else { Vec::new() },
            folded: None,
        }
    }

    /// Compares entries that were unclear before, now that they have been examined.
    pub fn again(mut self) -> Self {
        self.again = true;
        self
    }

    /// Compares all entries of all parts. Without a target listing everything is new.
    pub fn run(mut self, parts: &[OriginListing], target: Option<&Listing>) -> JoinResults {
        let empty = Listing::default();
        let is_made = self.shared.setup.job.make_directory.is_some() && self.node.is_top();
        self.is_new = target.is_none() || is_made;
        let target = target.unwrap_or(&empty);
        debug_assert!(target.is_sorted() && parts.iter().all(|part| part.listing.is_sorted()));
        let mut matched = 0;
        if !target.is_empty() {
            self.need.meets_entries();
        }
        self.begin_extras(parts, target);
        self.begin_names(target);
        for (number, part) in parts.iter().enumerate() {
            let Some(origin) = self.node.origins.get(part.origin) else { continue };
            (self.origin, self.root, self.below) = (part.origin, origin.root, &origin.path);
            self.target_name = origin.only.as_ref().map(|only| &only.target_name[..]);
            matched += self.part(parts, number, target);
            self.close_pack(&part.listing);
            self.close_compared(&part.listing);
        }
        self.end_extras(target, matched);
        self.shared.plan_removals(self.deletions);
        self.shared.record.losses(self.losses.finish());
        self.shared.record.room().add(&self.need);
        self.found
    }

    /// Compares the entries of one part. Returns how many of the target's entries were matched.
    fn part(&mut self, parts: &[OriginListing], number: usize, target: &Listing) -> u64 {
        let source = &parts[number].listing;
        let (mut at, mut matched) = (0, 0);
        for index in 0..source.len() {
            let (mut name, directory) =
                (source.name(index), source.metadata(index).kind == EntryKind::Directory);
            let beside = if let Some(target_name) = self.target_name {
                name = target_name;
                target.find(name, directory)
            } else {
                while at < target.len() && target.compare(at, source, index) == Ordering::Less {
                    at += 1;
                }
                (at < target.len() && target.compare(at, source, index) == Ordering::Equal).then(|| {
                    at += 1;
                    at - 1
                })
            };
            // An entry of this name but another kind is sorted elsewhere.
            let beside = beside.or_else(|| match target.is_empty() {
                true => None,
                false => target.find(name, !directory),
            });
            if let Some(matched) = beside.and_then(|index| self.matched.get_mut(index)) {
                *matched = true;
            }
            if parts.len() > 1 && !self.comes_first(parts, number, index) {
                continue;
            }
            matched += u64::from(beside.is_some());
            self.entry(parts, number, index, beside.map(|index| (target, index)));
        }
        matched
    }

    fn scanned(&self, metadata: &EntryMetadata) {
        self.counters.entries_scanned.add(1);
        if metadata.kind == EntryKind::File || self.is_large(metadata) {
            self.counters.bytes_scanned.add(metadata.size_bytes);
        }
    }

    /// Decides the action for one entry of a part.
    fn entry(
        &mut self,
        parts: &[OriginListing],
        number: usize,
        index: usize,
        beside: Option<(&Listing, usize)>,
    ) {
        let target = beside.map(|(listing, index)| listing.metadata(index));
        let source = &parts[number].listing;
        let metadata = source.metadata(index);
        if !self.again && !self.node.has_found_entries() {
            if self.is_left_out(source.name(index), metadata) {
                self.counters.entries_scanned.add(1);
                return self.counters.entries_skipped.add(1);
            }
            self.scanned(metadata);
            if target.is_none() {
                self.counters.entries_absent.add(1);
            }
            if let Err(error) = self.check_name(source.name(index)) {
                return self.fail(source.name(index), error);
            }
            if self.is_unclear((source, index), metadata, beside) {
                self.counters.entries_examined.add(1);
                let beside = beside.map(|(_, index)| index);
                return self.found.unclear.push(UnclearEntry { part: number, index, beside });
            }
        }
        if self.gives_name(source.name(index), metadata) {
            return;
        }
        if self.verifies() {
            let evidence = self.evidence(source, beside.map(|(listing, _)| listing));
            let time = |target: &EntryMetadata| evidence.time_of_copy(metadata, target);
            let target = target.map(|target| EntryMetadata { mtime: time(target), ..*target });
            return self.verify(parts, number, index, target.as_ref());
        }
        if self.hashes() {
            return self.hash(parts, number, index);
        }
        if let Some(error) =
            beside.and_then(|(listing, there)| self.is_held_by_rule(metadata, listing, there))
        {
            // The run before has reported it.
            if !self.removes() {
                self.fail(source.name(index), error);
            }
            return;
        }
        if let Err(error) = self.check_readable(source.name(index), metadata) {
            return self.fail(source.name(index), at_source(error));
        }
        let able = &self.shared.able;
        let action = match metadata.kind {
            EntryKind::BlockDevice if self.is_large(metadata) => as_content(target),
            _ => {
                let evidence = self.evidence(source, beside.map(|(listing, _)| listing));
                let evidence = (&evidence, self.node.is_settled());
                decide_listed(metadata, target, able, self.makes_way(metadata), evidence)
            }
        };
        let action = match self.removes() {
            true => only_removing(metadata, target, action),
            false => action,
        };
        self.separates = false;
        let stays = matches!(action, Action::Leave | Action::SetAttributes)
            || self.compares(metadata, action, target);
        self.separates = stays
            && self.shared.able.hard_links
            && (self.is_one_with_another(source, metadata, target)
                || self.has_other_identity(source, metadata, beside));
        let action = if self.separates { Action::Replace } else { action };
        if let Err(error) = self.check_losses(source.name(index), metadata, action, target) {
            let name = source.name(index);
            return match self.node.target.join(self.target_name.unwrap_or(name)) {
                Ok(place) if action == Action::Conflict => self.fail(name, at_target(error, &place)),
                _ => self.fail(name, error),
            };
        }
        if metadata.kind == EntryKind::Directory && !matches!(action, Action::Conflict | Action::Skip) {
            return self.directory(&parts[number..], index, target, action);
        }
        self.first_of = None;
        if self.is_further_name(source, index, action, target) {
            return;
        }
        if self.shared.setup.job.dry_run && matches!(action, Action::Create | Action::Replace) {
            self.plan_room(metadata, target);
        }
        if self.compares(metadata, action, target) {
            let if_different = IfDifferent::Write(self.written_as(metadata, target));
            return self.compare(source, index, action != Action::Leave, if_different);
        }
        match action {
            Action::Create => self.content(source, index, None),
            Action::Replace => self.content(source, index, target),
            Action::SetAttributes => self.attributes(source, index, target),
            Action::Leave => {
                self.counters.entries_unchanged.add(1);
                if metadata.kind == EntryKind::File {
                    self.counters.bytes_unchanged.add(metadata.size_bytes);
                }
            }
            Action::Skip => {
                self.counters.entries_skipped.add(1);
                self.counters.sockets_skipped.add(u64::from(metadata.kind == EntryKind::Socket));
            }
            Action::MakeWay => {
                self.counters.entries_in_the_way.add(1);
                if let Some((listing, index)) = beside {
                    self.extra(listing, index, Some(metadata.kind));
                }
                // The removal is planned above, and the new entry here.
                if self.shared.setup.job.dry_run {
                    self.plan_room(metadata, None);
                    self.content(source, index, None);
                }
            }
            // Handled above.
            Action::Conflict | Action::Examine => {}
        }
    }

    /// Adds a task for a directory, an entry of the first of these parts.
    fn directory(
        &mut self,
        parts: &[OriginListing],
        index: usize,
        target: Option<&EntryMetadata>,
        action: Action,
    ) {
        let source = &parts[0].listing;
        let (name, metadata) = (source.name(index), source.metadata(index));
        let target_name = self.target_name.unwrap_or(name);
        let (origins, target_path) =
            match (self.origins(parts, target_name), self.node.target.join(target_name)) {
                (Ok(origins), Ok(target)) => (origins, target),
                (Err(error), _) | (_, Err(error)) => return self.fail(name, error),
            };
        if let Err(error) = self.check_described(target) {
            return self.fail(name, at_target(error, &target_path));
        }
        // Of a place that the user named, no listing tells whether something is mounted there.
        let may_be_mounted = |target: &EntryMetadata| target.mount_point || self.target_name.is_some();
        if target.is_some_and(may_be_mounted) {
            self.need.meets_file_system();
        }
        let is_new = matches!(action, Action::Create | Action::Replace);
        let able = &self.shared.able;
        let kept = self.shared.keeps_attributes(target);
        let counted = match (action, target) {
            _ if self.hashes() => CountedDirectory::Not,
            _ if kept.is_some() => CountedDirectory::Unchanged,
            _ if self.verifies() => match action {
                Action::Leave => CountedDirectory::Unchanged,
                _ => CountedDirectory::Different,
            },
            (Action::Create, _) => CountedDirectory::Created,
            (Action::Replace, _) => CountedDirectory::Updated,
            (Action::SetAttributes, Some(target)) if !same_attributes(metadata, target, able) => {
                CountedDirectory::AttributesOnly
            }
            _ => CountedDirectory::Unchanged,
        };
        let writes = !self.verifies() && !self.hashes();
        if is_new && writes {
            let verb = if action == Action::Replace { "replace" } else { "directory" };
            self.planned(verb, &target_path, 0);
            self.need.add_inode();
            self.node.touch();
        }
        if counted == CountedDirectory::AttributesOnly {
            self.planned("attributes", &target_path, 0);
        }
        let differs = target.is_none_or(|target| !target.same_extended(metadata));
        let sets = action != Action::Leave && writes && kept.is_none();
        let proof = match target.filter(|_| !is_new) {
            Some(target) if origins.len() == 1 => {
                self.shared.proof((metadata, target), self.node.is_settled())
            }
            _ => DirectoryProof::default(),
        };
        let renews = kept.is_none() && self.shared.renews(proof);
        let touched = TouchedAttributes::new(sets || renews, is_new || differs);
        // A directory without origins is created but not scanned.
        let beyond = self.shared.setup.job.one_file_system && metadata.mount_point;
        let origins = if beyond && self.target_name.is_none() { Vec::new() } else { origins };
        // A store as the source may have both as well.
        let stays = source.find(name, false).is_some();
        let is_occupied = is_new && writes && target.is_some() && !stays;
        let state = if is_occupied && self.shared.keeps_replaced_entries() {
            TargetState::Occupied
        } else if is_new || target.is_none() {
            TargetState::Absent
        } else {
            let listed = |listing| TargetState::Listed(listing, self.prefetched.clone());
            self.prefetched.take(&target_path).map_or(TargetState::Unknown, listed)
        };
        // For a directory merged from several sources only one listing would be known.
        let known = match (&origins[..], parts.first()) {
            ([origin], Some(part)) => part.below.known(&origin.path),
            _ => None,
        };
        let place = (origins, target_path);
        let attributes = match kept {
            // A listing that shows none has nothing that a removal could change either.
            Some(_) if self.shared.evidence.target_lacks() => None,
            None if self.shared.has_no_attributes(metadata, target.filter(|_| !is_new)) => None,
            kept => Some(kept.unwrap_or(metadata).attributes()),
        };
        let node = DirectoryNode::with_proof(
            place,
            (attributes, counted),
            Some(self.node.clone()),
            (touched, proof, self.shared.evidence.must_recheck().then_some(metadata.ctime)),
        );
        self.found.directories.push(DirectoryTask { node, target: state, known });
    }

    /// Adds a task to copy a file or symbolic link. `old`: the target's entry that is replaced.
    fn content(&mut self, source: &Arc<Listing>, index: usize, old: Option<&EntryMetadata>) {
        let replaces = old.is_some();
        let (name, metadata) = (source.name(index), source.metadata(index));
        let counter = if replaces { &self.counters.entries_updated } else { &self.counters.entries_created };
        if self.shared.setup.job.dry_run {
            counter.add(1);
            self.node.touch();
            let alone = self.is_large(metadata) || self.is_patched(metadata, old);
            self.shared.plan_content(metadata, alone, source.is_exact());
            if !replaces {
                self.need.add_inode();
            }
            if let Ok(path) = self.node.target.join(self.target_name.unwrap_or(name)) {
                let verb = if replaces { "update" } else { "create" };
                self.planned(verb, &path, metadata.size_bytes);
            }
            return;
        }
        self.plan_room(metadata, old);
        if !replaces {
            self.need.add_inode();
        }
        if self.is_large(metadata) || self.is_patched(metadata, old) {
            let resized = old.is_some_and(|old| old.size_bytes != metadata.size_bytes);
            let kind = self.written_as(metadata, old);
            let finds_moved = kind == DraftKind::Update && self.shared.setup.job.blocks;
            let file = self.large(name, metadata, replaces, kind);
            if let Some((file, old)) = file.zip(old).filter(|_| finds_moved) {
                file.moves.allow(old.size_bytes);
            }
            if let Some(file) = file.filter(|_| resized) {
                file.changes();
            }
            return;
        }
        let bytes = metadata.size_bytes + name.len() as u64;
        if !self.picks.is_empty()
            && (self.picked_bytes + bytes > PACK_BYTES_TARGET as u64
                || self.picks.len() as u32 >= self.shared.portions.pack_records)
        {
            self.close_pack(source);
        }
        self.has_linked_picks |= metadata.inode.is_some() || old.is_some_and(|old| old.links > 1);
        self.picks.push(Pick { index: index as u32, replaces });
        self.picked_bytes += bytes;
    }

    /// Returns true if a file is transferred on its own, which keeps its holes: it is too large for a pack, or the user
    /// named it. The content of a named device is transferred like that of a file.
    fn is_large(&self, metadata: &EntryMetadata) -> bool {
        let named = self.target_name.is_some();
        match metadata.kind {
            EntryKind::File => named || metadata.size_bytes > PACKED_FILE_BYTES_MAX,
            EntryKind::BlockDevice => named,
            _ => false,
        }
    }

    /// Returns true if the existing file is changed in place, whatever its size.
    fn is_patched(&self, metadata: &EntryMetadata, old: Option<&EntryMetadata>) -> bool {
        self.written_as(metadata, old) == DraftKind::InPlace
    }

    /// Returns the kind of draft that a file is written to.
    fn written_as(&self, metadata: &EntryMetadata, old: Option<&EntryMetadata>) -> DraftKind {
        let both_files =
            metadata.kind == EntryKind::File && old.is_some_and(|old| old.kind == EntryKind::File);
        let kind = match self.shared.setup.job.update.draft_kind() {
            kind if both_files && (metadata.size_bytes > 0 || kind == DraftKind::InPlace) => kind,
            _ => DraftKind::File,
        };
        // Another hard link of the old file may be a file of the source, or a file of the tree that gets other content.
        let systems = &self.shared.setup.job.source_file_systems;
        let shared = old.and_then(|old| old.inode).is_some_and(|it| systems.contains(&it.file_system));
        let further = self.target_name.is_none() && old.is_some_and(|old| old.links > 1);
        let is_new = self.separates || kind == DraftKind::InPlace && (shared || further);
        if is_new { DraftKind::File } else { kind }
    }

    /// Adds a file that is transferred on its own.
    fn large(
        &mut self,
        name: &[u8],
        metadata: &EntryMetadata,
        replaces: bool,
        kind: DraftKind,
    ) -> Option<&LargeFile> {
        let job = self.shared.setup.job;
        let paths = (self.below.join(name), self.node.target.join(self.target_name.unwrap_or(name)));
        let (path, target) = match paths {
            (Ok(path), Ok(target)) => (path, target),
            (Err(error), _) | (_, Err(error)) => {
                self.fail(name, error);
                return None;
            }
        };
        let tolerant = job.skip_unreadable;
        let source = SourceFile { root: self.root, path, metadata: *metadata, tolerant };
        let draft = (self.next_draft)();
        let named = self.target_name.is_some();
        let written = !matches!(kind, DraftKind::Sink | DraftKind::Compare);
        let digest = if written { job.digest } else { kind == DraftKind::Sink };
        let how = LargeFileMode { kind, replaces, named: named && written, digest };
        self.node.hold(1);
        if written {
            self.node.touch();
        }
        self.found.files.push(Arc::new(LargeFile::new(self.node.clone(), source, target, draft, how)));
        self.found.files.last().map(|file| &**file)
    }

    /// Adds the space that a file will take, minus that of the file it replaces.
    fn plan_room(&mut self, source: &EntryMetadata, target: Option<&EntryMetadata>) {
        // The amount of data between the holes of a sparse file is only known after reading it.
        if source.kind != EntryKind::File || source.sparse && !planted("sparse-space-counted") {
            return;
        }
        let bytes = |metadata: &EntryMetadata| i64::try_from(metadata.size_bytes).unwrap_or(i64::MAX);
        let freed = target.filter(|target| target.kind == EntryKind::File).map_or(0, bytes);
        let setup = self.shared.setup;
        let shared = setup.job.clone
            && setup.source.capabilities().clones
            && setup.target.capabilities().clones
            && source.size_bytes > PACKED_FILE_BYTES_MAX;
        let space = match () {
            () if shared => Space::Shared,
            () if self.is_large(source) && !self.is_new => Space::Drafted,
            () => Space::Needed,
        };
        self.need.add(bytes(source).saturating_sub(freed), space);
    }

    fn attributes(&mut self, source: &Arc<Listing>, index: usize, target: Option<&EntryMetadata>) {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let differs = target.is_some_and(|target| !target.same_extended(metadata));
        let paths = (self.below.join(name), self.node.target.join(self.target_name.unwrap_or(name)));
        match paths {
            (_, Ok(path)) if self.shared.setup.job.dry_run => {
                self.counters.entries_attributes_only.add(1);
                self.shared.plan_attributes(metadata, target);
                self.planned("attributes", &path, 0);
            }
            (Ok(source), Ok(path)) => {
                let ask = ExtendedAsk { miss: Classes::NONE, ..self.shared.ask };
                let extended = match differs {
                    true => (self.examine)(self.root, &source, ask),
                    false => Ok(None),
                };
                let extended = match extended {
                    Ok(extended) => extended,
                    Err(error) => {
                        self.found.failed.extend(self.first_of);
                        return self.fail(name, at_source(error));
                    }
                };
                self.node.hold(1);
                let entry = ChangedEntry { source, target: path.clone(), first_of: self.first_of };
                let change = Change::Attributes { path, attributes: metadata.attributes(), extended };
                self.found.changes.push(AttributeChange { entry, change });
            }
            (Err(error), _) | (_, Err(error)) => self.fail(name, error),
        }
    }

    /// Ends the pack being picked, if any.
    fn close_pack(&mut self, source: &Arc<Listing>) {
        if self.picks.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.picks);
        self.picked_bytes = 0;
        let target_name = self.target_name.map(<[u8]>::to_vec);
        let picks = Arc::new(Picks { listing: source.clone(), entries, target_name });
        self.node.hold(1);
        self.node.touch();
        let (node, origin) = (self.node.clone(), self.origin);
        let may_be_given = !std::mem::take(&mut self.has_linked_picks);
        self.found.packs.push(PackTask { may_be_given, ..PackTask::new(node, origin, picks) });
    }

    fn planned(&self, action: &str, path: &EntryPath, size_bytes: u64) {
        if self.shared.setup.job.dry_run {
            self.shared.planned(action, path, size_bytes);
        }
    }

    fn fail(&self, name: &[u8], error: Error) {
        let path = self.below.join(name).unwrap_or_else(|_| self.below.clone());
        fail(self.shared, self.counters, failure(path, error));
    }
}

/// Returns the action in a run that only removes: directories that both sides have are scanned, and nothing is copied.
fn only_removing(source: &EntryMetadata, target: Option<&EntryMetadata>, action: Action) -> Action {
    let both = |kind| source.kind == kind && target.is_some_and(|target| target.kind == kind);
    match action {
        Action::MakeWay => Action::MakeWay,
        _ if both(EntryKind::Directory) => Action::Leave,
        _ if source.kind == EntryKind::Directory => Action::Skip,
        _ => Action::Leave,
    }
}

/// Returns the action for the content of a device, which is copied regardless of times.
fn as_content(target: Option<&EntryMetadata>) -> Action {
    match target.map(|target| target.kind) {
        None => Action::Create,
        Some(EntryKind::Directory) => Action::Conflict,
        Some(_) => Action::Replace,
    }
}

/// Prepares an error of the source. The failure names the path there, so the error does not repeat it.
pub(super) fn at_source(mut error: Error) -> Error {
    if !error.is_fatal() {
        error.at.clear();
    }
    error
}

/// Adds the path at the target to an error of the target.
pub(super) fn at_target(error: Error, place: &EntryPath) -> Error {
    error.at(if place.is_root() { b"." } else { place.as_bytes() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_only_removes_looks_into_directories_of_both_sides_and_leaves_the_rest() {
        let (file, directory) =
            (EntryMetadata::new(EntryKind::File), EntryMetadata::new(EntryKind::Directory));
        for (source, target, decided, action) in [
            (&file, Some(&directory), Action::MakeWay, Action::MakeWay),
            (&directory, Some(&directory), Action::SetAttributes, Action::Leave),
            (&directory, Some(&file), Action::Replace, Action::Skip),
            (&directory, None, Action::Create, Action::Skip),
            (&file, Some(&file), Action::Replace, Action::Leave),
            (&file, None, Action::Create, Action::Leave),
        ] {
            assert_eq!(only_removing(source, target, decided), action, "{source:?} onto {target:?}");
        }
    }

    #[test]
    fn the_content_of_a_device_takes_the_place_of_all_but_a_directory() {
        assert_eq!(as_content(None), Action::Create);
        assert_eq!(as_content(Some(&EntryMetadata::new(EntryKind::File))), Action::Replace);
        assert_eq!(as_content(Some(&EntryMetadata::new(EntryKind::Directory))), Action::Conflict);
    }

    #[test]
    fn errors_name_their_place_at_the_target_alone() {
        let error = |kind| Error::new(kind, "reading", "").at("there");
        assert_eq!(at_source(error(ErrorKind::Io)).at, b"");
        assert_eq!(at_source(error(ErrorKind::ConnectionLost)).at, b"there");
        let place = |path: &str| {
            at_target(Error::new(ErrorKind::Io, "writing", ""), &EntryPath::new(path).unwrap()).at
        };
        assert_eq!((place("a/b"), place("")), (b"a/b".to_vec(), b".".to_vec()));
    }
}
