//! Several sources in one directory: which of the entries of one name is copied.

use super::*;

/// So many entries that are left out are named by each lane.
const LEFT_OUT_TOLD_MAX: u64 = 5;

impl Join<'_> {
    /// Whether no earlier part has an entry of this name. Otherwise it is dealt with here.
    pub(super) fn comes_first(&mut self, parts: &[Part], number: usize, index: usize) -> bool {
        let source = &parts[number].listing;
        let (name, metadata) = (source.name(index), source.metadata(index));
        let target_name = self.target_name.unwrap_or(name);
        let earlier = parts[..number].iter().find_map(|part| self.kind_in(part, target_name));
        let directory = metadata.kind == Kind::Directory;
        match earlier {
            None => return true,
            // It became one of the origins of the earlier one.
            Some(Kind::Directory) if directory => {}
            Some(kind) if directory || kind == Kind::Directory => {
                self.scanned(metadata);
                let words = format!(
                    "an earlier source has {} of this name, which is copied instead; copy this one elsewhere",
                    kind.words()
                );
                self.fail(name, Error::new(ErrorKind::Conflict, "copying", words));
            }
            Some(_) => {
                self.scanned(metadata);
                self.left_out(target_name);
                if metadata.kind == Kind::File {
                    self.counters.bytes_unchanged.add(metadata.size_bytes);
                }
            }
        }
        false
    }

    /// Counts what is left out for an earlier source's entry of the same name, and names the first of them.
    fn left_out(&mut self, target_name: &[u8]) {
        self.counters.entries_skipped.add(1);
        let told = self.counters.entries_skipped.get();
        let Ok(path) = self.node.target.join(target_name) else { return };
        let words = match told {
            ..=LEFT_OUT_TOLD_MAX => {
                format!("{path} is that of an earlier source; one of the same name is left out")
            }
            _ if told == LEFT_OUT_TOLD_MAX + 1 => {
                "more of the same name are left out; the count is in the end".to_owned()
            }
            _ => return,
        };
        self.shared.setup.observer.event(Event::Notice { words });
    }

    /// The kind of the entry that a part brings to a name of the target, if it brings one.
    fn kind_in(&self, part: &Part, target_name: &[u8]) -> Option<Kind> {
        let only = self.node.origins.get(part.origin).and_then(|origin| origin.only.as_ref());
        let index = match only {
            Some(only) => (only.target_name == target_name && !part.listing.is_empty()).then_some(0),
            None => part.listing.find(target_name, true).or_else(|| part.listing.find(target_name, false)),
        };
        let kind = part.listing.metadata(index?).kind;
        (kind != Kind::Socket).then_some(kind)
    }

    /// The directories of one name in a part and in those behind it.
    pub(super) fn origins(&self, parts: &[Part], target_name: &[u8]) -> Result<Vec<Origin>> {
        let mut origins = Vec::with_capacity(1);
        for part in parts {
            let Some(origin) = self.node.origins.get(part.origin) else { continue };
            if self.kind_in(part, target_name) == Some(Kind::Directory) {
                let name = origin.only.as_ref().map_or(target_name, |only| &only.name);
                origins.push(Origin::whole(origin.root, origin.path.join(name)?));
            }
        }
        Ok(origins)
    }
}
