//! Handles names of one file that only the content of a pack shows: an object store lists no inodes.

use super::packs::{metadata_of, name_of};
use super::*;
use crate::engine::links::LinkAction;
use crate::exchange::NameShare;
use crate::pack::without_entries;

impl Worker<'_> {
    /// Takes the entries out of a pack that become hard links to others, or that are not what was looked at before. Returns
    /// the task with the inodes of those that stay.
    pub(super) fn take_out_links(&mut self, task: &PackTask, fetched: &mut FetchedPack) -> Result<PackTask> {
        let linked = std::mem::take(&mut fetched.linked);
        // Elsewhere listings tell which entries are names of one inode.
        if !self.shared.setup.source.capabilities().tells_links {
            return Ok(task.clone());
        }
        let told: HashMap<u32, EntryMetadata> = linked.into_iter().collect();
        let (mut firsts, mut removed, mut links) = (HashMap::new(), Vec::new(), Vec::new());
        let mut given = Vec::new();
        for (record, pick) in (0_u32..).zip(fetched.packed.clone()) {
            let listed = *metadata_of(&task.picks, pick).ok_or_else(unexpected)?;
            let now = told.get(&pick);
            if listed.inode.is_some() {
                if now.and_then(|now| now.inode) != listed.inode && !self.is_still(task, pick, &listed)? {
                    let words = "it became a name of another file, or the other way round; run it again";
                    let error = Error::new(ErrorKind::SourceChanged, "reading", words);
                    self.fail_pick(&task.node, task.origin, &task.picks, (pick, error))?;
                    removed.push((record, pick));
                }
                continue;
            }
            // One that was asked for by itself has its inode, or none because it becomes a file of its own.
            let known = task.picks.listing.is_exact();
            let Some((now, inode)) = now.filter(|_| !known).and_then(|now| Some((now, now.inode?))) else {
                continue;
            };
            if let Some(name) = self.given_packed(task, pick, now)? {
                removed.push((record, pick));
                given.push(name);
                continue;
            }
            match self.enter_packed(task, pick, now)? {
                LinkAction::First => drop(firsts.insert(pick, inode)),
                LinkAction::TooMany => {}
                LinkAction::Waits => removed.push((record, pick)),
                LinkAction::There(home) => {
                    removed.push((record, pick));
                    links.push((self.packed_name(task, pick, now)?, home.path));
                }
            }
        }
        if !removed.is_empty() {
            let records: Vec<u32> = removed.iter().map(|(record, _)| *record).collect();
            fetched.pack = without_entries(&fetched.pack, &records)?;
            let picks: HashSet<u32> = removed.iter().map(|(_, pick)| *pick).collect();
            let files = picks.iter().filter_map(|pick| told.get(pick).or(metadata_of(&task.picks, *pick)));
            let bytes = files.filter(|it| it.kind == EntryKind::File).map(|it| it.size_bytes).sum();
            fetched.content_bytes = fetched.content_bytes.saturating_sub(bytes);
            fetched.packed.retain(|pick| !picks.contains(pick));
        }
        self.link(links)?;
        self.give_names(given);
        if firsts.is_empty() { Ok(task.clone()) } else { with_inodes(task, &firsts) }
    }

    /// Returns true if an entry is still the name of the file that it was when it was looked at. Some stores tell less of an
    /// object with its content.
    fn is_still(&mut self, task: &PackTask, pick: u32, listed: &EntryMetadata) -> Result<bool> {
        let from = task.node.origins.get(task.origin).ok_or_else(unexpected)?;
        let place = (from.root, from.path.join(name_of(&task.picks, pick))?);
        let found = self.stat_all(std::slice::from_ref(&place))?.pop().ok_or_else(unexpected)?;
        Ok(matches!(found, Ok(Some(now)) if now.inode == listed.inode && listed.same_version(&now)))
    }

    /// Records a name that a pack has shown. Holds its directory and the scan if it does not stay in the pack.
    fn enter_packed(&mut self, task: &PackTask, pick: u32, now: &EntryMetadata) -> Result<LinkAction> {
        let (job, able) = (self.shared.setup.job, self.shared.able.hard_links);
        let Some(inode) = now.inode.filter(|_| job.hard_links) else {
            return Ok(LinkAction::TooMany);
        };
        let follower = self.packed_name(task, pick, now)?;
        let example = task.node.origins.get(task.origin).ok_or_else(unexpected)?.path.join(&follower.name)?;
        task.node.hold(1);
        self.shared.queue.hold(1);
        let entered = match able && job.removal != Removal::Remove && task.picks.target_name.is_none() {
            true => self.shared.links.enter(inode, None, || follower, now.links),
            false => LinkAction::TooMany,
        };
        let is_lost = !self.shared.is_only_name(task.picks.target_name.is_some());
        if matches!(entered, LinkAction::TooMany) && now.kind == EntryKind::File && is_lost {
            let example = example.as_bytes().to_vec();
            let loss = Loss { what: LossKind::HardLinks, count: 1, at_target: false, example };
            self.shared.record.losses(vec![loss]);
        }
        if matches!(entered, LinkAction::First | LinkAction::TooMany) {
            // The pack still holds both, so neither can be the last.
            task.node.release();
            self.shared.queue.complete(1);
        }
        Ok(entered)
    }

    /// Returns a name that a pack has shown if it is given away.
    fn given_packed(&self, task: &PackTask, pick: u32, now: &EntryMetadata) -> Result<Option<NameShare>> {
        let is_only = task.picks.target_name.is_some() || task.node.has_given_names();
        let Some(inode) = now.inode.filter(|_| self.shared.gives_names() && self.keeps_links() && !is_only)
        else {
            return Ok(None);
        };
        let origin = task.node.origins.get(task.origin).ok_or_else(unexpected)?;
        let place = task.node.place_of(origin, name_of(&task.picks, pick))?;
        task.node.cut();
        Ok(Some(NameShare { place, inode, size_bytes: now.size_bytes, links: now.links }))
    }

    fn packed_name(&self, task: &PackTask, pick: u32, now: &EntryMetadata) -> Result<LinkedName> {
        let name = name_of(&task.picks, pick).to_vec();
        Ok(LinkedName {
            node: task.node.clone(),
            origin: task.origin,
            metadata: *now,
            target: task.node.target.join(&name)?,
            name,
            replaces: task.replaces(pick),
            there: None,
            compared: None,
            written_as: DraftKind::File,
            equal: false,
        })
    }
}

/// Returns a task whose entries have inodes, by pick.
fn with_inodes(task: &PackTask, inodes: &HashMap<u32, Inode>) -> Result<PackTask> {
    let Picks { listing, entries, target_name } = &*task.picks;
    let (mut known, mut picks) = (Listing::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
    for (pick, entry) in (0_u32..).zip(entries) {
        let mut metadata = *listing.metadata(entry.index as usize);
        if let Some(inode) = inodes.get(&pick) {
            (metadata.inode, metadata.links) = (Some(*inode), u32::MAX);
        }
        known.push(listing.name(entry.index as usize), metadata)?;
        picks.push(Pick { index: pick, ..*entry });
    }
    let target_name = target_name.clone();
    let picks = Arc::new(Picks { listing: Arc::new(known), entries: picks, target_name });
    Ok(PackTask { picks, ..task.clone() })
}
