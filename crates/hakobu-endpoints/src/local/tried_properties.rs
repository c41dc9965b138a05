//! Determines the properties of a file system by testing: the granularity and limits of times, and whether a file can
//! have a second name. The mount type does not tell, because one driver (FUSE) serves many file systems, and ext4 and
//! XFS keep what their inodes have room for.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use hakobu_core::capabilities::Capabilities;
use hakobu_core::entry::FileTime;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, futimens, linkat, openat, unlinkat};
use rustix::io::Errno;

use super::draft_file::create_draft;
use super::draft_name::DraftName;
use super::times::modified;
use super::{file_system, metadata};

/// The known granularities of file times, in nanoseconds.
const STEPS_NS: [u32; 8] = [1, 100, 1_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 2_000_000_000];
/// Times that show the granularity: they are odd in every digit.
const ODD: [FileTime; 2] = [
    FileTime { seconds: 981_173_107, nanoseconds: 123_456_789 },
    FileTime { seconds: 1_234_567_891, nanoseconds: 987_654_321 },
];
/// A time before 1970, for programs that round towards zero.
const ODD_EARLY: FileTime = FileTime { seconds: -1_234_567, nanoseconds: 123_456_789 };
/// A time in seconds beyond every limit.
const FAR_S: i64 = 1 << 40;
/// The known limits in seconds, for file systems that do not return the nearest valid time: 64 bits of 100 ns, 32 bits
/// signed and unsigned, FAT, and some between.
const LAST_S: [i64; 7] =
    [1 << 39, 1 << 36, 15_032_385_535, 1 << 33, u32::MAX as i64, 4_354_819_198, i32::MAX as i64];
const FIRST_S: [i64; 6] = [-1 << 36, -11_644_473_600, i32::MIN as i64, -1, 0, 315_532_800];
/// The time after which no further limits are tested.
const TRYING_LIMIT: Duration = Duration::from_secs(1);
/// The maximum numbers of entries and directories that are read to determine the granularity without writing.
const SEEN_MAX: usize = 64;
const DIRECTORIES_MAX: usize = 8;

/// The properties that were determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TriedProperties {
    pub(crate) step_ns: u32,
    pub(crate) step_before_1970_ns: u32,
    pub(crate) first_s: i64,
    pub(crate) last_s: i64,
    /// True if a second name was refused.
    pub(crate) no_links: bool,
    /// True if the modification time can be set only together with the access time, as with some FUSE programs.
    pub(crate) together: bool,
}

impl TriedProperties {
    /// Adds the properties to the capabilities of an endpoint, which already reflect the type of its file system.
    pub(crate) fn put(self, capabilities: &mut Capabilities) {
        capabilities.time_step_ns = capabilities.time_step_ns.max(self.step_ns);
        capabilities.time_step_before_1970_ns = self.step_before_1970_ns.max(capabilities.time_step_ns);
        (capabilities.time_first_s, capabilities.time_last_s) = (self.first_s, self.last_s);
        capabilities.hard_links &= !self.no_links;
    }
}

/// Tests with a nameless file. If those are not supported, and `draft` allows it, with a file of that name. Returns
/// `None` if no file can be created, or its times cannot be set.
pub(crate) fn by_writing(
    directory: BorrowedFd<'_>,
    draft: Option<[&DraftName; 2]>,
) -> Option<TriedProperties> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(directory, c".", flags, Mode::from_raw_mode(0o600)) {
        Ok(file) => with_file(&file, false),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
            let [name, other] = draft?;
            // The directory's own time must not change.
            let before = metadata::of_path(directory).ok()?;
            let file = create_draft(directory, name).ok()?;
            let linked = linkat(directory, name.as_bytes(), directory, other.as_bytes(), AtFlags::empty());
            let no_links = matches!(
                linked,
                Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK | Errno::INVAL)
            );
            let tried = with_file(&file, no_links);
            drop(file);
            for name in [name, other] {
                let _ = unlinkat(directory, name.as_bytes(), AtFlags::empty());
            }
            // If this fails, the directory is compared with its current time.
            let _ = file_system::give_time_back(directory, &before);
            tried
        }
        Err(_) => None,
    }
}

fn with_file(file: &OwnedFd, no_links: bool) -> Option<TriedProperties> {
    let began = Instant::now();
    let set = |time: FileTime, together: bool| {
        futimens(file, &modified(time, together)).ok()?;
        metadata::of_file(file).ok().map(|found| found.mtime)
    };
    let step_of = |odd: FileTime, together: bool| step_between(odd, set(odd, together)?);
    let together = step_of(ODD[0], false).is_none();
    let mut step_ns = 1;
    for odd in ODD {
        step_ns = step_ns.max(step_of(odd, together)?);
    }
    let step_before_1970_ns = step_of(ODD_EARLY, together).unwrap_or(1_000_000_000).max(step_ns);
    let keep = |time: FileTime| set(time, together);
    let kept = |seconds| keep(FileTime { seconds, nanoseconds: 0 }).map(|time| time.seconds);
    let holds = |seconds: i64| {
        let steps_s = i64::from(step_ns / 1_000_000_000).max(1);
        kept(seconds).is_some_and(|found| found.abs_diff(seconds) < steps_s.unsigned_abs())
    };
    let limit = |far: i64, outward: i64, known: &[i64], none: i64| {
        if holds(far) {
            return none;
        }
        // Most file systems return the nearest valid time.
        if let Some(nearest) = kept(far)
            && nearest.abs() < FAR_S
            && kept(nearest) == Some(nearest)
            && kept(nearest.saturating_add(outward)) == Some(nearest)
        {
            return nearest;
        }
        let mut known = known.iter().take_while(|_| began.elapsed() < TRYING_LIMIT);
        known.find(|seconds| holds(**seconds)).copied().unwrap_or(none)
    };
    let last_s = limit(FAR_S, 1, &LAST_S, i64::MAX);
    let first_s = limit(-FAR_S, -1, &FIRST_S, i64::MIN);
    Some(TriedProperties { step_ns, step_before_1970_ns, first_s, last_s, no_links, together })
}

/// Returns the granularity at which one time has become another. `None` if it is not a known one.
fn step_between(set: FileTime, kept: FileTime) -> Option<u32> {
    if set == kept {
        return Some(1);
    }
    let exact = |time: FileTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let (set, kept) = (exact(set), exact(kept));
    STEPS_NS.into_iter().find(|step| is_multiple(kept, *step) && set.abs_diff(kept) < u128::from(*step))
}

fn is_multiple(exact_ns: i128, step_ns: u32) -> bool {
    exact_ns.rem_euclid(i128::from(step_ns)) == 0
}

/// Adds the granularity of times below directories that are only read to the capabilities.
pub(crate) fn put_seen<'a>(roots: impl IntoIterator<Item = &'a OwnedFd>, capabilities: &mut Capabilities) {
    for root in roots {
        let known = file_system::time_step_ns(root.as_fd());
        let step_ns = match file_system::keeps_unknown_steps(root.as_fd()) {
            true => known.max(step_by_looking(root)),
            false => known,
        };
        let network = file_system::is_network(root.as_fd());
        // Programs may round towards zero, which shows only with a time before 1970.
        let before_1970 = if network { step_ns.max(1_000_000_000) } else { step_ns };
        capabilities.time_step_ns = capabilities.time_step_ns.max(step_ns);
        capabilities.time_step_before_1970_ns = capabilities.time_step_before_1970_ns.max(before_1970);
    }
}

/// Returns the granularity of times in a directory to which nothing is written, in nanoseconds: the largest that all
/// observed times are multiples of. Inode change times come from the clock, so if they differ they show the
/// granularity. Other times may have been set to whole seconds on any file system, but never finer than the file system
/// keeps.
pub(crate) fn step_by_looking(root: &OwnedFd) -> u32 {
    let (mut changed, mut all) = (BTreeSet::new(), Vec::new());
    let mut see = |found: &hakobu_core::entry::EntryMetadata| {
        changed.insert(found.ctime);
        all.extend([found.ctime, found.mtime]);
    };
    let Ok(found) = metadata::of_path(root) else { return 1 };
    see(&found);
    let mut waiting = vec![(c".".to_owned(), None::<OwnedFd>)];
    let mut seen = 0;
    for _ in 0..DIRECTORIES_MAX {
        let Some((name, parent)) = waiting.pop() else { break };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = openat(parent.as_ref().map_or(root.as_fd(), AsFd::as_fd), &name, flags, Mode::empty());
        let Ok(directory) = opened else { continue };
        let Ok(entries) = Dir::read_from(&directory) else { continue };
        for entry in entries.flatten().take(SEEN_MAX) {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") || seen >= SEEN_MAX {
                continue;
            }
            let Ok(found) = metadata::of_name(&directory, name) else { continue };
            seen += 1;
            see(&found);
            if entry.file_type() == FileType::Directory
                && waiting.len() < DIRECTORIES_MAX
                && let Ok(parent) = directory.try_clone()
            {
                waiting.push((name.to_owned(), Some(parent)));
            }
        }
    }
    step_of(&changed, &all)
}

/// Returns the largest granularity of all times, in nanoseconds. `changed` are inode change times, set by the clock.
fn step_of(changed: &BTreeSet<FileTime>, all: &[FileTime]) -> u32 {
    // A single time may be a multiple by chance, but hardly of a large granularity. Times that were set also count as
    // evidence if they are not whole milliseconds: if they are not multiples of a granularity, they exclude it.
    let fine: BTreeSet<_> = all.iter().filter(|time| !time.nanoseconds.is_multiple_of(1_000_000)).collect();
    let least = if changed.len() < 2 && fine.len() < 2 { 1_000_000 } else { 1 };
    let exact = |time: &FileTime| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds);
    let is_step = |step: &u32| all.iter().all(|time| is_multiple(exact(time), *step));
    STEPS_NS.into_iter().rev().take_while(|step| *step >= least).find(is_step).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn at(seconds: i64, nanoseconds: u32) -> FileTime {
        FileTime { seconds, nanoseconds }
    }

    #[test]
    fn a_file_system_of_this_machine_keeps_every_time_and_shows_nothing() {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let directory = File::open(place.path()).unwrap();
        let tried = by_writing(directory.as_fd(), None).unwrap();
        let expected = TriedProperties {
            step_ns: 1,
            step_before_1970_ns: 1,
            first_s: i64::MIN,
            last_s: i64::MAX,
            no_links: false,
            together: false,
        };
        assert_eq!(tried, expected);
        assert_eq!(place.path().read_dir().unwrap().count(), 0);
    }

    #[test]
    fn the_step_is_seen_in_what_was_kept() {
        let set = at(981_173_107, 123_456_789);
        for (kept, step) in [
            (set, Some(1)),
            (at(981_173_107, 123_456_700), Some(100)),
            (at(981_173_107, 123_456_000), Some(1_000)),
            (at(981_173_107, 120_000_000), Some(10_000_000)),
            (at(981_173_107, 0), Some(1_000_000_000)),
            (at(981_173_106, 0), Some(2_000_000_000)),
            (at(981_173_108, 0), Some(1_000_000_000)),
            (at(0, 0), None),
        ] {
            assert_eq!(step_between(set, kept), step, "{kept:?}");
        }
    }

    #[test]
    fn two_times_show_a_small_step_though_nothing_was_changed_twice() {
        // Two entries of one directory, changed at the same moment.
        let (moment, set) = (at(1_795_665_497, 181_752_400), at(1_272_579_745, 578_141_600));
        let named = at(1_000_000_001, 0);
        assert_eq!(step_of(&BTreeSet::from([moment]), &[moment, set, moment, named]), 100);
        assert_eq!(step_of(&BTreeSet::from([moment]), &[moment, named, moment, named]), 1);
        assert_eq!(step_of(&BTreeSet::from([named]), &[named, named]), 1_000_000_000);
    }

    #[test]
    fn what_is_there_shows_the_step_of_its_times() {
        let place = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            File::create(place.path().join(name)).unwrap();
            std::thread::sleep(Duration::from_millis(12));
        }
        let root = OwnedFd::from(File::open(place.path()).unwrap());
        assert_eq!(step_by_looking(&root), 1);
    }
}
