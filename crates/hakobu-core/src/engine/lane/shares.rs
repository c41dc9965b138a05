//! Begins with shares that other runs have given away, and gives away names and the ends of directories.

use super::*;
use crate::exchange::{DirectoryEnd, DirectoryShare, NameShare, SharePlace, WorkShare};
use crate::planner::{same_attributes, same_time};

impl Worker<'_> {
    /// Adds the first tasks for shares.
    pub(super) fn begin_shares(&mut self, shares: Vec<WorkShare>) -> Result<()> {
        let (mut names, mut failed) = (Vec::new(), Vec::new());
        for share in shares {
            match share {
                WorkShare::Directory(share) => {
                    let begun = self.begin_share(&share);
                    begun.or_else(|error| self.fail_item(&share.place.source, error))?;
                }
                WorkShare::Name(name) => names.push(name),
                WorkShare::End(end) => self.begin_end(&end)?,
                WorkShare::Again(root, source) => match self.place_of_failed(root, &source) {
                    // An item that the user named, as a whole.
                    Some(place) if place.source.is_root() => {
                        let share = DirectoryShare { place, is_above_settled: false };
                        let begun = self.begin_share(&share);
                        begun.or_else(|error| self.fail_item(&source, error))?;
                    }
                    Some(place) => failed.push(place),
                    None => self.fail_item(&source, not_there())?,
                },
            }
        }
        let is_sibling = |one: &NameShare, other: &NameShare| are_siblings(&one.place, &other.place);
        for names in names.chunk_by(is_sibling) {
            let places: Vec<_> = names.iter().map(|name| &name.place).collect();
            self.begin_places(&places, DirectoryNode::of_names)?;
        }
        for places in failed.chunk_by(are_siblings) {
            self.begin_places(&places.iter().collect::<Vec<_>>(), DirectoryNode::of_failed)?;
        }
        Ok(())
    }

    /// Returns the place of an entry that failed in an earlier run; `None` if it belongs to no item of the job.
    fn place_of_failed(&self, root: u16, source: &EntryPath) -> Option<SharePlace> {
        let is_of =
            |item: &&JobItem| item.root == root && (item.source.is_root() || source.is_within(&item.source));
        let item = self.shared.setup.job.items.iter().find(is_of)?;
        let mut below = source.names().skip(item.source.names().count());
        let target = below.try_fold(item.target.clone(), |path, name| path.join(name).ok())?;
        let top_names = u16::try_from(item.target.names().count()).unwrap_or(u16::MAX);
        Some(SharePlace { root, source: source.clone(), target, top_names })
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

    /// Begins to copy entries of one directory.
    fn begin_places(
        &mut self,
        places: &[&SharePlace],
        node: fn(Origin, EntryPath, u16) -> Arc<DirectoryNode>,
    ) -> Result<()> {
        let Some(first) = places.first() else { return Ok(()) };
        let (directory, _) = first.source.split_last().ok_or_else(unexpected)?;
        let (target_directory, _) = first.target.split_last().ok_or_else(unexpected)?;
        let origin = Origin::whole(first.root, directory);
        let (mut source, mut target) =
            (Listing::with_capacity(places.len()), Listing::with_capacity(places.len()));
        let asked: Vec<_> = places.iter().map(|place| (place.root, place.source.clone())).collect();
        let found = self.stat_all(&asked)?;
        for (SharePlace { source: path, target: target_path, .. }, found) in places.iter().zip(found) {
            let there = match found {
                Ok(Some(metadata)) => self.look_at_target(target_path).map(|there| (metadata, there)),
                Ok(None) => Err(not_there()),
                Err(error) => Err(at_source(error)),
            };
            match there {
                Ok((metadata, there)) => {
                    let (_, name) = path.split_last().ok_or_else(unexpected)?;
                    source.push(name, metadata)?;
                    if let Some(there) = there {
                        target.push(name, there)?;
                    }
                }
                Err(error) => self.fail_item(path, error)?,
            }
        }
        source.sort();
        target.sort();
        source.mark_exact();
        target.mark_exact();
        self.check_inodes(&origin, &mut source)?;
        self.by_name(&mut source)?;
        let node = node(origin, target_directory, first.top_names);
        let parts = [OriginListing::whole(0, source)];
        self.join(&node, &parts, (Some(&target), &Prefetched::default()), None)
    }

    /// Sets the attributes of a directory below which everything is done, and counts it.
    fn begin_end(&mut self, end: &DirectoryEnd) -> Result<()> {
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

/// Returns true if two entries are in one directory.
fn are_siblings(one: &SharePlace, other: &SharePlace) -> bool {
    let parent = |place: &SharePlace| {
        let parent = |path: &EntryPath| path.split_last().map(|(parent, _)| parent);
        (place.root, parent(&place.source), parent(&place.target), place.top_names)
    };
    parent(one) == parent(other)
}
