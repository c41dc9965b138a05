//! The exchange of work between runs of the engine that copy one tree together.
//!
//! Each run begins with a part of the tree, and gives away what waits while others are idle or it has enough. Nobody waits for
//! anybody: what was given away belongs to whoever begins with it next. All paths are below the roots of the whole run, so the
//! endpoints, the filter and the options of the job are those of the run, whatever a single engine begins with.
//!
//! A directory below which something was given away is *open*: its attributes are not set, because another run still writes
//! into it or below it. It is passed on as a [`DirectoryEnd`]. Once everything else is done, runs begin with these ends, the
//! deepest first.
//!
//! The results of a run count only if it ended without a fatal error. Otherwise what it was given has to be begun again, and
//! what it gave away must be forgotten.

use crate::entry::{Attributes, FileTime, Inode};
use crate::error::Error;
use crate::extent::Extent;
use crate::open_file::{OpenFileEnd, OpenFileRange, OpenLargeFile};
use crate::path::EntryPath;
use crate::target_lease::TargetLease;

/// The place where a run takes work from, and to which it gives work. Its methods are called by several lanes at a time, and
/// must not block.
pub trait WorkExchange: Sync {
    /// Returns the shares that the run begins with; `None` stands for the items of its job. Called once.
    fn begin(&self) -> Option<Vec<WorkShare>>;

    /// Returns how much of the waiting work is wanted. `entries` and `bytes` is what the run has found so far. Called before a
    /// lane scans directories, and a few times a second.
    fn demand(&self, entries: u64, bytes: u64) -> WorkDemand;

    /// Takes directories that no lane has begun, those nearest to the root first.
    fn give(&self, shares: Vec<DirectoryShare>);

    /// Returns how much of the files that wait in large directories is wanted. `entries` is what the run has found so far.
    /// Called when directories are asked for, and after each page of a directory.
    fn slice_demand(&self, entries: u64) -> WorkDemand;

    /// Takes slices of directories.
    fn give_slices(&self, slices: Vec<DirectorySlice>);

    /// Returns true if names of files with further names are given away instead of being copied. Without this, names become
    /// hard links only to names that the same run copies.
    fn takes_names(&self) -> bool;

    /// Takes names of files with further names.
    fn give_names(&self, names: Vec<NameShare>);

    /// Returns the length in bytes of the ranges in which the rest of a large file is wanted, of which `left_bytes` have not been
    /// begun; `None` if it is not wanted. Called before a lane takes a chunk. An exchange that wants ranges has to take them.
    fn range_bytes(&self, left_bytes: u64) -> Option<u64> {
        let _ = left_bytes;
        None
    }

    /// Takes a file that stays open, with the ranges of it that no lane has begun. All others are on stable storage.
    fn give_ranges(&self, file: OpenLargeFile, ranges: Vec<Extent>) {
        drop((file, ranges));
    }

    /// Takes the reason for which a range of an open file, with which the run began, cannot be copied. It is counted when the file
    /// ends.
    fn tear(&self, file: &OpenLargeFile, error: Error) {
        let _ = (file, error);
    }

    /// Takes the ends of directories that stay open. Everything that the run itself does in and below them is done.
    fn leave_open(&self, directories: Vec<DirectoryEnd>);

    /// Returns the lease of what the run begins with. Once it is over, the run changes nothing more and ends with an error.
    fn lease(&self) -> &TargetLease;

    /// Returns true if all of the job has been copied with this run, and nothing has failed in any run. Marks of unclean ends
    /// are then removed. Called at the end of the run.
    fn completes(&self) -> bool {
        false
    }
}

/// The part of a run's waiting directories that is to be given away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkDemand {
    /// None.
    Nothing,
    /// Half of them, because others are idle.
    Half,
    /// All of them, because the run has enough or is to end.
    All,
}

/// Work that a run can begin with. A run begins with shares of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkShare {
    /// A directory, with everything below it.
    Directory(DirectoryShare),
    /// Entries of a directory that has many.
    Slice(DirectorySlice),
    /// One name of a file. To become one file at the target, all of its names have to be in one run.
    Name(NameShare),
    /// The attributes of a directory. They are set in the order of the shares.
    End(DirectoryEnd),
    /// An entry that is to be copied by itself, such as one that failed in an earlier run.
    Entry(EntryShare),
    /// A range of an open file.
    Range(OpenFileRange),
    /// The last step of an open file.
    File(OpenFileEnd),
}

/// An entry that the user named, or one below, with everything below it. It is counted as scanned by the run that begins with
/// it, and the directory that it is in gets its attributes again. If the source no longer has it, it fails, unless a job that
/// counts what is to be removed ([`Removal::Count`](crate::job::Removal::Count)) takes it for that. Runs at the same time must
/// not have one below another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryShare {
    /// The index of the source's root.
    pub root: u16,
    /// The entry below that root.
    pub source: EntryPath,
}

/// The place of an entry at both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharePlace {
    /// The index of the source's root.
    pub root: u16,
    /// The entry below that root.
    pub source: EntryPath,
    /// The place below the target's root.
    pub target: EntryPath,
    /// The number of leading names of `target` that belong to the directory or entry that the user named. Filter rules are
    /// relative to it.
    pub top_names: u16,
}

/// A directory that is given away with everything below it. It has been found, filtered and counted as scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryShare {
    /// The directory.
    pub place: SharePlace,
    /// True if it is certain that the directories above it are those that were copied last. Without this, old times of the
    /// entries in it prove nothing.
    pub is_above_settled: bool,
}

/// Entries of one directory that are given away by their names, because many wait to be copied. They have been found, filtered
/// and counted as scanned, and their names can be told apart at the target. They belong to this slice alone, and their
/// directory is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectorySlice {
    /// The directory.
    pub place: SharePlace,
    /// The names of the entries, which are those at both ends. At most [`SLICE_NAMES_MAX`].
    pub names: Vec<Vec<u8>>,
}

/// The maximum number of names in a slice.
pub const SLICE_NAMES_MAX: usize = 250;

/// A name of a file with further names. It has been found, filtered and counted as scanned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameShare {
    /// The name.
    pub place: SharePlace,
    /// The file at the source.
    pub inode: Inode,
    /// The size of the file in bytes.
    pub size_bytes: u64,
    /// The number of its names, inside and outside of the tree.
    pub links: u32,
}

/// The last step of a directory below which something was given away: it gets its attributes, and is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEnd {
    /// The directory.
    pub place: SharePlace,
    /// The attributes that it has at the source.
    pub attributes: Attributes,
    /// The result that it counts as; `None` if it is among the failures.
    pub outcome: Option<DirectoryOutcome>,
    /// True if its attributes are set even if the target shows the same.
    pub is_touched: bool,
    /// True if its extended attributes are set as well.
    pub extended: bool,
    /// True if the time of the upload of its attributes will prove that everything below it was examined.
    pub is_unproven: bool,
    /// True if nothing below it failed. Each run tells this only of itself: if anything failed in any of them, it has to be
    /// set to false. What is unproven is then left as it is.
    pub is_examined: bool,
    /// The time of the last change of the source's directory when it was listed, if its upload must prove something.
    pub listed_ctime: Option<FileTime>,
    /// True if entries of it were given away by their names: slices, names of files with further names, and ranges of large files.
    /// Whoever copied them has not listed it, so drafts that a run has left there are looked for in the end.
    pub has_slices: bool,
}

/// The result for a directory that the source has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryOutcome {
    /// The target did not have it.
    Created,
    /// It replaced something else.
    Updated,
    /// Its attributes differed.
    AttributesOnly,
    /// It was equal.
    Unchanged,
}
