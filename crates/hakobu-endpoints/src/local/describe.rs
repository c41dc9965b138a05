//! Describes the entries of a directory: normally one after another, many at a time where a file server makes each
//! request slow, and on several processors for very large directories.

use std::ffi::{CStr, CString};
use std::time::{Duration, Instant};

use hakobu_core::endpoint::Detail;
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::extended::UNREADABLE;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, openat};
use rustix::io::Errno;

use super::extended::{AttributeOwner, ExtendedReader};
use super::file_system::{FUSE, has_change_times, is_network, kind_of};
use super::helpers::{BATCH, DescribedBatch, DescribedEntry, Helpers, TypedNames};
use super::metadata;
use super::thread_budget::many;

/// The number of entries over which the response time is measured.
const WATCHED: u32 = 8;
/// The time per entry above which requests are made in parallel.
const WAITED_FOR: Duration = Duration::from_micros(100);
/// The number of entries from which several processors share the work.
const LARGE: usize = 16_384;
/// The maximum number of names that are collected for a joint request.
const KEPT_MAX: usize = 4096;

/// Receives an entry with its description. Returns false if no further entries are wanted.
type EntrySink<'a> = dyn FnMut(&[u8], DescribedEntry) -> Result<bool> + 'a;

/// Describes the entries of one directory.
pub(super) struct Describer<'a> {
    asker: DescribeParameters<'a>,
    extended: &'a mut ExtendedReader,
    /// The start of the current measurement, and the number of entries in it.
    watched: (Instant, u32),
    /// True if requests are slow, so that they are made in parallel.
    waits: bool,
    /// The number of entries that were described one after another.
    asked: usize,
    helpers: Option<Helpers>,
    kept: Vec<(CString, FileType)>,
    kept_max: usize,
}

impl<'a> Describer<'a> {
    /// Creates a describer for a directory. If it has more than `entries_max` entries, few beyond that are described.
    pub fn new(
        directory: &'a OwnedFd,
        (entries_max, detail): (usize, Detail),
        extended: &'a mut ExtendedReader,
    ) -> Self {
        let asker = DescribeParameters { directory, on: None, of_program: None, detail };
        let kept_max = entries_max.saturating_add(1).min(KEPT_MAX);
        Self {
            asker,
            extended,
            watched: (Instant::now(), 0),
            waits: false,
            asked: 0,
            helpers: None,
            kept: Vec::new(),
            kept_max,
        }
    }

    /// Describes the next entry and passes it to `keep`, possibly later. Returns false if no further entries are
    /// wanted.
    ///
    /// # Errors
    /// Those of `keep`.
    pub fn entry(&mut self, name: &CStr, file_type: FileType, keep: &mut EntrySink<'_>) -> Result<bool> {
        if self.waits {
            self.kept.push((name.to_owned(), file_type));
            return if self.kept.len() < self.kept_max { Ok(true) } else { self.rest(keep) };
        }
        if self.helpers.is_some() {
            self.kept.push((name.to_owned(), file_type));
            return if self.kept.len() < BATCH { Ok(true) } else { self.share(keep) };
        }
        if self.watched.1 == 0 {
            self.watched.0 = Instant::now();
        }
        let described = self.asker.ask(name, file_type, self.extended);
        self.watched.1 += 1;
        if self.watched.1 == WATCHED {
            self.watched.1 = 0;
            self.waits =
                self.watched.0.elapsed() > WAITED_FOR * WATCHED && is_network(self.asker.directory.as_fd());
        }
        self.asked += 1;
        // If only kinds are wanted, no system call is made.
        if self.asked == LARGE && !self.waits && !self.asker.detail.kinds_only {
            self.helpers = self.asker.helpers();
        }
        keep(name.to_bytes(), described)
    }

    /// Hands the collected names over to the helpers, or describes them here if the helpers have enough work.
    fn share(&mut self, keep: &mut EntrySink<'_>) -> Result<bool> {
        let Some(helpers) = &self.helpers else { return Ok(true) };
        let mut found = Vec::new();
        if let Some(names) = helpers.hand_over(std::mem::take(&mut self.kept)) {
            found.push(self.asker.ask_all(names, self.extended));
        }
        found.append(&mut helpers.found());
        keep_all(found, keep)
    }

    /// Describes the names that were kept for later. Returns false if no further entries are wanted.
    ///
    /// # Errors
    /// As for [`Self::entry`].
    pub fn rest(&mut self, keep: &mut EntrySink<'_>) -> Result<bool> {
        if let Some(helpers) = self.helpers.take() {
            let mut found = vec![self.asker.ask_all(std::mem::take(&mut self.kept), self.extended)];
            while let Some(names) = helpers.take_back() {
                found.push(self.asker.ask_all(names, self.extended));
            }
            let (mut theirs, whole) = helpers.end();
            found.append(&mut theirs);
            if !whole {
                return Err(Error::new(
                    ErrorKind::Io,
                    "listing the directory",
                    "a defect in hakobu ended a thread",
                ));
            }
            return keep_all(found, keep);
        }
        let kept = std::mem::take(&mut self.kept);
        let begin = || (self.asker, ExtendedReader::default());
        let described = many(kept.len(), begin, |(asker, extended), index| {
            let (name, file_type) = &kept[index];
            asker.ask(name, *file_type, extended)
        });
        for ((name, _), described) in kept.iter().zip(described) {
            if !keep(name.to_bytes(), described)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Returns the minimal description of an entry that cannot be read: its kind. Returns `None` if even that is unknown.
pub(super) fn undescribed(file_type: FileType) -> Option<EntryMetadata> {
    let kind = metadata::kind(file_type).ok()?;
    Some(EntryMetadata { extended: UNREADABLE, ..EntryMetadata::new(kind) })
}

/// Passes descriptions to `keep`. Returns false if no further entries are wanted.
fn keep_all(found: Vec<DescribedBatch>, keep: &mut EntrySink<'_>) -> Result<bool> {
    for (name, described) in found.into_iter().flatten() {
        if !keep(name.to_bytes(), described)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The parameters for describing all entries of a directory.
#[derive(Clone, Copy, Debug)]
struct DescribeParameters<'a> {
    directory: &'a OwnedFd,
    /// The number of the directory's file system, once it was determined.
    on: Option<u64>,
    /// True if that file system is implemented by another program (FUSE), once it was determined.
    of_program: Option<bool>,
    detail: Detail,
}

impl DescribeParameters<'_> {
    /// Starts helpers that describe entries of the same directory.
    fn helpers(&self) -> Option<Helpers> {
        let (on, of_program, detail) = (self.on, self.of_program, self.detail);
        Helpers::start(|| {
            let directory = self.directory.try_clone().ok()?;
            let mut extended = ExtendedReader::default();
            Some(move |names| {
                DescribeParameters { directory: &directory, on, of_program, detail }
                    .ask_all(names, &mut extended)
            })
        })
    }

    fn ask_all(&mut self, names: TypedNames, extended: &mut ExtendedReader) -> DescribedBatch {
        let ask = |(name, file_type): (CString, FileType)| {
            let described = self.ask(&name, file_type, extended);
            (name, described)
        };
        names.into_iter().map(ask).collect()
    }

    fn ask(&mut self, name: &CStr, file_type: FileType, extended: &mut ExtendedReader) -> DescribedEntry {
        if self.detail.kinds_only
            && let Ok(kind) = metadata::kind(file_type)
        {
            return Ok(EntryMetadata::new(kind));
        }
        let (mut found, on) = match metadata::of_name_on(self.directory, name) {
            Ok(found) => found,
            // A second listing decides whether it is really gone.
            Err(Errno::NOENT) => return Err(Errno::NOENT),
            Err(errno) => return undescribed(file_type).ok_or(errno),
        };
        if found.kind == EntryKind::Directory {
            let here = match self.on {
                Some(here) => here,
                None => *self.on.insert(metadata::file_system_of(self.directory)?),
            };
            found.mount_point = on != here;
            found.lacks_change_times = found.mount_point && lacks_change_times(self.directory, name);
        }
        if found.inode.is_some() {
            let of_program = match self.of_program {
                Some(known) => known,
                None => *self.of_program.insert(kind_of(self.directory.as_fd()) == FUSE),
            };
            found.uncertain = of_program || found.ctime.nanoseconds == 0;
        }
        let Detail { extended: keep, missed, .. } = self.detail;
        if !(keep | missed).is_empty() {
            let place = AttributeOwner::Named(self.directory.as_fd(), name);
            extended.mark(place, keep, missed).put(&mut found);
        }
        Ok(found)
    }
}

/// Returns true if a directory is on a file system that shows other times as those of changes, or if that is not known.
fn lacks_change_times(parent: &OwnedFd, name: &CStr) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(parent, name, flags, Mode::empty()).map_or(true, |opened| !has_change_times(opened.as_fd()))
}
