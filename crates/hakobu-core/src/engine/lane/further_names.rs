//! Creates hard links for inodes whose content is, or will be, at the target.

use super::*;
use crate::pack::PACKED_FILE_BYTES_MAX;

impl Worker<'_> {
    /// Creates hard links to existing files of the target.
    pub(super) fn link(&mut self, links: Vec<(LinkedName, EntryPath)>) -> Result<()> {
        if self.shared.setup.job.dry_run {
            for (follower, _) in links {
                follower.node.touch();
                self.shared.plan_link(true);
                self.shared.planned("link", &follower.target, 0);
                self.linked(vec![follower], Vec::new())?;
            }
            return Ok(());
        }
        let change = |(follower, to): (LinkedName, EntryPath)| {
            let change = Change::Link { path: follower.target.clone(), to, replaces: follower.replaces };
            (follower, change)
        };
        for (followers, changes) in batches(links.into_iter().map(change)) {
            self.submit(TargetOp::Apply { changes }, PendingPurpose::Linked { followers })?;
        }
        Ok(())
    }

    /// Handles the names that waited for the content of an inode, which is now at the target.
    ///
    /// With `kept` the content was equal to the target's, and so are names that already belong to that inode.
    pub(super) fn first_name_done(
        &mut self,
        inode: Option<Inode>,
        target: &EntryPath,
        kept: bool,
    ) -> Result<()> {
        let Some(inode) = inode.filter(|_| self.shared.setup.job.hard_links) else { return Ok(()) };
        let (followers, there) = self.shared.links.done(inode, target, kept);
        let (equal, others): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|follower| there.is_some() && follower.there == there);
        for mut follower in equal {
            if self.shared.copies_names() && follower.compared.is_some() {
                // Its attributes, and its content, are its own.
                follower.metadata.inode = None;
                self.compare_name(follower, IfDifferent::Link(target.clone()))?;
                continue;
            }
            self.counters.entries_unchanged.add(1);
            self.task_done(&follower.node);
        }
        let is_untold =
            |follower: &LinkedName| kept && follower.compared.is_some() && !self.shared.tells_names();
        let (untold, others): (Vec<_>, Vec<_>) = others.into_iter().partition(is_untold);
        for mut follower in untold {
            // If the target cannot tell which names belong to one inode, an equal file is kept.
            follower.metadata.inode = None;
            self.compare_name(follower, IfDifferent::Link(target.clone()))?;
        }
        self.link(others.into_iter().map(|follower| (follower, target.clone())).collect())
    }

    /// Lets the next name copy the content of an inode, after the first name failed.
    pub(super) fn first_name_failed(&mut self, inode: Option<Inode>) -> Result<()> {
        let Some(inode) = inode.filter(|_| self.shared.setup.job.hard_links) else { return Ok(()) };
        match self.shared.links.failed(inode) {
            Some(follower) => self.bring_over(follower),
            None => Ok(()),
        }
    }

    /// Handles the answer to [`Worker::link`].
    pub(super) fn linked(&mut self, followers: Vec<LinkedName>, failures: Vec<(u32, Error)>) -> Result<()> {
        let (mut failures, mut made) = (failures.into_iter().peekable(), Vec::with_capacity(followers.len()));
        for (index, mut follower) in followers.into_iter().enumerate() {
            let Some((_, error)) = failures.next_if(|(failed, _)| *failed as usize == index) else {
                made.push(follower);
                continue;
            };
            if error.kind != ErrorKind::Unsupported {
                // A file may have been created and removed again.
                follower.node.touch();
                if self.shared.record.link_failed() {
                    let error = at_target(error.clone(), &follower.target);
                    let words =
                        format!("a hard link could not be made, and the file is copied instead: {error}");
                    self.shared.setup.observer.event(Event::Notice { words });
                }
            }
            // The cause may be another file system, too many links, a missing name or a failing medium. The file is
            // copied instead; if that fails too, it is reported.
            let example = follower.target.as_bytes().to_vec();
            self.shared.record.losses(vec![Loss {
                what: LossKind::HardLinks,
                count: 1,
                at_target: true,
                example,
            }]);
            // An earlier run had to copy it as well.
            if error.kind == ErrorKind::Unsupported && follower.equal {
                self.counters.entries_unchanged.add(1);
                self.counters.bytes_unchanged.add(follower.metadata.size_bytes);
                self.task_done(&follower.node);
                continue;
            }
            follower.metadata.inode = None;
            self.bring_over(follower)?;
        }
        for follower in self.recheck_links(made)? {
            let counter = match follower.replaces {
                true => &self.counters.entries_updated,
                false => &self.counters.entries_created,
            };
            counter.add(1);
            if !self.shared.setup.job.dry_run {
                self.shared.changed(EntryAction::Link, &follower.target, 0);
                follower.node.touch();
            }
            self.task_done(&follower.node);
        }
        Ok(())
    }

    /// Makes a name a hard link after its content was compared and differs from that of the file it belongs to.
    pub(super) fn link_instead(
        &mut self,
        (node, origin): (&Arc<DirectoryNode>, usize),
        (name, metadata): (&[u8], EntryMetadata),
        to: &EntryPath,
    ) -> Result<()> {
        let target = node.target.join(name)?;
        let follower = LinkedName {
            node: node.clone(),
            origin,
            name: name.to_vec(),
            metadata,
            target,
            replaces: true,
            there: None,
            compared: None,
            written_as: DraftKind::File,
            equal: false,
        };
        node.hold(1);
        self.shared.queue.hold(1);
        self.link(vec![(follower, to.clone())])
    }

    /// Compares the content of a name that waited for another name with the target's content.
    fn compare_name(&mut self, follower: LinkedName, if_different: IfDifferent) -> Result<()> {
        let LinkedName { node, origin, name, metadata, target, compared, .. } = follower;
        let differs = compared.unwrap_or(true);
        node.hold(1);
        if metadata.size_bytes > PACKED_FILE_BYTES_MAX {
            let from = node.origins.get(origin).ok_or_else(unexpected)?;
            let path = from.path.join(&name)?;
            let source = SourceFile { root: from.root, path, metadata, tolerant: false };
            let draft = draft_numbers(&mut self.next_draft)();
            let how =
                LargeFileMode { kind: DraftKind::Compare, replaces: differs, named: false, digest: false };
            let file = LargeFile::new(node.clone(), source, target, draft, how);
            let _once = file.if_different.set(if_different);
            self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        } else {
            let picks = alone(&name, metadata, differs)?;
            let compare = Some(if_different);
            let pack = PackTask { compare, ..PackTask::new(node.clone(), origin, picks) };
            self.shared.queue.add(Vec::new(), vec![pack], Vec::new());
        }
        // Releases the hold from when it waited.
        self.task_done(&node);
        Ok(())
    }

    /// Copies the content of a name that waited for another name.
    pub(super) fn bring_over(&mut self, follower: LinkedName) -> Result<()> {
        let written_as = follower.written_as;
        if follower.compared.is_some() {
            return self.compare_name(follower, IfDifferent::Write(written_as));
        }
        let LinkedName { node, origin, name, metadata, target, replaces, .. } = follower;
        let from = node.origins.get(origin).ok_or_else(unexpected)?;
        node.hold(1);
        node.touch();
        let is_large = metadata.kind == EntryKind::File && metadata.size_bytes > PACKED_FILE_BYTES_MAX;
        if is_large || written_as == DraftKind::InPlace {
            let job = self.shared.setup.job;
            let (path, tolerant) = (from.path.join(&name)?, job.skip_unreadable);
            let source = SourceFile { root: from.root, path, metadata, tolerant };
            let draft = draft_numbers(&mut self.next_draft)();
            let how = LargeFileMode { kind: written_as, replaces, named: false, digest: job.digest };
            let file = LargeFile::new(node.clone(), source, target, draft, how);
            if written_as != DraftKind::File {
                // Nothing is known of the existing content.
                file.changes();
            }
            self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        } else {
            let picks = alone(&name, metadata, replaces)?;
            let pack = PackTask::new(node.clone(), origin, picks);
            self.shared.queue.add(Vec::new(), vec![pack], Vec::new());
        }
        // Releases the hold from when it waited.
        self.task_done(&node);
        Ok(())
    }
}

/// Returns picks of a single entry.
fn alone(name: &[u8], metadata: EntryMetadata, replaces: bool) -> Result<Arc<Picks>> {
    let mut listing = Listing::with_capacity(1);
    listing.push(name, metadata)?;
    listing.mark_exact();
    let entries = vec![Pick { index: 0, replaces }];
    Ok(Arc::new(Picks { listing: Arc::new(listing), entries, target_name: None }))
}
