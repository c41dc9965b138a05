//! Checks names that the target cannot hold, before any data of the entry is sent.

use super::*;

impl Join<'_> {
    /// Records the target's names if it ignores case.
    pub(super) fn begin_names(&mut self, target: &Listing) {
        let writes = !self.verifies() && !self.hashes() && !self.removes();
        if !writes || self.again || !self.shared.setup.target.capabilities().names.ignores_case {
            return;
        }
        let mut folded = FoldedNames::default();
        for index in 0..target.len() {
            // Names that are equal to the target cannot both be in its listing.
            let _ = folded.add(target.name(index));
        }
        self.folded = Some(folded);
    }

    /// Fails if the target cannot hold a name of the source.
    pub(super) fn check_name(&mut self, name: &[u8]) -> Result<()> {
        if self.removes() || self.verifies() || self.hashes() {
            return Ok(());
        }
        let name = self.target_name.unwrap_or(name);
        self.shared.setup.target.capabilities().names.check(name)?;
        self.folded.as_mut().map_or(Ok(()), |folded| folded.add(name))
    }
}
