//! Compares entries in a run that writes nothing, or before an action is decided if times are not trusted.

use super::*;
use crate::engine::links::{LinkAction, LinkHome};
use crate::event::Different;
use crate::job::Mode;
use crate::planner::{same_permissions, same_time};

impl Join<'_> {
    /// Returns true if this run only compares.
    pub(super) fn verifies(&self) -> bool {
        self.shared.setup.job.mode == Mode::Compare
    }

    /// Returns true if the action for an entry on both sides depends on comparing its content.
    pub(super) fn compares(
        &self,
        source: &EntryMetadata,
        action: Action,
        target: Option<&EntryMetadata>,
    ) -> bool {
        let has_content = |kind| matches!(kind, EntryKind::File | EntryKind::Symlink);
        let comparable = |target: &&EntryMetadata| target.kind == source.kind && has_content(source.kind);
        let Some(target) = target.filter(comparable).filter(|_| !self.separates) else { return false };
        // Content that the target may have lost in a crash is trusted only after comparing it.
        let doubted = target.doubted && matches!(action, Action::Leave | Action::SetAttributes);
        // A named file that is changed in place is compared while it is written.
        let as_written =
            self.target_name.is_some() && self.written_as(source, Some(target)) == DraftKind::InPlace;
        let asked = self.shared.setup.job.compare_content
            && !as_written
            && matches!(action, Action::Leave | Action::SetAttributes | Action::Replace);
        // A link is its text, which may be another one of the same length.
        let is_text = source.kind == EntryKind::Symlink
            && matches!(action, Action::Leave | Action::SetAttributes)
            && self.may_have_other_text(source, target);
        (asked || doubted || is_text) && !self.removes() && target.size_bytes == source.size_bytes
    }

    /// Returns true if the texts of symbolic links may differ although the listings show no difference.
    fn may_have_other_text(&self, source: &EntryMetadata, target: &EntryMetadata) -> bool {
        let evidence = &self.shared.evidence;
        evidence.may_have_other_text(source, target) || evidence.needs_settled() && !self.node.is_settled()
    }

    /// Returns true if this run only computes digests.
    pub(super) fn hashes(&self) -> bool {
        self.shared.setup.job.mode.is_digest()
    }

    /// Adds a task to compute the digest of a file, or to scan a directory.
    pub(super) fn hash(&mut self, parts: &[OriginListing], number: usize, index: usize) {
        match parts[number].listing.metadata(index).kind {
            EntryKind::Directory => self.directory(&parts[number..], index, None, Action::Create),
            EntryKind::File => {
                self.compare(&parts[number].listing, index, false, IfDifferent::Write(DraftKind::File));
            }
            _ => self.counters.entries_skipped.add(1),
        }
    }

    /// Adds a task to compare the content of an entry. `differs`: something else is known to differ.
    pub(super) fn compare(
        &mut self,
        source: &Arc<Listing>,
        index: usize,
        differs: bool,
        if_different: IfDifferent,
    ) {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let is_large = metadata.kind == EntryKind::File && metadata.size_bytes > PACKED_FILE_BYTES_MAX;
        // A store may keep the digest.
        let asks = self.hashes() && self.shared.uses_kept_digests();
        if is_large && !asks {
            let kind = if self.hashes() { DraftKind::Sink } else { DraftKind::Compare };
            if let Some(file) = self.large(name, metadata, differs, kind) {
                let _once = file.if_different.set(if_different);
            }
            return;
        }
        let bytes = metadata.size_bytes + name.len() as u64;
        let full = self.compared_bytes + bytes > PACK_BYTES_TARGET as u64
            || self.compared.len() as u32 >= self.shared.portions.pack_records;
        if full || self.compared_as != if_different {
            self.close_compared(source);
        }
        self.compared_as = if_different;
        self.compared.push(Pick { index: index as u32, replaces: differs });
        self.compared_bytes += bytes;
    }

    /// Ends the pack of entries to compare, if any.
    pub(super) fn close_compared(&mut self, source: &Arc<Listing>) {
        if self.compared.is_empty() {
            return;
        }
        let entries = std::mem::take(&mut self.compared);
        self.compared_bytes = 0;
        let target_name = self.target_name.map(<[u8]>::to_vec);
        let picks = Arc::new(Picks { listing: source.clone(), entries, target_name });
        self.node.hold(1);
        let (node, origin) = (self.node.clone(), self.origin);
        let compare = Some(self.compared_as.clone());
        self.found.packs.push(PackTask { compare, ..PackTask::new(node, origin, picks) });
    }

    /// Compares an entry of a part with the target's entry.
    pub(super) fn verify(
        &mut self,
        parts: &[OriginListing],
        number: usize,
        index: usize,
        target: Option<&EntryMetadata>,
    ) {
        let source = &parts[number].listing;
        let (name, metadata) = (source.name(index), source.metadata(index));
        if metadata.kind == EntryKind::Socket {
            self.counters.sockets_skipped.add(1);
            return self.counters.entries_skipped.add(1);
        }
        let path = match self.node.target.join(self.target_name.unwrap_or(name)) {
            Ok(path) => path,
            Err(error) => return self.fail(name, error),
        };
        let Some(target) = target else {
            // If the target has no directories of its own, an empty one is not visible there.
            if metadata.kind == EntryKind::Directory && !self.shared.able.directories {
                return self.directory(&parts[number..], index, None, Action::Leave);
            }
            return self.differs(&path, Different::OnlyInSource);
        };
        if target.kind != metadata.kind {
            self.counters.entries_different.add(1);
            return self.shared.differs_from(metadata, target, &path, Different::Kind);
        }
        let readable = self.check_readable(name, metadata).and_then(|()| self.count_missed(name, metadata));
        let readable = readable.map_err(at_source).and_then(|()| match target.is_unreadable() {
            true => Err(at_target(super::losses::unreadable(), &path)),
            false => Ok(()),
        });
        if let Err(error) = readable {
            self.fail(name, error);
            // The contents of the directory are compared anyway.
            if metadata.kind == EntryKind::Directory {
                self.directory(&parts[number..], index, Some(target), Action::Leave);
            }
            return;
        }
        for what in self.shared.incomparable(metadata, target) {
            let below = self.below.join(name).unwrap_or_default();
            self.losses.add(what, false, || below.as_bytes().to_vec());
        }
        let mut attributes = self.shared.attributes_that_differ(metadata, target);
        if self.is_one_with_another(source, metadata, Some(target))
            || self.is_another_file(metadata, target, &path)
        {
            attributes.push(Different::Links);
        }
        attributes.iter().for_each(|what| self.shared.differs_from(metadata, target, &path, *what));
        let differs = !attributes.is_empty();
        match metadata.kind {
            EntryKind::Directory => {
                let action = if differs { Action::SetAttributes } else { Action::Leave };
                self.directory(&parts[number..], index, Some(target), action);
            }
            EntryKind::File if metadata.size_bytes != target.size_bytes => {
                self.shared.differs_from(metadata, target, &path, Different::Size);
                self.counters.entries_different.add(1);
            }
            // The size of a symbolic link is the length of its text.
            EntryKind::Symlink if metadata.size_bytes != target.size_bytes => {
                self.differs(&path, Different::Content);
            }
            EntryKind::File if self.shared.setup.job.sample.is_some_and(|sample| !sample.takes(&path)) => {
                self.count(differs);
            }
            EntryKind::File | EntryKind::Symlink => {
                if differs {
                    self.counters.entries_different.add(1);
                }
                self.compare(source, index, differs, IfDifferent::Write(DraftKind::File));
            }
            _ if metadata.device != target.device => self.differs(&path, Different::Content),
            _ => self.count(differs),
        }
    }

    /// Returns true if names of one inode at the source belong to several inodes at the target.
    fn is_another_file(&self, metadata: &EntryMetadata, target: &EntryMetadata, path: &EntryPath) -> bool {
        let seen = self.shared.setup.job.hard_links && self.shared.tells_names();
        let takes_part = seen && self.target_name.is_none();
        let Some(inode) = metadata.inode.filter(|_| takes_part) else { return false };
        let there = target.inode;
        let follower = || LinkedName {
            node: self.node.clone(),
            origin: self.origin,
            name: Vec::new(),
            metadata: *metadata,
            target: path.clone(),
            replaces: true,
            there,
            compared: None,
            written_as: DraftKind::File,
            equal: false,
        };
        let home = LinkHome { path: path.clone(), inode: there, is_told: true, is_new: false };
        match self.shared.links.enter_there(inode, home, follower, metadata.links) {
            LinkAction::There(home) => home.inode.is_none() || home.inode != there,
            LinkAction::First | LinkAction::Waits | LinkAction::TooMany => false,
        }
    }

    /// Reports entries that only the target has. A directory is reported without its contents.
    pub(super) fn verify_extras(&mut self, target: &Listing) {
        let matched = std::mem::take(&mut self.matched);
        for index in matched.iter().enumerate().filter_map(|(index, matched)| (!matched).then_some(index)) {
            let (name, kind) = (target.name(index), target.metadata(index).kind);
            if kind == EntryKind::Socket || self.is_protected(name, kind) {
                continue;
            }
            match self.node.target.join(name) {
                Ok(path) => {
                    self.counters.entries_only_in_target.add(1);
                    self.shared.differs(&path, Different::OnlyInTarget);
                }
                Err(error) => self.fail(name, error),
            }
        }
    }

    fn differs(&self, path: &EntryPath, what: Different) {
        self.shared.differs(path, what);
        self.counters.entries_different.add(1);
    }

    fn count(&self, differs: bool) {
        let counter =
            if differs { &self.counters.entries_different } else { &self.counters.entries_unchanged };
        counter.add(1);
    }
}

impl EngineState<'_> {
    /// Returns true if set-ID bits are compared: only those that a copy with the same options would keep.
    fn keeps_set_id(&self, source: &EntryMetadata, target: &EntryMetadata) -> bool {
        let owned = (source.uid, source.gid) == (target.uid, target.gid);
        self.setup.target.capabilities().set_id && (owned || self.setup.job.owners)
    }

    /// Returns the attributes that differ between entries of one kind, as far as they are compared.
    pub(in crate::engine) fn attributes_that_differ(
        &self,
        source: &EntryMetadata,
        target: &EntryMetadata,
    ) -> Vec<Different> {
        let job = self.setup.job;
        // A directory that something in it implies has no attributes.
        if source.kind == EntryKind::Directory && (!self.able.directories || source.is_implied()) {
            return Vec::new();
        }
        let owner = (source.uid, source.gid) == (target.uid, target.gid);
        [
            (
                !self.able.modes || same_permissions(source, target, self.keeps_set_id(source, target)),
                Different::Mode,
            ),
            (!job.owners || owner, Different::Owner),
            (same_time(source, target, &self.able), Different::Time),
            (source.same_extended(target), Different::Extended),
        ]
        .into_iter()
        .filter_map(|(equal, what)| (!equal).then_some(what))
        .collect()
    }
}
