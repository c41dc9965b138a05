//! Finds entries that have to be examined because listings do not show all their attributes.

use super::*;
use crate::evidence::ListingEvidence;

impl Join<'_> {
    /// Returns the evidence between an entry of a source listing and one of the target's listing.
    pub(super) fn evidence(&self, source: &Listing, target: Option<&Listing>) -> ListingEvidence {
        self.shared.evidence.with_exact(source.is_exact(), target.is_none_or(Listing::is_exact))
    }

    /// Returns true if an entry cannot be decided from what the listings show.
    pub(super) fn is_unclear(
        &self,
        (source, index): (&Listing, usize),
        metadata: &EntryMetadata,
        beside: Option<(&Listing, usize)>,
    ) -> bool {
        let evidence = self.evidence(source, beside.map(|(listing, _)| listing));
        let lacks = evidence.source_lacks() || beside.is_some() && evidence.target_lacks();
        if !lacks || self.removes() {
            return false;
        }
        if self.hashes() {
            return evidence.may_be_no_file(metadata);
        }
        if self.verifies() {
            return beside.is_some();
        }
        let target = beside.map(|(listing, index)| listing.metadata(index));
        let evidence_here = (&evidence, self.node.is_settled());
        match decide_listed(metadata, target, &self.shared.able, self.makes_way(metadata), evidence_here) {
            Action::Examine => true,
            Action::Create | Action::Replace => evidence.source_lacks() && self.needs_attributes(metadata),
            Action::Leave => {
                evidence.source_lacks() && self.may_get_names(target)
                    || evidence.target_lacks()
                        && (self.compares_names(metadata)
                            || self.is_first_of_attributes(source.name(index), metadata))
            }
            _ => false,
        }
    }

    /// Returns true for the first entry of a tree with extended attributes that the target may keep apart from it.
    fn is_first_of_attributes(&self, name: &[u8], metadata: &EntryMetadata) -> bool {
        if !metadata.bulky || self.shared.ask.keep.is_empty() {
            return false;
        }
        // Each entry that the user named is a tree, or a file with its attributes beside it.
        let own = self.node.is_above_top().then_some(self.target_name.unwrap_or(name));
        self.shared.bulky_attributes.is_first(self.node.names_to_top().chain(own), metadata.extended)
    }

    /// Returns true if an entry that stays as it is may be the file that new entries are further names of, which only the
    /// source's entry itself tells.
    fn may_get_names(&self, target: Option<&EntryMetadata>) -> bool {
        let (job, source) = (self.shared.setup.job, self.shared.setup.source.capabilities());
        let tells = source.tells_links && job.hard_links && self.shared.able.hard_links;
        tells && target.is_some_and(|target| target.links > 1 && target.kind != EntryKind::Directory)
    }

    /// Returns true for a name of a file with several whose content is compared. A store tells only of entries that are asked
    /// for which file they are a name of. Those of which that is unknown would be linked again.
    fn compares_names(&self, metadata: &EntryMetadata) -> bool {
        let is_linked = metadata.links > 1 && metadata.inode.is_some();
        self.shared.setup.job.compare_content
            && is_linked
            && metadata.kind != EntryKind::Directory
            && self.keeps_names()
    }

    /// Returns true if an entry cannot be copied without its attributes. Those of small files come along with their
    /// content.
    fn needs_attributes(&self, metadata: &EntryMetadata) -> bool {
        let job = self.shared.setup.job;
        let is_of_small_file = metadata.kind == EntryKind::File && !self.is_large(metadata);
        !job.require.is_empty() || job.by_name || !(is_of_small_file || job.dry_run)
    }
}
