//! Checks that what was uploaded did not change between the moment at which it was read and that of its upload.
//!
//! The time of the upload would prove in the next run that it is equal. So what changed is sent again.

use super::*;
use crate::pack::PACKED_FILE_BYTES_MAX;

/// The maximum number of times that an entry is sent.
const ATTEMPTS_MAX: u8 = 3;

impl Worker<'_> {
    /// Checks entries of a pack that were stored. Those that changed are sent again, or fail. Returns the others.
    pub(super) fn recheck_pack(&mut self, task: &PackTask, stored: Vec<u32>) -> Result<Vec<u32>> {
        let PackTask { node, origin, picks, resend, .. } = task;
        let attempts = resend.map_or(0, |resend| resend.attempts) + 1;
        let from = node.origins.get(*origin).ok_or_else(unexpected)?;
        let index = |pick: &u32| picks.entries.get(*pick as usize).map(|pick| pick.index as usize);
        // Asked for by itself, a block device has the times and the size of its content.
        let is_block = |pick: &u32| {
            index(pick).is_some_and(|index| picks.listing.metadata(index).kind == EntryKind::BlockDevice)
        };
        let (mut sound, stored): (Vec<u32>, Vec<u32>) = stored.into_iter().partition(is_block);
        let indices: Vec<usize> = stored.iter().filter_map(index).collect();
        let found = self.stat_source(from, &picks.listing, &indices)?;
        let mut changed = [Vec::new(), Vec::new()];
        let mut parted = Vec::new();
        for ((pick, index), found) in stored.into_iter().zip(indices).zip(found) {
            match self.changed_since(picks.listing.metadata(index), found, attempts) {
                Ok(None) => sound.push(pick),
                Ok(Some(now)) => {
                    let listed = picks.listing.metadata(index);
                    parted.extend((listed.inode != now.inode).then_some(*listed));
                    changed[usize::from(task.replaces(pick))].push((index, now));
                }
                Err(error) => self.fail_pick(node, *origin, picks, (pick, at_source(error)))?,
            }
        }
        for (replaced, changed) in changed.into_iter().enumerate().filter(|(_, changed)| !changed.is_empty())
        {
            let mut listing = Listing::with_capacity(changed.len());
            for (index, now) in &changed {
                listing.push(picks.listing.name(*index), *now)?;
            }
            listing.mark_exact();
            self.by_name(&mut listing)?;
            let entries = (0..changed.len() as u32).map(|index| Pick { index, replaces: true }).collect();
            let target_name = picks.target_name.clone();
            let picks = Arc::new(Picks { listing: Arc::new(listing), entries, target_name });
            let resend = Some(PackResend { attempts, created: replaced == 0 });
            node.hold(1);
            let again = PackTask { resend, ..PackTask::new(node.clone(), *origin, picks) };
            self.shared.queue.add(Vec::new(), vec![again], Vec::new());
        }
        for listed in parted {
            // Names that waited for it belong to what it was.
            self.first_name_failed(listed.inode)?;
        }
        Ok(sound)
    }

    /// Returns hard links that were made, without those whose file has changed. The latter are sent as files of their own,
    /// because their content may be that of before.
    pub(super) fn recheck_links(&mut self, made: Vec<LinkedName>) -> Result<Vec<LinkedName>> {
        if !self.shared.evidence.must_recheck() || self.shared.setup.job.dry_run {
            return Ok(made);
        }
        let place = |follower: &LinkedName| {
            let from = follower.node.origins.get(follower.origin).ok_or_else(unexpected)?;
            Ok((from.root, from.path.join(&follower.name)?))
        };
        let is_block = |follower: &LinkedName| follower.metadata.kind == EntryKind::BlockDevice;
        let (mut sound, made): (Vec<LinkedName>, Vec<LinkedName>) = made.into_iter().partition(is_block);
        let places = made.iter().map(place).collect::<Result<Vec<_>>>()?;
        let found = self.stat_all(&places)?;
        for ((mut follower, found), (_, path)) in made.into_iter().zip(found).zip(places) {
            match self.changed_since(&follower.metadata, found, 1) {
                Ok(None) => sound.push(follower),
                Ok(Some(now)) => {
                    follower.metadata = EntryMetadata { inode: None, links: 1, ..now };
                    follower.replaces = true;
                    self.bring_over(follower)?;
                }
                Err(error) => {
                    fail(self.shared, self.counters, failure(path, at_source(error)));
                    self.task_done(&follower.node);
                }
            }
        }
        Ok(sound)
    }

    /// Checks a large file that was stored. Returns false if it changed; it is then sent again, or has failed.
    pub(super) fn recheck_file(&mut self, file: &Arc<LargeFile>) -> Result<bool> {
        let SourceFile { root, path, metadata, tolerant } = &*file.source;
        let (root, path, tolerant, attempts) = (*root, path.clone(), *tolerant, file.attempts + 1);
        let stat = SourceOp::Stat { root, path: path.clone(), detail: self.detail() };
        let found = match self.ask_source(stat) {
            Ok(SourceOutcome::Stat(found)) => Ok(found),
            Ok(_) => return Err(unexpected()),
            Err(error) if error.is_fatal() => return Err(error),
            Err(error) => Err(error),
        };
        match self.changed_since(metadata, found, attempts) {
            Ok(None) => return Ok(true),
            Ok(Some(now)) => {
                if now.inode != metadata.inode {
                    self.first_name_failed(metadata.inode)?;
                }
                let mut listing = Listing::with_capacity(1);
                listing.push(b"x", now)?;
                self.by_name(&mut listing)?;
                let source = SourceFile { root, path, metadata: *listing.metadata(0), tolerant };
                let digest = self.shared.setup.job.digest;
                let how =
                    LargeFileMode { kind: file.kind, replaces: file.replaces, named: file.named, digest };
                let draft = draft_numbers(&mut self.next_draft)();
                let mut again = LargeFile::new(file.node.clone(), source, file.target.clone(), draft, how);
                file.node.hold(1);
                again.attempts = attempts;
                self.shared.queue.add(Vec::new(), Vec::new(), vec![Arc::new(again)]);
            }
            Err(error) => {
                fail(self.shared, self.counters, failure(path, at_source(error)));
                self.first_name_failed(file.source.metadata.inode)?;
            }
        }
        self.shared.queue.draft_done();
        self.task_done(&file.node);
        Ok(false)
    }

    /// Checks directories whose attributes are about to be set. Those that changed since they were listed are left as they
    /// are at the target, so that the next run examines all in them. Returns the others.
    pub(super) fn recheck_directories(
        &mut self,
        nodes: Vec<Arc<DirectoryNode>>,
    ) -> Result<Vec<Arc<DirectoryNode>>> {
        if !self.shared.evidence.must_recheck() {
            return Ok(nodes);
        }
        let place = |node: &Arc<DirectoryNode>| {
            let origin = node.first().filter(|_| node.listed_ctime.is_some() && node.change().is_some())?;
            Some((origin.root, origin.path.clone()))
        };
        let places: Vec<_> = nodes.iter().filter_map(place).collect();
        let mut found = self.stat_all(&places)?.into_iter();
        let mut sound = Vec::with_capacity(nodes.len());
        for node in nodes {
            if place(&node).is_none() {
                sound.push(node);
                continue;
            }
            match found.next().ok_or_else(unexpected)? {
                Ok(Some(now)) if node.listed_ctime == Some(now.ctime) => sound.push(node),
                Ok(_) if node.is_renewed() => {
                    node.count(self.counters);
                    self.shared.queue.complete(1);
                }
                other => {
                    let words = "the directory changed while what is in it was uploaded; run it again";
                    let changed = Error::new(ErrorKind::SourceChanged, "uploading", words);
                    if node.fail() {
                        let error = at_source(other.err().unwrap_or(changed));
                        fail(self.shared, self.counters, failure(node.source(), error));
                    }
                    self.shared.queue.complete(1);
                }
            }
        }
        Ok(sound)
    }

    /// Returns the new version of an entry if it is to be sent again. An entry that has been removed is the one that was
    /// sent.
    fn changed_since(
        &self,
        sent: &EntryMetadata,
        found: Result<Option<EntryMetadata>>,
        attempts: u8,
    ) -> Result<Option<EntryMetadata>> {
        let Some(now) = found? else { return Ok(None) };
        if self.shared.setup.source.capabilities().listed.same_version(sent, &now) {
            return Ok(None);
        }
        let now = self.still_there(sent, Ok(Some(now)))?;
        let fits = sent.size_bytes > PACKED_FILE_BYTES_MAX || now.size_bytes <= PACKED_FILE_BYTES_MAX;
        if attempts < ATTEMPTS_MAX && fits {
            return Ok(Some(now));
        }
        let words = "it changed while it was uploaded, and what is in the store may be no version of it; once it no longer \
                     changes, run it again with --compare digest";
        Err(Error::new(ErrorKind::SourceChanged, "uploading", words))
    }
}
