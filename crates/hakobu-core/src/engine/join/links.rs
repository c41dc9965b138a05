//! Handles several names of one inode while a directory is compared.

use std::sync::atomic::Ordering::Relaxed;

use super::*;
use crate::capabilities::ContentSharing;
use crate::engine::links::{LinkAction, LinkHome};

impl Join<'_> {
    /// Returns true if the target's entry is a name of an inode that is another file of the source already. A single name
    /// of an inode in the tree is none of these, whatever names the inode has elsewhere. This records the name, so it is
    /// called once for an entry.
    pub(super) fn is_one_with_another(
        &self,
        source: &Listing,
        metadata: &EntryMetadata,
        target: Option<&EntryMetadata>,
    ) -> bool {
        let job = self.shared.setup.job;
        let takes_part = job.hard_links && !self.removes() && self.target_name.is_none();
        let is_linked = |it: &&EntryMetadata| it.kind == metadata.kind && it.kind != EntryKind::Directory;
        let Some(target) = target.filter(is_linked).filter(|_| takes_part) else { return false };
        let Some(there) = target.inode.filter(|_| target.links > 1) else { return false };
        // Without an inode it has no other names only if that is known.
        let able = self.shared.setup.source.capabilities();
        let is_told =
            able.inodes || able.tells_links && (source.is_exact() || !self.shared.evidence.source_lacks());
        let is_known = is_told && (metadata.inode.is_some() || !metadata.uncertain);
        is_known && !self.shared.links.owners.take(there, target.links, metadata.inode)
    }

    /// Returns true if an entry that stays would not be a name of the file that it is a name of at the source. An object
    /// store that copies the other names by itself gives them the identity that they have at the source, and its listings
    /// do not tell that they are other names.
    pub(super) fn has_other_identity(
        &self,
        source: &Listing,
        metadata: &EntryMetadata,
        beside: Option<(&Listing, usize)>,
    ) -> bool {
        let Some((listing, there)) = beside.filter(|_| self.keeps_names()) else { return false };
        let is_copied = self.shared.sharing() == Some(ContentSharing::InStore)
            && self.shared.evidence.source_lacks()
            && !self.shared.cannot_clone.load(Relaxed);
        if !is_copied {
            return false;
        }
        let evidence = self.evidence(source, Some(listing));
        let is_known = !evidence.source_lacks() && !evidence.target_lacks();
        let there = listing.metadata(there).inode;
        // One with extended attributes in an object of their own is read and written, with a new identity each time.
        is_known
            && metadata.kind != EntryKind::Directory
            && metadata.inode.is_some()
            && metadata.inode != there
            && (there.is_none() || !metadata.bulky)
    }

    /// Returns true if names of one file at the source become names of one file at the target. An entry that the user named
    /// becomes a file of its own.
    pub(super) fn keeps_names(&self) -> bool {
        let able = self.shared.able.hard_links;
        self.shared.setup.job.hard_links && able && !self.removes() && self.target_name.is_none()
    }

    /// Gives away a name of a file with further names, which other runs may find. Returns false if it is none.
    pub(super) fn gives_name(&mut self, name: &[u8], metadata: &EntryMetadata) -> bool {
        let EntryMetadata { links, size_bytes, .. } = *metadata;
        let may_have_names = !matches!(metadata.kind, EntryKind::Directory | EntryKind::Socket);
        let Some(inode) = metadata.inode.filter(|_| links > 1 && may_have_names && self.keeps_names()) else {
            return false;
        };
        if !self.shared.gives_names() || self.node.has_given_names() {
            return false;
        }
        let Some(origin) = self.node.origins.get(self.origin) else { return false };
        let Ok(place) = self.node.place_of(origin, name) else { return false };
        self.node.cut();
        self.found.given.push(NameShare { place, inode, size_bytes, links });
        true
    }

    /// Returns true if an entry becomes a hard link, so that nothing else has to be done for it.
    pub(super) fn is_further_name(
        &mut self,
        source: &Arc<Listing>,
        index: usize,
        action: Action,
        target: Option<&EntryMetadata>,
    ) -> bool {
        let (name, metadata) = (source.name(index), source.metadata(index));
        let job = self.shared.setup.job;
        let compared = self.compares(metadata, action, target);
        let moves = match action {
            _ if compared => true,
            Action::Create | Action::Replace => true,
            Action::SetAttributes | Action::Leave => false,
            Action::Conflict | Action::MakeWay | Action::Examine | Action::Skip => return false,
        };
        let (Some(inode), true) = (metadata.inode, self.keeps_names()) else { return false };
        let (Ok(path), Ok(_)) = (self.node.target.join(name), self.below.join(name)) else { return false };
        let there = target.filter(|_| !moves || compared).and_then(|target| target.inode);
        let (tells_names, able_to_list) =
            (self.shared.tells_names(), self.shared.setup.target.capabilities().inodes);
        let is_told = self.again || !self.shared.evidence.target_lacks();
        // A link to it would get the attributes that it has before.
        let changes = action == Action::SetAttributes && !compared && self.shared.copies_names();
        let follower = || LinkedName {
            node: self.node.clone(),
            origin: self.origin,
            name: name.to_vec(),
            metadata: *metadata,
            target: path.clone(),
            replaces: action != Action::Create,
            there,
            compared: compared.then_some(action != Action::Leave),
            written_as: self.written_as(metadata, target),
            equal: action == Action::Leave && !compared,
        };
        // Held before other lanes can see the follower, because the first name may be done immediately afterwards.
        self.node.hold(1);
        self.shared.queue.hold(1);
        let (links, names) = (&self.shared.links, metadata.links);
        let home = LinkHome { path: path.clone(), inode: there, is_told, is_new: moves };
        let entered = match moves && (compared || !job.dry_run) {
            true => links.enter(inode, there, follower, names),
            false if changes && !job.dry_run => links.enter_changing(inode, home, follower, names),
            false => links.enter_there(inode, home, follower, names),
        };
        let is_further_name = match entered {
            LinkAction::First => {
                self.first_of = Some(inode).filter(|_| changes && !job.dry_run);
                false
            }
            LinkAction::TooMany => {
                self.losses.add(LossKind::HardLinks, true, || path.as_bytes().to_vec());
                false
            }
            LinkAction::Waits => return true,
            LinkAction::There(home) if home.inode.is_some() && there == home.inode => false,
            // If the target cannot tell which names belong to one inode, an equal file is kept. A name written earlier
            // by this run is certainly another file.
            LinkAction::There(home) if !home.is_new && !moves && !tells_names => false,
            // A store tells that only of entries that were asked for.
            LinkAction::There(home)
                if !home.is_new
                    && !moves
                    && !able_to_list
                    && (!is_told || !home.is_told && there.is_some()) =>
            {
                false
            }
            LinkAction::There(home) if !home.is_new && compared && !tells_names => {
                self.compare(source, index, action != Action::Leave, IfDifferent::Link(home.path));
                true
            }
            LinkAction::There(home) if !job.dry_run => {
                let follower = follower();
                self.found.links.push((follower, home.path));
                return true;
            }
            LinkAction::There(home) => {
                self.node.touch();
                self.shared.plan_link(home.is_new);
                let counter = match action {
                    Action::Create => &self.counters.entries_created,
                    _ => &self.counters.entries_updated,
                };
                counter.add(1);
                self.planned("link", &path, 0);
                true
            }
        };
        // The directory itself is still held, so neither of these can be the last.
        self.node.release();
        self.shared.queue.complete(1);
        is_further_name
    }
}
