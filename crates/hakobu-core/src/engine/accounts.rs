//! Maps users and groups that both ends know by name to their numbers at the target.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::entry::{AccountId, EntryMetadata};

/// The maximum number of accounts that are looked up. Further accounts keep their numbers.
const ACCOUNTS_MAX: usize = 100_000;

/// The target's numbers of the accounts looked up so far. Usually there are only a few.
#[derive(Debug, Default)]
pub(super) struct Accounts(Mutex<HashMap<AccountId, u32>>);

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, HashMap<AccountId, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the accounts of these entries that have not been looked up yet.
    pub fn unknown<'a>(&self, entries: impl Iterator<Item = &'a EntryMetadata>) -> Vec<AccountId> {
        let known = self.lock();
        if known.len() >= ACCOUNTS_MAX {
            return Vec::new();
        }
        let both = |metadata: &EntryMetadata| [AccountId::User(metadata.uid), AccountId::Group(metadata.gid)];
        let mut last = None;
        let mut unknown = BTreeSet::new();
        for entry in entries {
            // Most entries of a directory belong to one user and group.
            if last.replace(both(entry)) == Some(both(entry)) {
                continue;
            }
            unknown.extend(both(entry).into_iter().filter(|account| !known.contains_key(account)));
        }
        unknown.into_iter().collect()
    }

    /// Records the numbers of accounts at the target.
    pub fn learn(&self, found: impl IntoIterator<Item = (AccountId, u32)>) {
        self.lock().extend(found);
    }

    /// Replaces the owners of source entries with their numbers at the target. Unknown accounts keep theirs.
    pub fn translate<'a>(&self, entries: impl Iterator<Item = &'a mut EntryMetadata>) {
        let known = self.lock();
        for entry in entries {
            entry.uid = known.get(&AccountId::User(entry.uid)).copied().unwrap_or(entry.uid);
            entry.gid = known.get(&AccountId::Group(entry.gid)).copied().unwrap_or(entry.gid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::EntryKind;

    #[test]
    fn each_account_is_asked_for_once_and_what_has_no_name_keeps_its_number() {
        let accounts = Accounts::default();
        let entry = |uid, gid| EntryMetadata { uid, gid, ..EntryMetadata::new(EntryKind::File) };
        let mut entries = [entry(1, 1), entry(1, 1), entry(2, 1)];
        let expected = [AccountId::User(1), AccountId::User(2), AccountId::Group(1)];
        assert_eq!(accounts.unknown(entries.iter()), expected);
        accounts.learn([(AccountId::User(1), 71), (AccountId::User(2), 2), (AccountId::Group(1), 81)]);
        assert_eq!(accounts.unknown(entries.iter()), []);
        accounts.translate(entries.iter_mut());
        let owners = entries.map(|entry| (entry.uid, entry.gid));
        assert_eq!(owners, [(71, 81), (71, 81), (2, 81)]);
    }
}
