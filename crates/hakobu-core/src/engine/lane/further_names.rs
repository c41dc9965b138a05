//! Further names of inodes whose content is, or will be, at the target.

use super::*;
use crate::pack::PACKED_FILE_BYTES_MAX;

impl Worker<'_> {
    /// Gives names to what the target has.
    pub(super) fn link(&mut self, links: Vec<(Follower, EntryPath)>) -> Result<()> {
        if self.shared.setup.job.dry_run {
            for (follower, _) in links {
                self.shared.planned("link", &follower.target, 0);
                self.linked(vec![follower], Vec::new())?;
            }
            return Ok(());
        }
        let change = |(follower, to): (Follower, EntryPath)| {
            let change = Change::Link { path: follower.target.clone(), to, replaces: follower.replaces };
            (follower, change)
        };
        for (followers, changes) in batches(links.into_iter().map(change)) {
            self.submit(Operation::Apply { changes }, Pending::Linked { followers })?;
        }
        Ok(())
    }

    /// The content of an inode is there: names that waited for it become its own.
    ///
    /// With `kept` it was found equal to what the target has, and so are names that are of that inode.
    pub(super) fn first_name_done(
        &mut self,
        metadata: &Metadata,
        target: &EntryPath,
        kept: bool,
    ) -> Result<()> {
        let Some(inode) = metadata.inode.filter(|_| self.shared.setup.job.hard_links) else { return Ok(()) };
        let (followers, there) = self.shared.links.done(inode, target, kept);
        let (equal, others): (Vec<_>, Vec<_>) =
            followers.into_iter().partition(|follower| there.is_some() && follower.there == there);
        for follower in equal {
            self.counters.entries_unchanged.add(1);
            self.task_done(&follower.node);
        }
        self.link(others.into_iter().map(|follower| (follower, target.clone())).collect())
    }

    /// The content of an inode could not be brought over by its first name: the next one tries.
    pub(super) fn first_name_failed(&mut self, metadata: &Metadata) -> Result<()> {
        let Some(inode) = metadata.inode.filter(|_| self.shared.setup.job.hard_links) else { return Ok(()) };
        match self.shared.links.failed(inode) {
            Some(follower) => self.bring_over(follower),
            None => Ok(()),
        }
    }

    /// The answer to [`Worker::link`].
    pub(super) fn linked(&mut self, followers: Vec<Follower>, failures: Vec<(u32, Error)>) -> Result<()> {
        let mut failures = failures.into_iter().peekable();
        for (index, mut follower) in followers.into_iter().enumerate() {
            let Some((_, error)) = failures.next_if(|(failed, _)| *failed as usize == index) else {
                let counter = match follower.replaces {
                    true => &self.counters.entries_updated,
                    false => &self.counters.entries_created,
                };
                counter.add(1);
                self.task_done(&follower.node);
                continue;
            };
            // Another file system, or too many names, or the name is gone: it becomes a file of its own. If even that
            // cannot be done, it is told.
            if error.kind == ErrorKind::Unsupported {
                let example = follower.target.as_bytes().to_vec();
                self.shared.record.losses(vec![Loss {
                    what: LossKind::HardLinks,
                    count: 1,
                    at_target: true,
                    example,
                }]);
                // As an earlier run had to make it.
                if follower.equal {
                    self.counters.entries_unchanged.add(1);
                    self.counters.bytes_unchanged.add(follower.metadata.size_bytes);
                    self.task_done(&follower.node);
                    continue;
                }
            }
            follower.metadata.inode = None;
            self.bring_over(follower)?;
        }
        Ok(())
    }

    /// Brings over the content of what waited for that of another name.
    fn bring_over(&mut self, follower: Follower) -> Result<()> {
        let Follower { node, origin, name, metadata, target, replaces, .. } = follower;
        let from = node.origins.get(origin).ok_or_else(unexpected)?;
        node.hold(1);
        if metadata.kind == Kind::File && metadata.size_bytes > PACKED_FILE_BYTES_MAX {
            let job = self.shared.setup.job;
            let (path, tolerant) = (from.path.join(&name)?, job.skip_unreadable);
            let source = SourceFile { root: from.root, path, metadata, tolerant };
            let draft = draft_numbers(&mut self.next_draft)();
            let how = How { kind: DraftKind::File, replaces, named: false, digest: job.digest };
            let file = LargeFile::new(node.clone(), source, target, draft, how);
            self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(file)]);
        } else {
            let mut listing = Listing::with_capacity(1);
            listing.push(&name, metadata)?;
            let entries = vec![Pick { index: 0, replaces }];
            let picks = Arc::new(Picks { listing: Arc::new(listing), entries, target_name: None });
            let pack = PackTask { node: node.clone(), origin, picks, compare: false };
            self.shared.queue.add(Vec::new(), vec![pack], Vec::new());
        }
        // What it held while it waited.
        self.task_done(&node);
        Ok(())
    }
}
