//! Handles names that differ only in case if the target ignores case. Entries of the target are renamed to the source's
//! names, so that they are found again.

use super::*;
use crate::job::Removal;
use crate::names::other_cases;

impl Worker<'_> {
    /// Renames entries of a target directory to the names that the source has for them, if those differ only in case.
    /// Returns the new listing, or `None` if nothing was renamed. Failures are reported when names are compared.
    pub(super) fn rename_by_case(
        &mut self,
        node: &Arc<DirectoryNode>,
        parts: &[OriginListing],
        target: &Listing,
    ) -> Result<Option<Listing>> {
        let job = self.shared.setup.job;
        let writes = !job.mode.only_reads() && job.removal != Removal::Remove;
        let ignores_case = self.shared.setup.target.capabilities().names.ignores_case;
        if !ignores_case || !writes || node.is_doomed() || node.is_above_top() {
            return Ok(None);
        }
        let below_top = node.below_top();
        let takes_part = |name: &[u8], metadata: &EntryMetadata| {
            let path = [&below_top, name].concat();
            !self.shared.filter.as_ref().is_some_and(|filter| filter.leaves_out(&path, metadata))
        };
        let of =
            |listing: &'_ Listing, index: usize| takes_part(listing.name(index), listing.metadata(index));
        let source: Vec<&[u8]> = parts
            .iter()
            .flat_map(|part| (0..part.listing.len()).map(move |index| (&part.listing, index)))
            .filter(|(listing, index)| of(listing, *index))
            .map(|(listing, index)| listing.name(index))
            .collect();
        let known: Vec<usize> = (0..target.len()).filter(|index| of(target, *index)).collect();
        let names: Vec<&[u8]> = known.iter().map(|index| target.name(*index)).collect();
        let mut renamed: HashMap<usize, &[u8]> = HashMap::new();
        for (index, wanted) in other_cases(&source, &names) {
            let (path, from) = (node.target.join(source[wanted])?, node.target.join(names[index])?);
            if self.rename(path, from)? {
                renamed.insert(known[index], source[wanted]);
            }
        }
        if renamed.is_empty() {
            return Ok(None);
        }
        node.touch();
        let mut listing = Listing::with_capacity(target.len());
        for index in 0..target.len() {
            listing
                .push(renamed.get(&index).copied().unwrap_or(target.name(index)), *target.metadata(index))?;
        }
        listing.sort();
        Ok(Some(listing))
    }

    /// Renames an entry of the target. Returns true if that succeeded.
    fn rename(&mut self, path: EntryPath, from: EntryPath) -> Result<bool> {
        if self.shared.setup.job.dry_run {
            self.shared.planned("rename", &path, 0);
            return Ok(true);
        }
        let changes = vec![Change::Rename { path, from }];
        match self.ask_target(TargetOp::Apply { changes })? {
            TargetOutcome::PackWritten { failures, .. } => Ok(failures.is_empty()),
            _ => Err(unexpected()),
        }
    }
}
