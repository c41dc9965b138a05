//! Merges several sources into one directory: decides which of the entries with one name is copied.

use super::*;

impl Join<'_> {
    /// Returns true if no earlier part has an entry of this name. Otherwise the conflict is handled here.
    pub(super) fn comes_first(&mut self, parts: &[OriginListing], number: usize, index: usize) -> bool {
        let source = &parts[number].listing;
        let (name, metadata) = (source.name(index), source.metadata(index));
        let target_name = self.target_name.unwrap_or(name);
        // An excluded entry conflicts with nothing.
        if self.is_left_out(name, metadata) {
            return true;
        }
        let earlier = parts[..number].iter().find_map(|part| self.kind_taken(part, target_name));
        let directory = metadata.kind == EntryKind::Directory;
        match earlier {
            None => return true,
            // It is one of the origins of the earlier directory.
            Some(EntryKind::Directory) if directory => {}
            Some(kind) if directory || kind == EntryKind::Directory => {
                self.scanned(metadata);
                let words = format!(
                    "an earlier source has {} of this name, which is copied instead; copy this one elsewhere",
                    kind.words()
                );
                self.fail(name, Error::new(ErrorKind::Conflict, "copying", words));
            }
            Some(_) => {
                self.scanned(metadata);
                // The run before has reported it.
                if self.removes() {
                    return false;
                }
                let words = "an earlier source has an entry of this name, which is copied instead; copy this one elsewhere, \
                             or rename one of them";
                self.fail(name, Error::new(ErrorKind::Conflict, "copying", words));
            }
        }
        false
    }

    /// Returns the kind of an earlier part's entry with this name at the target, if any that no filter excludes.
    fn kind_taken(&mut self, part: &OriginListing, target_name: &[u8]) -> Option<EntryKind> {
        let kind = self.kind_in(part, target_name)?;
        let whole = self.node.origins.get(part.origin).is_some_and(|origin| origin.only.is_none());
        let index = part.listing.find(target_name, kind == EntryKind::Directory).filter(|_| whole);
        let left_out = index.is_some_and(|index| self.is_left_out(target_name, part.listing.metadata(index)));
        (!left_out).then_some(kind)
    }

    /// Returns the kind of a part's entry with this name at the target, if there is one.
    fn kind_in(&self, part: &OriginListing, target_name: &[u8]) -> Option<EntryKind> {
        let only = self.node.origins.get(part.origin).and_then(|origin| origin.only.as_ref());
        let index = match only {
            Some(only) => (only.target_name == target_name && !part.listing.is_empty()).then_some(0),
            None => part.listing.find(target_name, true).or_else(|| part.listing.find(target_name, false)),
        };
        let kind = part.listing.metadata(index?).kind;
        (kind != EntryKind::Socket).then_some(kind)
    }

    /// Returns the origins of a directory: those of this name in a part and in the parts after it.
    pub(super) fn origins(&self, parts: &[OriginListing], target_name: &[u8]) -> Result<Vec<Origin>> {
        let mut origins = Vec::with_capacity(1);
        for part in parts {
            let Some(origin) = self.node.origins.get(part.origin) else { continue };
            if self.kind_in(part, target_name) == Some(EntryKind::Directory) {
                let name = origin.only.as_ref().map_or(target_name, |only| &only.name);
                origins.push(Origin::whole(origin.root, origin.path.join(name)?));
            }
        }
        Ok(origins)
    }
}
