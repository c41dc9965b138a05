//! Begins with shares that other runs have given away, and gives away names and the ends of directories.

use super::*;
use crate::exchange::{DirectoryEnd, DirectoryShare, EntryShare, NameShare, SharePlace, WorkShare};
use crate::planner::{same_attributes, same_time};

impl Worker<'_> {
    /// Adds the first tasks for shares.
    pub(super) fn begin_shares(&mut self, shares: Vec<WorkShare>) -> Result<()> {
        let mut names = Vec::new();
        for share in shares {
            match share {
                WorkShare::Directory(share) => {
                    let begun = self.begin_share(&share);
                    begun.or_else(|error| self.fail_item(&share.place.source, error))?;
                }
                WorkShare::Slice(slice) => self.begin_slice(&slice),
                WorkShare::Name(name) => names.push(name),
                WorkShare::End(end) => self.begin_end(&end)?,
                WorkShare::Entry(entry) => {
                    let begun = self.begin_entry(&entry);
                    begun.or_else(|error| self.fail_item(&entry.source, error))?;
                }
                WorkShare::Range(range) => self.begin_range(range)?,
                WorkShare::File(end) => {
                    let source = end.file.place.source.clone();
                    let begun = self.begin_file_end(end);
                    begun.or_else(|error| self.fail_item(&source, error))?;
                }
            }
        }
        names.chunk_by(are_siblings).try_for_each(|names| self.begin_names(names))
    }

    /// Begins to copy a directory with everything below it.
    fn begin_share(&mut self, share: &DirectoryShare) -> Result<()> {
        let SharePlace { root, source, target, .. } = &share.place;
        let metadata = self.look_at(*root, source)?;
        if metadata.kind != EntryKind::Directory {
            let words = "it is no longer a directory; run it again";
            return Err(Error::new(ErrorKind::SourceChanged, "looking at the entry", words));
        }
        let there = self.look_at_target(target)?;
        let origins = vec![Origin::whole(*root, source.clone())];
        self.begin_directory((origins, target.clone()), &metadata, there.as_ref(), Some(share))
    }

    /// Begins to copy an entry by itself.
    fn begin_entry(&mut self, share: &EntryShare) -> Result<()> {
        let EntryShare { root, source } = share;
        let job = self.shared.setup.job;
        let has_it = |item: &&JobItem| item.root == *root && source.is_within(&item.source);
        let item = job.items.iter().filter(has_it).max_by_key(|item| item.source.names().count());
        let item = item.ok_or_else(not_there)?;
        let Some((above, name)) = source.split_last().filter(|_| *source != item.source) else {
            let metadata = self.look_at(*root, source)?;
            return self.begin_group(&[(item, metadata)]);
        };
        let metadata = match self.look_at(*root, source) {
            // Whatever the target has in its place is to be removed.
            Err(error) if error.kind == ErrorKind::NotFound && job.removal == Removal::Count => None,
            found => Some(found?),
        };
        let mut names = source.names().skip(item.source.names().count());
        let target = names.try_fold(item.target.clone(), |path, name| path.join(name))?;
        let (target_above, _) = target.split_last().ok_or_else(unexpected)?;
        let there = self.look_at_target(&target)?;
        if metadata.is_none() && there.is_none() {
            return Ok(());
        }
        let attributes = match metadata.is_some() {
            true => Some(self.look_at(*root, &above)?.attributes()),
            false => None,
        };
        let listing = |metadata: Option<EntryMetadata>| -> Result<Listing> {
            let mut listing = Listing::with_capacity(1);
            metadata.map(|metadata| listing.push(name, metadata)).transpose()?;
            listing.mark_exact();
            Ok(listing)
        };
        let top_names = u16::try_from(item.target.names().count()).unwrap_or(u16::MAX);
        let place = SharePlace { root: *root, source: above.clone(), target: target_above, top_names };
        // Where the time of an upload proves something, writing into a directory does not change its attributes.
        let attributes = attributes.filter(|_| !self.shared.evidence.needs_settled());
        let node = DirectoryNode::given(
            &DirectoryShare { place, is_above_settled: false },
            (attributes, CountedDirectory::Not),
            (TouchedAttributes::Not, DirectoryProof::NotNeeded, None),
        );
        let mut source = listing(metadata)?;
        self.check_inodes(&Origin::whole(*root, above), &mut source)?;
        let parts = [OriginListing::whole(0, source)];
        self.join(&node, &parts, (Some(&listing(there)?), &Prefetched::default()), None)
    }

    /// Begins to copy names of one directory.
    fn begin_names(&mut self, names: &[NameShare]) -> Result<()> {
        let Some(place) = names.first().map(|first| &first.place) else { return Ok(()) };
        let (directory, _) = place.source.split_last().ok_or_else(unexpected)?;
        let (target_directory, _) = place.target.split_last().ok_or_else(unexpected)?;
        let origin = Origin::whole(place.root, directory);
        let node = DirectoryNode::of_names(origin, target_directory, place.top_names);
        let names: Vec<&[u8]> = names.iter().filter_map(|name| name.place.source.names().last()).collect();
        self.join_named(&node, &names)
    }

    /// Sets the attributes of a directory below which everything is done, and counts it.
    fn begin_end(&mut self, end: &DirectoryEnd) -> Result<()> {
        if end.has_slices {
            self.clear_drafts(&end.place.target)?;
        }
        let node = DirectoryNode::ending(end);
        if end.is_unproven && !end.is_examined {
            node.count_left(self.counters);
            return Ok(());
        }
        match self.differs_at_target(end) {
            Ok(true) => node.touch(),
            Ok(false) => {}
            Err(error) => {
                node.fail();
                self.fail_item(&end.place.source, error)?;
            }
        }
        self.shared.queue.release(&node, self.counters);
        Ok(())
    }

    /// Returns true if a directory does not have its attributes at the target.
    fn differs_at_target(&mut self, end: &DirectoryEnd) -> Result<bool> {
        if end.is_touched {
            return Ok(true);
        }
        let Some(there) = self.look_at_target(&end.place.target)? else { return Ok(true) };
        let Attributes { mode, uid, gid, mtime } = end.attributes;
        let source = EntryMetadata { mode, uid, gid, mtime, ..there };
        let able = &self.shared.able;
        Ok(!(same_attributes(&source, &there, able) && same_time(&source, &there, able)))
    }

    /// Gives away names of files with further names.
    pub(super) fn give_names(&self, names: Vec<NameShare>) {
        if let Some(exchange) = self.shared.setup.exchange.filter(|_| !names.is_empty()) {
            exchange.give_names(names);
        }
    }

    /// Passes on the directories that stay open. Returns the others.
    pub(super) fn leave_open(&self, finished: Vec<Arc<DirectoryNode>>) -> Vec<Arc<DirectoryNode>> {
        let Some(exchange) = self.shared.setup.exchange.filter(|_| !finished.is_empty()) else {
            return finished;
        };
        let (open, closed): (Vec<_>, Vec<_>) = finished.into_iter().partition(|node| node.is_open());
        let is_examined = self.shared.record.is_clean();
        let mut ends = Vec::with_capacity(open.len());
        for node in &open {
            match node.end(is_examined) {
                Some(end) => ends.push(end),
                None => node.count(self.counters),
            }
        }
        if !ends.is_empty() {
            exchange.leave_open(ends);
        }
        self.shared.queue.complete(open.len() as u64);
        closed
    }
}

/// Returns true if two names are in one directory.
fn are_siblings(one: &NameShare, other: &NameShare) -> bool {
    let parent = |name: &NameShare| {
        let parent = |path: &EntryPath| path.split_last().map(|(parent, _)| parent);
        (name.place.root, parent(&name.place.source), parent(&name.place.target), name.place.top_names)
    };
    parent(one) == parent(other)
}
