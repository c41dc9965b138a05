//! Comparing the two sides of one directory: a merge of two sorted listings into tasks.

use std::cmp::Ordering;
use std::sync::Arc;

use super::Shared;
use super::large::{How, LargeFile};
use super::node::{DirectoryTask, Node, Prefetched, TargetState};
use super::queue::PackTask;
use crate::counters::LaneCounters;
use crate::endpoint::{Change, DraftId, DraftKind, LossKind, Pick, Picks, SourceFile, failure};
use crate::entry::{Kind, Metadata};
use crate::error::{Error, ErrorKind};
use crate::event::{Event, Failure};
use crate::listing::Listing;
use crate::pack::{PACK_BYTES_TARGET, PACK_RECORDS_MAX, PACKED_FILE_BYTES_MAX};
use crate::path::EntryPath;
use crate::planner::{Action, decide, same_attributes};

/// What comparing a directory led to.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub directories: Vec<DirectoryTask>,
    pub packs: Vec<PackTask>,
    pub files: Vec<Arc<LargeFile>>,
    /// Attribute changes in this directory with the paths at the source; each is counted as pending
    /// in its node.
    pub changes: Vec<(EntryPath, Change)>,
}

/// Compares one directory.
pub(super) struct Join<'a> {
    pub shared: &'a Shared<'a>,
    pub counters: &'a LaneCounters,
    pub node: &'a Arc<Node>,
    /// Listings of directories below that the target sent along.
    pub prefetched: &'a Prefetched,
    /// Gives numbers to drafts.
    pub next_draft: &'a mut dyn FnMut() -> DraftId,
    /// The target name of the only entry, if it is not the source's.
    pub target_name: Option<&'a [u8]>,
    /// What that one is written to.
    pub place: DraftKind,
    pub found: Found,
    picks: Vec<Pick>,
    picked_bytes: u64,
}

impl<'a> Join<'a> {
    pub fn new(
        shared: &'a Shared<'a>,
        counters: &'a LaneCounters,
        node: &'a Arc<Node>,
        prefetched: &'a Prefetched,
        next_draft: &'a mut dyn FnMut() -> DraftId,
    ) -> Self {
        Self {
            shared,
            counters,
            node,
            prefetched,
            next_draft,
            target_name: None,
            place: DraftKind::File,
            found: Found::default(),
            picks: Vec::new(),
            picked_bytes: 0,
        }
    }

    /// Compares all entries. Without a target listing everything is new.
    pub fn run(mut self, source: &Arc<Listing>, target: Option<&Listing>) -> Found {
        let empty = Listing::default();
        let target = target.unwrap_or(&empty);
        let (mut at, mut matched) = (0, 0u64);
        for index in 0..source.len() {
            while at < target.len() && target.compare(at, source, index) == Ordering::Less {
                at += 1;
            }
            let metadata = source.metadata(index);
            let beside = if at < target.len() && target.compare(at, source, index) == Ordering::Equal {
                at += 1;
                Some(at - 1)
            } else if target.is_empty() {
                None
            } else {
                // The same name of another kind sorts elsewhere.
                target.find(source.name(index), metadata.kind != Kind::Directory)
            };
            matched += u64::from(beside.is_some());
            self.entry(source, index, beside.map(|index| target.metadata(index)));
        }
        self.counters.entries_only_in_target.add((target.len() as u64).saturating_sub(matched));
        self.close_pack(source);
        self.found
    }

    /// Decides for one entry.
    pub fn entry(&mut self, source: &Arc<Listing>, index: usize, target: Option<&Metadata>) {
        let metadata = source.metadata(index);
        self.counters.entries_scanned.add(1);
        if metadata.kind == Kind::File {
            self.counters.bytes_scanned.add(metadata.size_bytes);
        }
        let able = self.shared.setup.target.capabilities();
        let action = decide(metadata, target, able);
        if let Some(error) = self.refusal(metadata, action, target) {
            let name = source.name(index);
            return match self.node.target.join(self.target_name.unwrap_or(name)) {
                Ok(place) if action == Action::Conflict => self.fail(name, at_target(error, &place)),
                _ => self.fail(name, error),
            };
        }
        if metadata.kind == Kind::Directory {
            return self.directory(source, index, target, action);
        }
        match action {
            Action::Create | Action::Replace => self.content(source, index, action == Action::Replace),
            Action::SetAttributes => self.attributes(source, index),
            Action::Leave => {
                self.counters.entries_unchanged.add(1);
                if metadata.kind == Kind::File {
                    self.counters.bytes_unchanged.add(metadata.size_bytes);
                }
            }
            Action::Skip => self.counters.entries_skipped.add(1),
            // Refusals were dealt with above.
            Action::Conflict | Action::Unsupported => {}
        }
    }

    /// Why this entry cannot be copied, if it cannot.
    fn refusal(&self, source: &Metadata, action: Action, target: Option<&Metadata>) -> Option<Error> {
        match action {
            Action::Conflict => {
                let there = target.map_or("something else", |target| target.kind.words());
                let words = format!(
                    "the target has {there} where the source has {}; remove or rename one of them",
                    source.kind.words()
                );
                Some(Error::new(ErrorKind::Conflict, "copying", words))
            }
            Action::Unsupported => {
                let words = format!("{} is not copied by this version", source.kind.words());
                Some(Error::new(ErrorKind::Unsupported, "copying", words))
            }
            Action::Create | Action::Replace => self.forbidden_loss(source),
            _ => None,
        }
    }

    /// An error if this entry would lose something that `--require` asks to keep.
    fn forbidden_loss(&self, source: &Metadata) -> Option<Error> {
        let require = &self.shared.setup.job.require;
        if source.kind != Kind::File || require.is_empty() {
            return None;
        }
        let holes = source.sparse && !self.is_large(source);
        let lost = [(LossKind::HardLinks, source.links > 1), (LossKind::Holes, holes)];
        let (kind, _) = lost.into_iter().find(|(kind, loses)| *loses && require.contains(kind))?;
        let words = format!("--require {} cannot be met: this version does not keep it", kind.name());
        Some(Error::new(ErrorKind::Requirement, "copying", words))
    }

    fn directory(&mut self, source: &Arc<Listing>, index: usize, target: Option<&Metadata>, action: Action) {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let (source_path, target_path) =
            match (self.node.source.join(name), self.node.target.join(self.target_name.unwrap_or(name))) {
                (Ok(source), Ok(target)) => (source, target),
                (Err(error), _) | (_, Err(error)) => return self.fail(name, error),
            };
        let is_new = matches!(action, Action::Create | Action::Replace);
        let able = self.shared.setup.target.capabilities();
        match (action, target) {
            (Action::Create, _) => self.counters.entries_created.add(1),
            (Action::Replace, _) => self.counters.entries_updated.add(1),
            (Action::SetAttributes, Some(target)) if !same_attributes(metadata, target, able) => {
                self.counters.entries_attributes_only.add(1);
            }
            _ => self.counters.entries_unchanged.add(1),
        }
        if is_new {
            self.planned("directory", &target_path, 0);
            self.node.touch();
        }
        let touched = action != Action::Leave;
        let state = if is_new {
            TargetState::Absent
        } else {
            let listed = |listing| TargetState::Listed(listing, self.prefetched.clone());
            self.prefetched.take(&target_path).map_or(TargetState::Unknown, listed)
        };
        let place = (self.node.root, source_path, target_path);
        let node = Node::new(place, Some(metadata.attributes()), Some(self.node.clone()), touched);
        self.found.directories.push(DirectoryTask { node, target: state });
    }

    /// Brings over a file or link.
    fn content(&mut self, source: &Arc<Listing>, index: usize, replaces: bool) {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let counter = if replaces { &self.counters.entries_updated } else { &self.counters.entries_created };
        if self.shared.setup.job.dry_run {
            counter.add(1);
            if let Ok(path) = self.node.target.join(self.target_name.unwrap_or(name)) {
                let verb = if replaces { "update" } else { "create" };
                self.planned(verb, &path, metadata.size_bytes);
            }
            return;
        }
        if self.is_large(metadata) {
            return self.large(name, metadata, replaces);
        }
        let bytes = metadata.size_bytes + name.len() as u64;
        if !self.picks.is_empty()
            && (self.picked_bytes + bytes > PACK_BYTES_TARGET as u64
                || self.picks.len() as u32 >= PACK_RECORDS_MAX)
        {
            self.close_pack(source);
        }
        self.picks.push(Pick { index: index as u32, replaces });
        self.picked_bytes += bytes;
    }

    /// Whether a file travels by itself: it is too big for a pack, or the only one.
    fn is_large(&self, metadata: &Metadata) -> bool {
        let single = self.target_name.is_some();
        metadata.kind == Kind::File && (single || metadata.size_bytes > PACKED_FILE_BYTES_MAX)
    }

    fn large(&mut self, name: &[u8], metadata: &Metadata, replaces: bool) {
        let job = self.shared.setup.job;
        let paths = (self.node.source.join(name), self.node.target.join(self.target_name.unwrap_or(name)));
        let (path, target) = match paths {
            (Ok(path), Ok(target)) => (path, target),
            (Err(error), _) | (_, Err(error)) => return self.fail(name, error),
        };
        let tolerant = job.skip_unreadable;
        let source = SourceFile { root: self.node.root, path, metadata: *metadata, tolerant };
        let draft = (self.next_draft)();
        let named = self.target_name.is_some();
        let how = How { kind: self.place, replaces, named, digest: job.digest };
        self.node.hold(1);
        self.node.touch();
        self.found.files.push(Arc::new(LargeFile::new(self.node.clone(), source, target, draft, how)));
    }

    fn attributes(&mut self, source: &Arc<Listing>, index: usize) {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let paths = (self.node.source.join(name), self.node.target.join(self.target_name.unwrap_or(name)));
        match paths {
            (_, Ok(path)) if self.shared.setup.job.dry_run => {
                self.counters.entries_attributes_only.add(1);
                self.planned("attributes", &path, 0);
            }
            (Ok(source), Ok(path)) => {
                self.node.hold(1);
                let change = Change::Attributes { path, attributes: metadata.attributes() };
                self.found.changes.push((source, change));
            }
            (Err(error), _) | (_, Err(error)) => self.fail(name, error),
        }
    }

    /// Ends the pack that is being picked, if any.
    pub fn close_pack(&mut self, source: &Arc<Listing>) {
        if self.picks.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.picks);
        self.picked_bytes = 0;
        let target_name = self.target_name.map(<[u8]>::to_vec);
        let picks = Arc::new(Picks { listing: source.clone(), entries, target_name });
        self.node.hold(1);
        self.node.touch();
        self.found.packs.push(PackTask { node: self.node.clone(), picks });
    }

    fn planned(&self, action: &str, path: &EntryPath, size_bytes: u64) {
        if self.shared.setup.job.dry_run {
            let path = path.as_bytes().to_vec();
            self.shared.setup.observer.event(Event::Planned { action: action.into(), path, size_bytes });
        }
    }

    fn fail(&self, name: &[u8], error: Error) {
        let path = self.node.source.join(name).unwrap_or_else(|_| self.node.source.clone());
        fail(self.shared, self.counters, failure(path, error));
    }
}

/// Records that one entry could not be copied; ends the run if all others would fail as well.
pub(super) fn fail(shared: &Shared<'_>, counters: &LaneCounters, failure: Failure) {
    if failure.error.is_fatal() {
        return shared.stop(failure.error.at(&failure.path));
    }
    counters.entries_failed.add(1);
    shared.record.failure(&failure);
    shared.setup.observer.event(Event::Failure(failure));
}

/// An error of the source. The failure names the path there, so the error names none.
pub(super) fn at_source(mut error: Error) -> Error {
    if !error.is_fatal() {
        error.at.clear();
    }
    error
}

/// An error of the target, with the place there.
pub(super) fn at_target(error: Error, place: &EntryPath) -> Error {
    error.at(if place.is_root() { b"." } else { place.as_bytes() })
}
