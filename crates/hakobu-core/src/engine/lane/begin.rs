//! Begins a run: turns the items that the user named into the first tasks.

use std::collections::HashSet;

use super::*;
use crate::exchange::DirectoryShare;
use crate::job::Removal;
use crate::planner::{same_attributes, same_time};

impl Worker<'_> {
    /// Examines the items that the user named, or those that the run was given, and adds the first tasks to the queue.
    pub fn begin(&mut self) -> Result<()> {
        match self.shared.setup.exchange.and_then(|exchange| exchange.begin()) {
            Some(shares) => self.begin_shares(shares)?,
            None => self.begin_items()?,
        }
        self.shared.queue.start();
        if self.shared.queue.scan_done() {
            self.scan_ended();
        }
        Ok(())
    }

    fn begin_items(&mut self) -> Result<()> {
        let job = self.shared.setup.job;
        if let Some(path) = job.make_directory.as_ref().filter(|_| !job.dry_run) {
            let changes = vec![Change::MakeDirectory { path: path.clone(), mode: 0o755 }];
            let TargetOutcome::PackWritten { failures, .. } = self.ask_target(TargetOp::Apply { changes })?
            else {
                return Err(unexpected());
            };
            if let Some((_, error)) = failures.into_iter().next() {
                return Err(error);
            }
        }
        let mut found = Vec::with_capacity(job.items.len());
        for item in &job.items {
            let begun = self.look_at(item.root, &item.source).and_then(|metadata| {
                let tree_of_digests = job.mode.is_digest() && metadata.kind == EntryKind::Directory;
                if (item.place != DraftKind::File && !tree_of_digests) || self.is_stream() {
                    return self.begin_content(item, metadata);
                }
                found.push((item, metadata));
                Ok(())
            });
            if let Err(error) = begun {
                self.fail_item(&item.source, error)?;
            }
        }
        for group in together(&found) {
            let Some((first, _)) = group.first() else { continue };
            if let Err(error) = self.begin_group(&group) {
                self.fail_item(&first.source, error)?;
            }
        }
        Ok(())
    }

    fn is_stream(&self) -> bool {
        self.shared.setup.source.capabilities().stream
    }

    /// Fails one item. The others can still be copied, unless the error is fatal.
    pub(super) fn fail_item(&self, source: &EntryPath, error: Error) -> Result<()> {
        if error.is_fatal() {
            return Err(error);
        }
        fail(self.shared, self.counters, failure(source, error));
        Ok(())
    }

    /// Begins items that become one entry of the target.
    pub(super) fn begin_group(&mut self, group: &[(&JobItem, EntryMetadata)]) -> Result<()> {
        let mut origins = Vec::with_capacity(group.len());
        for (item, _) in group {
            origins.push(if item.source.is_root() {
                Origin::whole(item.root, item.source.clone())
            } else {
                named(item)?
            });
        }
        if let Some((item, metadata)) = group.iter().find(|(item, _)| item.source.is_root()) {
            if metadata.kind != EntryKind::Directory {
                return Err(unexpected());
            }
            if self.shared.setup.job.mode.is_digest() {
                return self.begin_digests((origins, item.target.clone()));
            }
            let there = self.look_at_target(&item.target)?;
            if there.is_none() {
                self.make_for_others(&item.target)?;
            }
            return self.begin_directory((origins, item.target.clone()), metadata, there.as_ref(), None);
        }
        let Some((first, _)) = group.first() else { return Ok(()) };
        let there = self.look_at_target(&first.target)?;
        let (parent, _) = first.target.split_last().ok_or_else(unexpected)?;
        let listing = |name: Option<&Vec<u8>>, metadata: Option<EntryMetadata>| -> Result<Listing> {
            let mut listing = Listing::with_capacity(1);
            if let (Some(name), Some(metadata)) = (name, metadata) {
                listing.push(name, metadata)?;
            }
            listing.mark_exact();
            Ok(listing)
        };
        let mut parts = Vec::with_capacity(group.len());
        for (index, (origin, (_, metadata))) in origins.iter().zip(group).enumerate() {
            let name = origin.only.as_ref().map(|only| &only.name);
            parts.push(OriginListing::whole(index, listing(name, Some(*metadata))?));
        }
        let name = origins.first().and_then(|origin| origin.only.as_ref()).map(|only| &only.target_name);
        let target = listing(name, there)?;
        let node = DirectoryNode::new(
            (origins, parent),
            (None, CountedDirectory::Not),
            None,
            TouchedAttributes::Not,
        );
        self.join(&node, &parts, (Some(&target), &Prefetched::default()), None)
    }

    /// Makes the directory that the user named at once if other runs copy parts of it: one that does not find it is where the
    /// file system of the target is missing.
    fn make_for_others(&mut self, path: &EntryPath) -> Result<()> {
        let setup = self.shared.setup;
        let writes = !setup.job.dry_run && !setup.job.mode.only_reads();
        if setup.exchange.is_none() || !writes || !setup.target.capabilities().inodes {
            return Ok(());
        }
        let changes = vec![Change::MakeDirectory { path: path.clone(), mode: 0o700 }];
        let TargetOutcome::PackWritten { failures, .. } = self.ask_target(TargetOp::Apply { changes })?
        else {
            return Err(unexpected());
        };
        failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(at_target(error, path)))
    }

    pub(super) fn look_at(&mut self, root: u16, path: &EntryPath) -> Result<EntryMetadata> {
        let detail = self.detail();
        let inspect = SourceOp::Stat { root, path: path.clone(), detail };
        let SourceOutcome::Stat(Some(metadata)) = self.ask_source(inspect).map_err(at_source)? else {
            return Err(not_there());
        };
        let mut listing = Listing::with_capacity(1);
        listing.push(b"x", metadata)?;
        self.by_name(&mut listing)?;
        Ok(*listing.metadata(0))
    }

    pub(super) fn look_at_target(&mut self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        let detail = Detail { missed: Classes::NONE, ..self.detail() };
        match self.ask_target(TargetOp::Stat { path: path.clone(), detail }) {
            Ok(TargetOutcome::Stat(there)) => Ok(there),
            Ok(_) => Err(unexpected()),
            Err(error) => Err(at_target(error, path)),
        }
    }

    /// Begins to copy the content of one file, device or stream to a single target, regardless of times.
    fn begin_content(&mut self, item: &JobItem, metadata: EntryMetadata) -> Result<()> {
        let job = self.shared.setup.job;
        if !matches!(metadata.kind, EntryKind::File | EntryKind::BlockDevice) && !self.is_stream() {
            let words = format!("{} has no content of a known size", metadata.kind.words());
            return Err(Error::new(ErrorKind::Unsupported, "copying", words));
        }
        let there = self.look_at_target(&item.target)?;
        let replaces = there.is_some();
        self.counters.entries_scanned.add(1);
        if metadata.size_bytes != UNKNOWN_BYTES {
            self.counters.bytes_scanned.add(metadata.size_bytes);
        }
        if self.is_stream() && metadata.size_bytes == 0 && !job.dry_run {
            let words = format!("{}: the stream that is copied to it is empty", item.target);
            self.shared.setup.observer.event(Event::Notice { words });
        }
        let tolerant = job.skip_unreadable;
        let source = SourceFile { root: item.root, path: item.source.clone(), metadata, tolerant };
        if job.dry_run {
            return self.plan_content(item, source, replaces);
        }
        let (target_parent, _) = item.target.split_last().ok_or_else(unexpected)?;
        let node = DirectoryNode::new(
            (vec![named(item)?], target_parent),
            (None, CountedDirectory::Not),
            None,
            TouchedAttributes::Not,
        );
        node.hold(1);
        let draft = draft_numbers(&mut self.next_draft)();
        let how = LargeFileMode { kind: item.place, replaces, named: true, digest: job.digest };
        let mut file = LargeFile::new(node.clone(), source, item.target.clone(), draft, how);
        file.sets_attributes = there.is_some_and(|there| self.sets_attributes(&metadata, &there));
        self.compare_sizes(&file, there.as_ref());
        self.compare_attributes(&file, there.as_ref())?;
        self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        self.shared.queue.release(&node, self.counters);
        Ok(())
    }

    /// Reports the plan for content, after checking that it can be read.
    fn plan_content(&mut self, item: &JobItem, source: SourceFile, replaces: bool) -> Result<()> {
        let metadata = source.metadata;
        let size_bytes = metadata.size_bytes;
        if !self.is_stream() {
            self.ask_source(SourceOp::Open { file: Arc::new(source) }).map_err(at_source)?;
        }
        let (counter, action) = match replaces {
            true => (&self.counters.entries_updated, "update"),
            false => (&self.counters.entries_created, "create"),
        };
        counter.add(1);
        self.shared.plan_content(&metadata, true, true);
        self.shared.planned(action, &item.target, size_bytes);
        Ok(())
    }

    /// Records a difference if a file in place has another size than the source. A device may be larger.
    fn compare_sizes(&self, file: &LargeFile, there: Option<&EntryMetadata>) {
        let Some(there) = there.filter(|there| there.kind == EntryKind::File) else { return };
        if !file.kind.is_there() || there.size_bytes == file.size_bytes() {
            return;
        }
        file.changes();
        if file.kind == DraftKind::Compare && there.size_bytes > file.size_bytes() {
            let length = there.size_bytes - file.size_bytes();
            self.differs(file, Extent { offset: file.size_bytes(), length });
        }
    }

    /// Returns true if a file at the target gets other attributes from the source. Disks and streams have none to give.
    fn sets_attributes(&self, source: &EntryMetadata, there: &EntryMetadata) -> bool {
        let are_files = source.kind == EntryKind::File && there.kind == EntryKind::File && !self.is_stream();
        let able = &self.shared.able;
        are_files && !(same_attributes(source, there, able) && same_time(source, there, able))
    }

    /// Compares the attributes of two single files, as in a tree, and reports attributes that the target cannot hold.
    fn compare_attributes(&mut self, file: &LargeFile, there: Option<&EntryMetadata>) -> Result<()> {
        let source = &file.source;
        let Some(there) = there.filter(|there| there.kind == EntryKind::File) else { return Ok(()) };
        let is_compared =
            self.shared.setup.job.mode == Mode::Compare && source.metadata.kind == EntryKind::File;
        if !is_compared || self.is_stream() {
            return Ok(());
        }
        if !self.shared.ask.miss.is_empty() {
            let ask = self.shared.ask_losses();
            super::directories::examine(self.shared, &mut self.source, (source.root, &source.path), ask)
                .map_err(at_source)?;
        }
        let different = self.shared.attributes_that_differ(&source.metadata, there);
        different
            .iter()
            .for_each(|what| self.shared.differs_from(&source.metadata, there, &file.target, *what));
        if !different.is_empty() {
            file.changes();
        }
        Ok(())
    }

    /// Begins to compute digests of the files in a directory.
    fn begin_digests(&mut self, place: (Vec<Origin>, EntryPath)) -> Result<()> {
        self.counters.entries_scanned.add(1);
        let node = DirectoryNode::new(place, (None, CountedDirectory::Not), None, TouchedAttributes::Not);
        let task = DirectoryTask::new(node, TargetState::Absent);
        self.shared.queue.add(vec![task], Vec::new(), Vec::new());
        Ok(())
    }

    /// Compares the attributes of a directory that the user named.
    fn compare_top(
        &self,
        path: &EntryPath,
        metadata: &EntryMetadata,
        there: &EntryMetadata,
    ) -> CountedDirectory {
        let different = self.shared.attributes_that_differ(metadata, there);
        different.iter().for_each(|what| self.shared.differs_from(metadata, there, path, *what));
        let losses = self.shared.incomparable(metadata, there).into_iter();
        let example = path.as_bytes();
        let loss = |what| Loss { what, count: 1, at_target: true, example: example.to_vec() };
        self.shared.record.losses(losses.map(loss).collect());
        if different.is_empty() { CountedDirectory::Unchanged } else { CountedDirectory::Different }
    }

    /// Begins to copy the contents of a directory into another one. `share`: another run has found it, and has counted it and
    /// its losses.
    pub(super) fn begin_directory(
        &mut self,
        place: (Vec<Origin>, EntryPath),
        metadata: &EntryMetadata,
        there: Option<&EntryMetadata>,
        share: Option<&DirectoryShare>,
    ) -> Result<()> {
        self.counters.entries_scanned.add(u64::from(share.is_none()));
        let verifies = self.shared.setup.job.mode == Mode::Compare;
        if !verifies
            && share.is_none()
            && self.shared.setup.job.removal != Removal::Remove
            && let Some(origin) = place.0.first()
        {
            self.shared.check_top((&origin.path, &place.1), metadata, there).map_err(at_source)?;
        }
        let kept = self.shared.keeps_attributes(there);
        let (state, counted, touched) = match there.map(|there| there.kind) {
            Some(EntryKind::Directory) if kept.is_some() => {
                (TargetState::Unknown, CountedDirectory::Unchanged, TouchedAttributes::Not)
            }
            Some(EntryKind::Directory) => {
                let differs = there.is_some_and(|there| !there.same_extended(metadata));
                let touched = differs || there.map(EntryMetadata::attributes) != Some(metadata.attributes());
                let counted = match there {
                    // The top of a bucket has no object that could have attributes.
                    Some(there) if verifies && (there.is_implied() || metadata.is_implied()) => {
                        CountedDirectory::Unchanged
                    }
                    Some(there) if verifies => self.compare_top(&place.1, metadata, there),
                    Some(there) if !same_attributes(metadata, there, &self.shared.able) => {
                        if self.shared.setup.job.dry_run {
                            self.shared.planned("attributes", &place.1, 0);
                        }
                        CountedDirectory::AttributesOnly
                    }
                    _ => CountedDirectory::Unchanged,
                };
                (TargetState::Unknown, counted, TouchedAttributes::new(touched && !verifies, differs))
            }
            None if verifies && !self.shared.able.directories => {
                (TargetState::Absent, CountedDirectory::Unchanged, TouchedAttributes::Not)
            }
            // It appears with what is in it.
            None if share.is_some() && !self.shared.able.directories => {
                (TargetState::Absent, CountedDirectory::Unchanged, TouchedAttributes::Not)
            }
            Some(_) | None if verifies => return Err(at_target(not_there(), &place.1)),
            Some(EntryKind::Symlink) => {
                (TargetState::Absent, CountedDirectory::Updated, TouchedAttributes::WithExtended)
            }
            None => (TargetState::Absent, CountedDirectory::Created, TouchedAttributes::WithExtended),
            Some(kind) => {
                let words = format!("{} is in the place of the directory", kind.words());
                return Err(at_target(Error::new(ErrorKind::Conflict, "copying", words), &place.1));
            }
        };
        let there = there.filter(|there| there.kind == EntryKind::Directory);
        let attributes = match kept {
            None if self.shared.has_no_attributes(metadata, there) => None,
            kept => Some(kept.unwrap_or(metadata).attributes()),
        };
        let proof = match there {
            Some(there) if place.0.len() == 1 => {
                let is_above_settled = share.is_none_or(|share| share.is_above_settled);
                self.shared.proof((metadata, there), is_above_settled)
            }
            _ => DirectoryProof::default(),
        };
        let (end, ctime) =
            ((attributes, counted), self.shared.evidence.must_recheck().then_some(metadata.ctime));
        let node = match share {
            Some(share) => DirectoryNode::given(share, end, (touched, proof, ctime)),
            None => DirectoryNode::with_proof(place, end, None, (touched, proof, ctime)),
        };
        if kept.is_none() && self.shared.renews(proof) {
            node.touch();
        }
        self.shared.queue.add(vec![DirectoryTask::new(node, state)], Vec::new(), Vec::new());
        Ok(())
    }
}

/// Returns the origin for an item that the user named by itself.
fn named(item: &JobItem) -> Result<Origin> {
    let (path, name) = item.source.split_last().ok_or_else(unexpected)?;
    let (_, target_name) = item.target.split_last().ok_or_else(unexpected)?;
    let only = SingleEntry { name: name.to_vec(), target_name: target_name.to_vec() };
    Ok(Origin { root: item.root, path, only: Some(only) })
}

/// Groups items, keeping their order. Items that become one entry of the target are in one group: several with one
/// target name, and several whose contents go to one directory, including single entries within it. No two groups ever
/// write to one name.
fn together<'a>(items: &[(&'a JobItem, EntryMetadata)]) -> Vec<Vec<(&'a JobItem, EntryMetadata)>> {
    let contents: HashSet<&EntryPath> =
        items.iter().filter(|(item, _)| item.source.is_root()).map(|(item, _)| &item.target).collect();
    let mut groups: Vec<Vec<(&JobItem, EntryMetadata)>> = Vec::new();
    let mut by_place = HashMap::new();
    for (item, metadata) in items {
        let within = item.target.split_last().map(|(parent, _)| parent);
        let place = match within.filter(|parent| contents.contains(parent)) {
            Some(parent) if !item.source.is_root() => (true, parent),
            _ => (item.source.is_root(), item.target.clone()),
        };
        let group = *by_place.entry(place).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(group) => group.push((item, *metadata)),
            None => groups.push(vec![(item, *metadata)]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(source: &str, target: &str) -> JobItem {
        let path = |text: &str| EntryPath::new(text).unwrap();
        JobItem { root: 0, source: path(source), target: path(target), place: DraftKind::File }
    }

    #[test]
    fn what_becomes_one_entry_of_the_target_is_one_group() {
        let items = [
            item("", "a"),
            item("x", "b/x"),
            item("y", "a/y"),
            item("", "a"),
            item("z", "b/x"),
            item("v", "a/deep/v"),
            item("w", "w"),
        ];
        let found: Vec<_> =
            items.iter().map(|item| (item, EntryMetadata::new(EntryKind::Directory))).collect();
        let number = |item: &JobItem| items.iter().position(|other| std::ptr::eq(other, item)).unwrap();
        let groups: Vec<Vec<usize>> = together(&found)
            .iter()
            .map(|group| group.iter().map(|(item, _)| number(item)).collect())
            .collect();
        assert_eq!(groups, [&[0, 2, 3][..], &[1, 4], &[5], &[6]]);
    }

    #[test]
    fn an_item_that_is_named_is_an_entry_of_its_directory() {
        let origin = named(&item("a/b", "c/d")).unwrap();
        let only = SingleEntry { name: b"b".to_vec(), target_name: b"d".to_vec() };
        assert_eq!((origin.path.as_bytes(), origin.only), (&b"a"[..], Some(only)));
        assert!(named(&item("", "c")).is_err() && named(&item("a", "")).is_err());
    }
}
