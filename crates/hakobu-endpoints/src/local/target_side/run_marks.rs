//! The run marks that concern one target. A run creates its mark in the directory that it writes to, and flushes it to
//! stable storage, before the first file gets its final name. It removes the mark when all files are on stable storage.
//! If the boot or mount of a mark has ended, files that were changed since it was created may have lost their content:
//! listings mark them as doubtful, and the engine compares them. See `docs/design/0014-unclean-ends.md`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hakobu_core::entry::FileTime;
use hakobu_core::grant::Grant;
use hakobu_core::listing::Listing;
use hakobu_core::path::EntryPath;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, StatxFlags, Timespec, Timestamps, UTIME_OMIT, fchmod, flock,
    fstat, fsync, futimens, openat, statat, statx, syncfs, unlinkat,
};
use rustix::io::Errno;

use crate::local::file_system::{Stability, is_network, keeps_change_times, stability};
use crate::local::ownership::may_set_times;
use crate::local::resolve_beneath::TreeRoot;
use crate::local::run_mark::{NAMES, RunMark, examine, read, write};
use crate::local::thread_budget::many;

/// The maximum amount in seconds by which a clock may be set back during a run.
const CLOCK_MARGIN_S: i64 = 60;
/// The maximum number of directories searched above the root: locally, and on a network, where each may cost a request.
const ABOVE_MAX: usize = 64;
const ABOVE_ON_NETWORK_MAX: usize = 1;
/// `STATX_MNT_ID_UNIQUE`, since Linux 6.8: a mount ID that is never reused.
const UNIQUE_MOUNT: StatxFlags = StatxFlags::from_bits_retain(0x4000);

/// The marks that concern one target.
#[derive(Debug, Default)]
pub(crate) struct RunMarks {
    /// True once the first file may get its name.
    is_made: AtomicBool,
    /// True if no mark could be created, so that each file must be flushed.
    is_missing: AtomicBool,
    has_doubts: AtomicBool,
    state: Mutex<MarkState>,
}

#[derive(Debug, Default)]
struct MarkState {
    own: Option<LockedMark>,
    /// The marks of other runs, wherever they were found.
    left: Vec<ForeignMark>,
    /// True if each look at a name is a request to a file server.
    on_network: bool,
}

/// A mark whose lock this process holds.
#[derive(Debug)]
struct LockedMark {
    directory: Arc<OwnedFd>,
    name: &'static [u8],
    file: OwnedFd,
}

/// The mark of an ended run, or of another run in progress.
#[derive(Debug)]
struct ForeignMark {
    directory: Arc<OwnedFd>,
    name: &'static [u8],
    job: Option<[u8; 32]>,
    /// True if this run covers everything that the mark is about.
    is_covered: bool,
    /// The doubtful entries: those at and below this path that were changed since this time, or at any time without
    /// one.
    doubts: Option<(EntryPath, Option<FileTime>)>,
}

impl RunMarks {
    /// Reads the marks at the paths of a grant and above them.
    pub(crate) fn look(root: &TreeRoot, grant: &Grant) -> Self {
        let marks = Self::default();
        let mut state = MarkState { on_network: is_network(root.fd().as_fd()), ..MarkState::default() };
        for path in places(grant) {
            if let Ok(directory) = open_readable(root, &path) {
                state.look_into(&Arc::new(directory), &path, grant.is_in_tree(&path));
            }
        }
        state.look_above(root);
        marks.has_doubts.store(state.has_doubts(), Ordering::Release);
        *marks.state() = state;
        marks
    }

    /// Creates a mark before a file gets its name. Returns true if there is no mark, so that each file must be flushed.
    pub(crate) fn begin(&self, root: &TreeRoot, grant: &Grant, job: &[u8; 32]) -> bool {
        if !self.is_made.load(Ordering::Acquire) {
            let mut state = self.state();
            if !self.is_made.load(Ordering::Acquire) {
                match make(root, grant, job) {
                    Ok(own) => state.own = own,
                    Err(_) => self.is_missing.store(true, Ordering::Release),
                }
                self.is_made.store(true, Ordering::Release);
            }
        }
        self.is_missing.load(Ordering::Acquire)
    }

    /// Ends the run, once all files have their names and, with `durable`, are on stable storage. With `whole`,
    /// everything that the job covers was compared and is correct.
    ///
    /// # Errors
    /// If a directory's time before the removal of its mark cannot be restored.
    pub(crate) fn end(&self, job: &[u8; 32], durable: bool, whole: bool) -> Result<(), Errno> {
        let mut state = self.state();
        let mut ended = Ok(());
        if let Some(own) = state.own.take() {
            ended = remove(&own.directory, own.name, &own.file).map(|_| ());
        }
        self.is_made.store(false, Ordering::Release);
        state.left.retain(|left| {
            let is_over = match left.doubts {
                // That run's data may have been only in memory until now.
                None => durable && !left.is_in_progress() && syncfs(&left.directory).is_ok(),
                // A mark that does not name its job was never complete, or is damaged. Another lease of the job has the same
                // first half.
                Some(_) => durable && whole && left.job.map_or(left.is_covered, |its| its[..8] == job[..8]),
            };
            if !is_over {
                return true;
            }
            let removed = left.remove();
            if ended.is_ok() {
                ended = removed.map(|_| ());
            }
            // If only restoring the directory's time failed, the mark is gone.
            removed == Ok(false)
        });
        self.has_doubts.store(state.has_doubts(), Ordering::Release);
        ended
    }

    /// Returns true if this run has a mark.
    pub(crate) fn is_held(&self) -> bool {
        self.state().own.is_some()
    }

    /// Returns true if anything is doubtful.
    pub(crate) fn has_doubts(&self) -> bool {
        self.has_doubts.load(Ordering::Acquire)
    }

    /// Reads the marks in directories where a listing has found some.
    pub(crate) fn learn(&self, root: &TreeRoot, grant: &Grant, met: Vec<EntryPath>) {
        if met.is_empty() {
            return;
        }
        let mut state = self.state();
        for path in met {
            if let Ok(directory) = open_readable(root, &path) {
                state.look_into(&Arc::new(directory), &path, grant.is_in_tree(&path));
            }
        }
        self.has_doubts.store(state.has_doubts(), Ordering::Release);
    }

    /// Marks the doubtful entries in the listing of a directory.
    pub(crate) fn doubt_listing(&self, path: &EntryPath, listing: &mut Listing) {
        self.doubts(path).into_iter().for_each(|since| listing.doubt(since));
    }

    /// Returns the time since which a directory's contents are doubtful, if they are. `Some(None)` means at any time.
    pub(crate) fn doubts(&self, directory: &EntryPath) -> Option<Option<FileTime>> {
        let state = self.state();
        let doubts = state.left.iter().filter_map(|left| left.doubts.as_ref());
        let here = doubts.filter(|(path, _)| directory.is_within(path)).map(|(_, since)| *since);
        // Without a time everything is doubtful, and `None` is less than every time.
        here.min()
    }

    fn state(&self) -> MutexGuard<'_, MarkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MarkState {
    fn has_doubts(&self) -> bool {
        self.left.iter().any(|left| left.doubts.is_some())
    }

    /// Reads the marks in a directory. They are about everything at and below `path`.
    fn look_into(&mut self, directory: &Arc<OwnedFd>, path: &EntryPath, is_covered: bool) {
        let mut life = None;
        let examined = match self.on_network {
            true => many(NAMES.len(), || (), |(), slot| examine(directory.as_fd(), &NAMES[slot])),
            false => NAMES.iter().map(|name| examine(directory.as_fd(), name)).collect(),
        };
        for (name, mark) in NAMES.iter().zip(examined) {
            let Some(mark) = mark else { continue };
            if self.left.iter().any(|left| left.name == name.as_slice() && same(&left.directory, directory)) {
                continue;
            }
            let life = *life.get_or_insert_with(|| life_of(directory));
            let lasts = mark.is_some_and(|mark| Some(mark.life) == life);
            let doubts = (!lasts).then(|| (path.clone(), mark.and_then(|mark| mark.since)));
            let job = mark.map(|mark| mark.job);
            self.left.push(ForeignMark { directory: Arc::clone(directory), name, job, is_covered, doubts });
        }
    }

    /// Reads the marks in the root and in the directories above it on the same file system.
    fn look_above(&mut self, root: &TreeRoot) {
        let most = if self.on_network { ABOVE_ON_NETWORK_MAX } else { ABOVE_MAX };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(mut here) = openat(root.fd(), c".", flags, Mode::empty()).map(Arc::new) else { return };
        for _ in 0..=most {
            self.look_into(&here, &EntryPath::root(), false);
            let Ok(above) = openat(&*here, c"..", flags, Mode::empty()).map(Arc::new) else { return };
            let places = (fstat(&*here), fstat(&*above));
            match places {
                (Ok(here), Ok(above)) if here.st_dev == above.st_dev && here.st_ino != above.st_ino => {}
                _ => return,
            }
            here = above;
        }
    }
}

impl ForeignMark {
    /// Returns true if its run holds it locked.
    fn is_in_progress(&self) -> bool {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&*self.directory, OsStr::from_bytes(self.name), flags, Mode::empty());
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
    }

    /// Removes the mark, unless its run is in progress. Returns true if it is gone.
    ///
    /// # Errors
    /// If the mark is gone, but the directory's previous time cannot be restored.
    fn remove(&self) -> Result<bool, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        match openat(&*self.directory, OsStr::from_bytes(self.name), flags, Mode::empty()) {
            Ok(file) => {
                let dead = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
                // Another run may have taken the name meanwhile.
                let there = examine(self.directory.as_fd(), self.name);
                let is_it = there.is_some_and(|mark| mark.map(|mark| mark.job) == self.job);
                if dead && is_it { remove(&self.directory, self.name, &file) } else { Ok(false) }
            }
            Err(Errno::NOENT) => Ok(true),
            Err(_) => Ok(false),
        }
    }
}

/// Creates a mark on stable storage. Returns `None` on file systems in memory, where nothing survives a restart.
fn make(root: &TreeRoot, grant: &Grant, job: &[u8; 32]) -> Result<Option<LockedMark>, Errno> {
    let place = common(&places(grant));
    let directory = Arc::new(open_readable(root, &place)?);
    if stability(directory.as_fd()) == Stability::Memory {
        return Ok(None);
    }
    let life = life_of(&directory).unwrap_or_default();
    let times = fstat(&*directory)?;
    for name in NAMES.iter() {
        let Some((file, mark)) = claim(&directory, name, job, &life)? else { continue };
        // If this fails, the directory looks changed; its final time is set at the end.
        let _ = keep_time(&directory, &times);
        let made = write(&file, &mark).and_then(|()| sync(&file)).and_then(|()| {
            // From now on everybody may read it. Until now its mode helped to distinguish it from a user's file.
            let _ = fchmod(&file, Mode::from_raw_mode(0o644));
            sync(&directory)
        });
        if let Err(errno) = made {
            let _ = remove(&directory, name, &file);
            return Err(errno);
        }
        return Ok(Some(LockedMark { directory, name, file }));
    }
    Err(Errno::EXIST)
}

/// Takes a free name, or that of an earlier run of the same job during this boot and mount. Both then count as one run.
fn claim(
    directory: &Arc<OwnedFd>,
    name: &[u8],
    job: &[u8; 32],
    life: &[u8; 32],
) -> Result<Option<(OwnedFd, RunMark)>, Errno> {
    let name = OsStr::from_bytes(name);
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let new = flags | OFlags::CREATE | OFlags::EXCL;
    let (file, is_new) = match openat(&**directory, name, new, Mode::from_raw_mode(0o600)) {
        Ok(file) => (file, true),
        Err(Errno::EXIST) => match openat(&**directory, name, flags, Mode::empty()) {
            Ok(file) => (file, false),
            Err(_) => return Ok(None),
        },
        Err(errno) => return Err(errno),
    };
    let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
    if !is_new {
        let Some(mark) = read(&file).filter(|mark| mark.job == *job && mark.life == *life) else {
            return Ok(None);
        };
        let is_there = is_at(directory, name.as_bytes(), &file);
        return Ok((locked.is_ok() && is_there && *life != [0; 32]).then_some((file, mark)));
    }
    let found = fstat(&file)?;
    let since = keeps_change_times(directory.as_fd()).then(|| FileTime {
        seconds: (found.st_ctime as i64).saturating_sub(CLOCK_MARGIN_S),
        nanoseconds: 0,
    });
    Ok(Some((file, RunMark { since, job: *job, life: *life })))
}

/// Returns the directories of the grant's paths, and the parents of its files, without paths that only lead to others.
fn places(grant: &Grant) -> Vec<EntryPath> {
    const PLACES_MAX: usize = 64;
    let mut all: Vec<EntryPath> = Vec::new();
    for place in grant.places.iter().take(PLACES_MAX) {
        let leads = |other: &EntryPath| *other != place.path && other.is_within(&place.path);
        if !place.tree && grant.places.iter().take(PLACES_MAX).any(|other| leads(&other.path)) {
            continue;
        }
        let path = match place.tree {
            true => place.path.clone(),
            false => place.path.split_last().map_or_else(EntryPath::root, |(parent, _)| parent),
        };
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

/// Returns the common parent of all paths.
fn common(paths: &[EntryPath]) -> EntryPath {
    let Some((first, others)) = paths.split_first() else { return EntryPath::root() };
    let mut common = first.clone();
    while !others.iter().all(|path| path.is_within(&common)) {
        common = common.split_last().map_or_else(EntryPath::root, |(parent, _)| parent);
    }
    common
}

fn open_readable(root: &TreeRoot, path: &EntryPath) -> Result<OwnedFd, Errno> {
    root.open_beneath(path, OFlags::RDONLY | OFlags::DIRECTORY)
}

/// Returns a value that identifies the machine's boot and the mount, or `None` if it is unknown.
fn life_of(directory: &OwnedFd) -> Option<[u8; 32]> {
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
    let found = statx(directory, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | UNIQUE_MOUNT).ok()?;
    if found.stx_mask & UNIQUE_MOUNT.bits() == 0 {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(&boot).update(&found.stx_mnt_id.to_le_bytes());
    hasher.update(&found.stx_dev_major.to_le_bytes()).update(&found.stx_dev_minor.to_le_bytes());
    Some(*hasher.finalize().as_bytes())
}

/// Flushes a file. Some file systems cannot flush directories or single files, which is no error.
fn sync(file: &OwnedFd) -> Result<(), Errno> {
    match fsync(file) {
        Ok(()) | Err(Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Removes a mark without a trace in the directory's time. Returns true if it is gone.
///
/// # Errors
/// If the mark is gone, but the directory's previous time cannot be restored.
fn remove(directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> Result<bool, Errno> {
    if !is_at(directory, name, file) {
        return Ok(false);
    }
    let Ok(times) = fstat(directory) else { return Ok(false) };
    if unlinkat(directory, OsStr::from_bytes(name), AtFlags::empty()).is_err() {
        return Ok(false);
    }
    keep_time(directory, &times).map(|()| true)
}

/// Restores a directory's time. Only the owner may do this, and only the owner can have set the time.
fn keep_time(directory: &OwnedFd, was: &rustix::fs::Stat) -> Result<(), Errno> {
    let last_access = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
    let last_modification = Timespec { tv_sec: was.st_mtime as _, tv_nsec: was.st_mtime_nsec as _ };
    match futimens(directory, &Timestamps { last_access, last_modification }) {
        Err(Errno::PERM | Errno::ACCESS) if !may_set_times(was.st_uid) => Ok(()),
        other => other,
    }
}

/// Returns true if the name refers to the file.
fn is_at(directory: &OwnedFd, name: &[u8], file: &OwnedFd) -> bool {
    let there = statat(directory, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW);
    matches!((there, fstat(file)), (Ok(there), Ok(file))
        if there.st_dev == file.st_dev && there.st_ino == file.st_ino)
}

fn same(one: &OwnedFd, other: &OwnedFd) -> bool {
    matches!((fstat(one), fstat(other)), (Ok(one), Ok(other))
        if one.st_dev == other.st_dev && one.st_ino == other.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    use hakobu_core::checksum::crc64;
    use hakobu_core::entry::{EntryKind, EntryMetadata};
    use hakobu_core::grant::GrantedPlace;

    use super::*;
    use crate::local::run_mark::{MARK_BYTES, has_mark_name, is_mark};

    const JOB: [u8; 32] = [3; 32];

    /// Returns a directory on a file system that survives a restart.
    fn folder() -> tempfile::TempDir {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target");
        tempfile::tempdir_in(if here.is_dir() { here } else { std::env::temp_dir() }).unwrap()
    }

    fn names(path: &Path) -> Vec<std::ffi::OsString> {
        let mut names: Vec<_> = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    /// Changes the mark of a run that ended uncleanly so that its machine seems to have restarted.
    fn forget_life(path: &Path) {
        for name in names(path) {
            let mut bytes = fs::read(path.join(&name)).unwrap();
            bytes[80] ^= 1;
            let sum = crc64(&bytes[..MARK_BYTES - 8]).to_le_bytes();
            bytes[MARK_BYTES - 8..].copy_from_slice(&sum);
            fs::write(path.join(name), bytes).unwrap();
        }
    }

    #[test]
    fn a_mark_goes_with_its_run_and_leaves_no_trace() {
        let (folder, grant) = (folder(), Grant::everything());
        let root = TreeRoot::open(folder.path()).unwrap();
        if stability(root.fd().as_fd()) == Stability::Memory {
            return;
        }
        let before = folder.path().metadata().unwrap().modified().unwrap();
        let marks = RunMarks::look(&root, &grant);
        assert!(!marks.begin(&root, &grant, &JOB) && !marks.begin(&root, &grant, &JOB));
        assert_eq!(names(folder.path()).len(), 1);
        // A concurrent run has a mark of its own, and neither finds anything doubtful.
        let other = RunMarks::look(&root, &grant);
        assert!(!other.begin(&root, &grant, &[4; 32]) && !other.has_doubts());
        assert_eq!(names(folder.path()).len(), 2);
        other.end(&[4; 32], true, true).unwrap();
        assert_eq!(names(folder.path()).len(), 1, "the run under way keeps its mark");
        marks.end(&JOB, true, true).unwrap();
        assert!(names(folder.path()).is_empty());
        assert_eq!(folder.path().metadata().unwrap().modified().unwrap(), before);
    }

    /// Many processes copy one tree together, each with marks of its leases.
    #[test]
    fn runs_with_parts_of_a_job_have_marks_of_their_own() {
        let (folder, grant) = (folder(), Grant::everything());
        let root = TreeRoot::open(folder.path()).unwrap();
        if stability(root.fd().as_fd()) == Stability::Memory {
            return;
        }
        let job = |lease: u8| {
            let mut job = JOB;
            job[8..16].fill(lease);
            job
        };
        let runs: Vec<_> = (0..20)
            .map(|lease| {
                let marks = RunMarks::look(&root, &grant);
                assert!(!marks.begin(&root, &grant, &job(lease)) && !marks.has_doubts(), "{lease}");
                marks
            })
            .collect();
        // One of them is killed, and its machine as well.
        let place = folder.path().join(OsStr::from_bytes(&NAMES[7]));
        let mut bytes = fs::read(&place).unwrap();
        for (lease, marks) in (0..).zip(runs) {
            if lease != 7 {
                marks.end(&job(lease), true, false).unwrap();
            }
        }
        bytes[80] ^= 1;
        let sum = crc64(&bytes[..MARK_BYTES - 8]).to_le_bytes();
        bytes[MARK_BYTES - 8..].copy_from_slice(&sum);
        fs::write(&place, bytes).unwrap();
        let next = RunMarks::look(&root, &grant);
        assert!(next.has_doubts() && names(folder.path()).len() == 1);
        next.end(&job(21), true, false).unwrap();
        assert!(next.has_doubts(), "not all of the job was examined");
        next.end(&job(21), true, true).unwrap();
        assert!(!next.has_doubts() && names(folder.path()).is_empty());
    }

    #[test]
    fn what_a_killed_run_left_is_doubted_only_if_its_machine_ended_too() {
        let (folder, grant) = (folder(), Grant::everything());
        let root = TreeRoot::open(folder.path()).unwrap();
        if stability(root.fd().as_fd()) == Stability::Memory {
            return;
        }
        let killed = RunMarks::look(&root, &grant);
        killed.begin(&root, &grant, &JOB);
        drop(killed);
        let next = RunMarks::look(&root, &grant);
        let lasts = life_of(root.fd()).is_some();
        assert_eq!(next.has_doubts(), !lasts);
        next.begin(&root, &grant, &[4; 32]);
        next.end(&[4; 32], true, false).unwrap();
        assert_eq!(names(folder.path()).len(), usize::from(!lasts));
        let killed = RunMarks::look(&root, &grant);
        killed.begin(&root, &grant, &JOB);
        drop(killed);
        forget_life(folder.path());
        let next = RunMarks::look(&root, &grant);
        assert!(next.has_doubts());
        let mut file = EntryMetadata {
            ctime: FileTime { seconds: i64::MAX, nanoseconds: 0 },
            ..EntryMetadata::new(EntryKind::File)
        };
        file.doubt(next.doubts(&EntryPath::new("a/b").unwrap()).unwrap());
        assert!(file.doubted);
        if keeps_change_times(root.fd().as_fd()) {
            let mut old = EntryMetadata::new(EntryKind::File);
            old.doubt(next.doubts(&EntryPath::root()).unwrap());
            assert!(!old.doubted, "it was there long before");
        }
        // The mark stays until a run of the same job has compared everything.
        next.end(&[4; 32], true, true).unwrap();
        RunMarks::look(&root, &grant).end(&JOB, true, false).unwrap();
        assert!(RunMarks::look(&root, &grant).has_doubts());
        RunMarks::look(&root, &grant).end(&JOB, true, true).unwrap();
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_mark_above_or_below_counts_and_one_that_is_torn_doubts_everything() {
        let (folder, grant) = (folder(), Grant::everything());
        let deeper = folder.path().join("a/b");
        fs::create_dir_all(&deeper).unwrap();
        let (root, inner) = (TreeRoot::open(folder.path()).unwrap(), TreeRoot::open(&deeper).unwrap());
        let torn = |path: &Path| {
            fs::write(path, [0; MARK_BYTES]).unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        let above = folder.path().join(OsStr::from_bytes(&NAMES[3]));
        torn(&above);
        let marks = RunMarks::look(&inner, &grant);
        assert_eq!(marks.doubts(&EntryPath::root()), Some(None));
        marks.end(&JOB, true, true).unwrap();
        assert!(above.exists(), "what it is about was not looked at");
        fs::remove_file(&above).unwrap();
        torn(&deeper.join(OsStr::from_bytes(&NAMES[0])));
        let marks = RunMarks::look(&root, &grant);
        assert!(!marks.has_doubts() && has_mark_name(&NAMES[0]) && !has_mark_name(b".hakobu.x"));
        let path = EntryPath::new("a/b").unwrap();
        marks.learn(&root, &grant, vec![path.clone()]);
        assert_eq!((marks.doubts(&path), marks.doubts(&EntryPath::root())), (Some(None), None));
        marks.end(&JOB, true, false).unwrap();
        assert_eq!(names(&deeper).len(), 1, "not everything was looked at");
        marks.end(&JOB, true, true).unwrap();
        assert!(names(&deeper).is_empty());
    }

    #[test]
    fn the_name_alone_is_no_proof() {
        let (folder, grant) = (folder(), Grant::everything());
        let root = TreeRoot::open(folder.path()).unwrap();
        let path = folder.path().join(OsStr::from_bytes(&NAMES[0]));
        let is = || is_mark(root.fd(), &NAMES[0]);
        let foreign = || assert!(!is() && !RunMarks::look(&root, &grant).has_doubts());
        foreign();
        let begun = || b"hakob".to_vec();
        for content in
            [b"a user's".to_vec(), Vec::new(), begun(), vec![0; MARK_BYTES], vec![1; MARK_BYTES + 1]]
        {
            fs::write(&path, &content).unwrap();
            foreign();
        }
        // A killed run may have written only a part, and a default access list may remove rights from its mode.
        for (content, mode) in [(begun(), 0o600), (begun(), 0o400), (Vec::new(), 0o200), (Vec::new(), 0)] {
            fs::write(&path, &content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(is() && RunMarks::look(&root, &grant).has_doubts(), "{content:?} {mode:o}");
        }
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        foreign();
        fs::remove_dir(&path).unwrap();
        std::os::unix::fs::symlink("elsewhere", &path).unwrap();
        foreign();
        fs::remove_file(&path).unwrap();
        if stability(root.fd().as_fd()) != Stability::Memory {
            RunMarks::look(&root, &grant).begin(&root, &grant, &JOB);
            assert!(is());
            let mut bytes = fs::read(&path).unwrap();
            bytes[50] ^= 1;
            fs::write(&path, bytes).unwrap();
            assert!(is() && RunMarks::look(&root, &grant).has_doubts(), "it is damaged");
        }
    }

    #[test]
    fn the_mark_is_where_the_next_run_looks() {
        let path = |text: &str| EntryPath::new(text).unwrap();
        let grant = |places: &[(&str, bool)]| Grant {
            places: places.iter().map(|(place, tree)| GrantedPlace::new(path(place), *tree)).collect(),
            ..Grant::everything()
        };
        let place = |places: &[(&str, bool)]| common(&self::places(&grant(places)));
        assert_eq!(place(&[("t", true)]), path("t"));
        assert_eq!(place(&[("t", false), ("t/a", true), ("t/b", false)]), path("t"));
        assert_eq!(place(&[("file", false)]), EntryPath::root());
        assert_eq!(place(&[("t/a", true), ("t/ab", true)]), path("t"));
    }
}
