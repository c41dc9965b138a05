//! Leftovers of ended runs in directories that this run writes to: drafts and journals on which nobody holds a lock.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use hakobu_core::grant::Grant;
use hakobu_core::path::{DraftLife, EntryPath, draft_life, is_draft_name};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Dir, FlockOperation, Mode, OFlags, Stat, flock, openat, renameat, statat, unlinkat,
};
use rustix::io::Errno;

use crate::local::draft_name::{DraftKey, DraftName};
use crate::local::draft_proof::is_ours;
use crate::local::file_system::{give_time_back, is_network};
use crate::local::metadata;
use crate::local::resolve_beneath::TreeRoot;

/// The maximum number of leftovers that are remembered until the run ends. Further ones are left to the next run.
const REMEMBERED_MAX: usize = 4096;
/// The maximum number of entries examined in a directory that is not listed.
const LOOKED_AT_MAX: usize = 20_000;
/// The minimum age in seconds. A younger draft may belong to a process that has not locked it yet, or a server that
/// cannot.
const YOUNG_S: i64 = 2;
/// The minimum age in seconds on network file systems, where the locks of other machines may not be visible.
const YOUNG_ON_NETWORK_S: i64 = 24 * 60 * 60;

/// Drafts and journals that were found.
#[derive(Debug, Default)]
pub(crate) struct LeftoverFiles {
    met: Mutex<Vec<(EntryPath, Vec<u8>)>>,
    /// True if this run keeps progress for a later one.
    keeps: AtomicBool,
    /// Drafts that this run has left to others, and their journals.
    spared: Mutex<Vec<Vec<u8>>>,
    /// The large drafts of other leases in directories that nobody lists.
    unlisted: Mutex<HashMap<EntryPath, Vec<DraftName>>>,
}

impl LeftoverFiles {
    /// Adds drafts and journals that a listing has found.
    pub(crate) fn add(&self, some: Vec<(EntryPath, Vec<u8>)>) {
        if some.is_empty() {
            return;
        }
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let room = REMEMBERED_MAX.saturating_sub(met.len());
        met.extend(some.into_iter().take(room));
    }

    /// Gives the draft and journal that another lease of the job has left of a file the names of this lease, if nobody has them
    /// open. On network file systems nobody knows.
    pub(crate) fn adopt(&self, (path, directory): (&EntryPath, &OwnedFd), draft: &DraftName) {
        let met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        let names = met.iter().filter(|(its, _)| its == path).map(|(_, name)| name);
        let names = names.filter_map(|name| DraftName::of(name));
        let others: Vec<_> = names.filter(|name| name != draft && name.is_of_file_of(draft)).collect();
        drop(met);
        for other in others {
            if has_free_lock(directory, other.as_bytes()) && is_ours(directory, other.as_bytes()) {
                // A draft without its journal is begun anew.
                let _begun_anew = rename(directory, &other, draft);
                return;
            }
        }
    }

    /// Takes over the draft and journal that an earlier lease of the job has left of a file in a directory that nobody lists, and
    /// removes its others. None of them is of use to anybody else, as the lease is over. The drafts of other files are those of
    /// runs that write to the directory as well.
    pub(crate) fn take_over(
        &self,
        key: &DraftKey,
        (path, directory): (&EntryPath, &OwnedFd),
        draft: &DraftName,
        goes_on: bool,
    ) {
        if goes_on {
            self.adopt((path, directory), draft);
        }
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        if unlisted.len() >= REMEMBERED_MAX {
            unlisted.clear();
        }
        let found = unlisted.entry(path.clone()).or_insert_with(|| others_in(key, directory));
        let others: Vec<_> = found.extract_if(.., |other| other.is_of_file_of(draft)).collect();
        drop(unlisted);
        let mut may_go_on = goes_on && !is_network(directory.as_fd());
        for other in others.iter().filter(|other| is_ours(directory, other.as_bytes())) {
            let is_taken =
                may_go_on && has_free_lock(directory, other.as_bytes()) && rename(directory, other, draft);
            may_go_on &= !is_taken;
            for name in [*other, other.journal()].iter().filter(|_| !is_taken) {
                let _is_gone = unlinkat(directory, OsStr::from_bytes(name.as_bytes()), AtFlags::empty());
            }
        }
    }

    /// Records that a draft of this run is left to others.
    pub(crate) fn spare(&self, name: &[u8]) {
        let journal = DraftName::of(name).map(|draft| draft.journal().as_bytes().to_vec());
        let mut spared = self.spared.lock().unwrap_or_else(PoisonError::into_inner);
        spared.extend([Some(name.to_vec()), journal].into_iter().flatten());
    }

    /// Records that progress is kept for a later run, so that nothing is removed at the end.
    pub(crate) fn keep(&self) {
        self.keeps.store(true, Ordering::Release);
    }
}

/// Removes leftovers of other runs, at the end of a run that has finished everything it began.
///
/// # Errors
/// If a directory's previous time cannot be restored.
pub(crate) fn remove_leftovers(
    leftovers: &LeftoverFiles,
    root: &TreeRoot,
    (grant, key): (&Grant, &DraftKey),
) -> Result<(), Errno> {
    if leftovers.keeps.load(Ordering::Acquire) || grant.only_reads {
        return Ok(());
    }
    let mut all = std::mem::take(&mut *leftovers.met.lock().unwrap_or_else(PoisonError::into_inner));
    if grant.may_clear_beside() {
        let beside = beside_files(root, grant);
        all.extend(clear_other_leases(root, grant, key, beside));
    }
    let spared = std::mem::take(&mut *leftovers.spared.lock().unwrap_or_else(PoisonError::into_inner));
    all.retain(|(_, name)| !spared.contains(name));
    let mut waited = false;
    let mut done = Ok(());
    for (path, name) in all {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let Ok(directory) = root.open_beneath(&path, flags) else { continue };
        if !is_ours(&directory, &name) {
            continue;
        }
        let Ok(found) = look(&directory, &name) else { continue };
        if age_s(&found) < YOUNG_S && !std::mem::replace(&mut waited, true) {
            std::thread::sleep(Duration::from_secs(YOUNG_S as u64));
        }
        // The directory already has its final time.
        let before = metadata::of_path(&directory);
        if remove(&directory, &name)
            && let Ok(before) = before
        {
            done = done.and(give_time_back(directory.as_fd(), &before));
        }
    }
    done
}

/// Removes the drafts of other leases of the job at once, so that whoever has lost its lease cannot give them their final names
/// any more. Returns the others, and those that this lease can go on with.
pub(crate) fn clear_other_leases(
    root: &TreeRoot,
    grant: &Grant,
    key: &DraftKey,
    mut met: Vec<(EntryPath, Vec<u8>)>,
) -> Vec<(EntryPath, Vec<u8>)> {
    let may = !grant.only_reads && grant.check_time().is_ok();
    met.retain(|(path, name)| {
        if !may || DraftName::of_other_lease(key, name).is_none() {
            return true;
        }
        let Ok(directory) = root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY) else { return true };
        let is_of_use = draft_life(name) == Some(DraftLife::Long)
            && !is_network(directory.as_fd())
            && has_free_lock(&directory, name);
        let before = metadata::of_path(&directory);
        let is_gone = !is_of_use && unlinkat(&directory, OsStr::from_bytes(name), AtFlags::empty()).is_ok();
        if let (true, Ok(before)) = (is_gone, before) {
            // Whoever lists the directory sets its time in the end, unless it is as it was.
            let _ = give_time_back(directory.as_fd(), &before);
        }
        !is_gone
    });
    met
}

/// Returns drafts beside files that were named individually, whose directories are not listed.
fn beside_files(root: &TreeRoot, grant: &Grant) -> Vec<(EntryPath, Vec<u8>)> {
    let mut found = Vec::new();
    let mut parents: Vec<EntryPath> = Vec::new();
    for place in grant.places.iter().filter(|place| !place.tree && place.device.is_none()) {
        let Some((parent, _)) = place.path.split_last() else { continue };
        if !parents.contains(&parent) {
            parents.push(parent);
        }
    }
    for parent in parents {
        let opened = root.open_beneath(&parent, OFlags::RDONLY | OFlags::DIRECTORY);
        let Ok(entries) = opened.and_then(Dir::read_from) else { continue };
        for entry in entries.take(LOOKED_AT_MAX).flatten() {
            let name = entry.file_name().to_bytes();
            if is_draft_name(name) {
                found.push((parent.clone(), name.to_vec()));
            }
        }
    }
    found
}

/// Gives a draft and its journal other names. Returns false if one of them is not there.
fn rename(directory: &OwnedFd, from: &DraftName, to: &DraftName) -> bool {
    let rename = |from: &DraftName, to: &DraftName| {
        renameat(directory, from.as_bytes(), directory, to.as_bytes()).is_ok()
    };
    rename(&from.journal(), &to.journal()) && rename(from, to)
}

/// Returns the large drafts of other leases of the job in a directory.
fn others_in(key: &DraftKey, directory: &OwnedFd) -> Vec<DraftName> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = openat(directory, ".", flags, Mode::empty()).and_then(Dir::read_from) else {
        return Vec::new();
    };
    let names = entries.flatten().filter_map(|entry| {
        let name = entry.file_name().to_bytes();
        DraftName::of_other_lease(key, name).filter(|_| draft_life(name) == Some(DraftLife::Long))
    });
    names.take(REMEMBERED_MAX).collect()
}

fn look(directory: &OwnedFd, name: &[u8]) -> Result<Stat, Errno> {
    statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW)
}

fn age_s(found: &Stat) -> i64 {
    metadata::now().seconds.saturating_sub(found.st_ctime)
}

/// Removes a draft if it belongs to this user, is not in use, and was not changed a moment ago. Returns true if it was
/// removed. Root removes drafts of any owner, because a draft gets the owner of its file before its final name.
fn remove(directory: &OwnedFd, name: &[u8]) -> bool {
    let own = rustix::process::geteuid();
    let lock = try_lock(directory, name);
    let Ok(found) = look(directory, name) else { return false };
    let is_on_network = is_network(directory.as_fd());
    let age_needed_s = if is_on_network { YOUNG_ON_NETWORK_S } else { YOUNG_S };
    lock.is_ok()
        && (own.is_root() || found.st_uid == own.as_raw())
        && age_s(&found) >= age_needed_s
        && unlinkat(directory, OsStr::from_bytes(name), AtFlags::empty()).is_ok()
}

/// Locks a draft until the result is dropped. A symbolic link cannot be locked, and exists only for a moment.
fn try_lock(directory: &OwnedFd, name: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = openat(directory, OsStr::from_bytes(name), flags, Mode::empty()) else { return Ok(None) };
    flock(&file, FlockOperation::NonBlockingLockExclusive).map(|()| Some(file))
}

/// Returns true if nobody has a draft locked.
fn has_free_lock(directory: &OwnedFd, name: &[u8]) -> bool {
    matches!(try_lock(directory, name), Ok(Some(_)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use super::*;
    use crate::local::draft_file::hold;
    use crate::local::draft_name::{DraftKey, DraftName};

    #[test]
    fn a_draft_that_has_its_owner_already_goes_too() {
        let folder = tempfile::tempdir().unwrap();
        let directory: OwnedFd = File::open(folder.path()).unwrap().into();
        let name = DraftName::new(&DraftKey::new(&[1; 32]), 1, b"", b"file");
        let path = folder.path().join(OsStr::from_bytes(name.as_bytes()));
        fs::write(&path, "x").unwrap();
        // Without root, the test has only drafts of its own user.
        let _ = std::os::unix::fs::chown(&path, Some(1234), Some(1234));
        assert!(!remove(&directory, name.as_bytes()), "it was changed a moment ago");
        std::thread::sleep(Duration::from_secs(YOUNG_S as u64 + 1));
        let used = File::open(&path).unwrap().into();
        hold(&used);
        assert!(!remove(&directory, name.as_bytes()), "somebody uses it");
        drop(used);
        assert!(remove(&directory, name.as_bytes()) && !path.exists());
    }

    /// Leaves a short-lived draft in a directory and removes a run's leftovers there. Returns true if the draft was
    /// removed.
    fn met(grant: &Grant, keeps: bool) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let name = DraftName::new(&DraftKey::new(&[1; 32]), 3, b"a", b"b");
        let path = inner.join(OsStr::from_bytes(name.as_bytes()));
        fs::write(&path, "x").unwrap();
        fs::write(inner.join("a user's"), "x").unwrap();
        let before = inner.metadata().unwrap().modified().unwrap();
        let leftovers = LeftoverFiles::default();
        let at = EntryPath::new("inner").unwrap();
        leftovers.add(Vec::new());
        leftovers.add(vec![(at.clone(), name.as_bytes().to_vec()), (at, b"a user's".to_vec())]);
        if keeps {
            leftovers.keep();
        }
        let key = DraftKey::new(&[1; 32]);
        remove_leftovers(&leftovers, &TreeRoot::open(folder.path()).unwrap(), (grant, &key)).unwrap();
        assert!(inner.join("a user's").exists());
        assert_eq!(inner.metadata().unwrap().modified().unwrap(), before);
        !path.exists()
    }

    #[test]
    fn what_was_left_a_moment_ago_is_waited_for_and_goes() {
        assert!(met(&Grant::everything(), false));
        assert!(!met(&Grant::everything(), true), "a later run goes on with something");
        assert!(!met(&Grant { only_reads: true, ..Grant::everything() }, false));
    }
}
