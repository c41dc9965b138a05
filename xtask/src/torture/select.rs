//! Selects the entries that take part in a step by filter rules, lists and size limits, as the documents promise.

use super::model::Name;
use super::step::Step;
use super::walk::{SeenEntry, SeenKind, Snapshot};

/// The selection of a step.
#[derive(Debug)]
pub struct Selection<'a> {
    step: &'a Step,
}

impl<'a> Selection<'a> {
    /// Returns the selection of a step.
    pub fn of(step: &'a Step) -> Self {
        Self { step }
    }

    /// Returns true if the rules exclude this entry itself. The last matching rule decides.
    fn is_excluded(&self, path: &Name, is_directory: bool) -> bool {
        let last = self.step.rules.iter().rev().find(|rule| rule.pattern.matches(path, is_directory));
        !path.0.is_empty() && last.is_some_and(|rule| !rule.include)
    }

    /// Returns true if the rules exclude an entry or one of its parent directories.
    pub fn is_protected(&self, path: &Name, entries: &Snapshot) -> bool {
        let mut at = path.clone();
        let mut is_directory = entries.get(path).is_some_and(SeenEntry::is_directory);
        loop {
            if self.is_excluded(&at, is_directory) {
                return true;
            }
            let Some(parent) = at.parent() else { return false };
            at = parent;
            is_directory = true;
        }
    }

    /// Returns true if `--files-from` names the path or one of its parent directories.
    fn is_listed(&self, path: &Name) -> bool {
        let Some(list) = &self.step.files_from else { return true };
        list.iter().any(|listed| listed == path || path.is_below(listed))
    }

    /// Returns true if an entry of the source takes part.
    pub fn takes(&self, path: &Name, source: &Snapshot) -> bool {
        let Some(entry) = source.get(path) else { return false };
        let on_the_way =
            |list: &Vec<Name>| entry.is_directory() && list.iter().any(|listed| listed.is_below(path));
        // The root always takes part, and so do the directories above listed paths, whether these exist or not.
        let listed = path.0.is_empty()
            || self.is_listed(path)
            || self.step.files_from.as_ref().is_some_and(on_the_way);
        let within = match (&entry.kind, self.step.sizes) {
            // The reported size decides: no file is read to find out whether to copy it.
            (SeenKind::File { .. }, Some((least, most))) => (least..=most).contains(&entry.told_bytes),
            _ => true,
        };
        listed && within && !self.is_protected(path, source) && entry.kind != SeenKind::Socket
    }

    /// Returns true if an extra entry may be deleted. Rules protect entries, and entries that are not listed stay.
    pub fn may_remove(&self, path: &Name, target: &Snapshot) -> bool {
        self.is_listed(path) && !self.is_protected(path, target)
    }

    /// Returns true if a listed path leads through something that is not a directory of the source. No document says
    /// what happens then.
    pub fn is_vague(&self, source: &Snapshot) -> bool {
        let through = |path: &Name| {
            let above = std::iter::successors(path.parent(), Name::parent);
            above.into_iter().any(|above| source.get(&above).is_none_or(|entry| !entry.is_directory()))
        };
        self.step.files_from.iter().flatten().any(through)
    }

    /// Returns the number of listed paths that the source lacks. Each of them fails.
    pub fn missing(&self, source: &Snapshot) -> usize {
        self.step.files_from.iter().flatten().filter(|path| !source.contains_key(*path)).count()
    }
}
