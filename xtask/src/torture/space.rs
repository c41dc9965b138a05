//! The space that a step needs at its target, by the oracle's own sums, compared with what is free there.
//!
//! Data is counted in whole blocks, holes are not. Each sum is a bound: what is called enough is enough with every old
//! entry still beside its new one, and what is called too little is too little even if metadata takes nothing. Nothing
//! is promised in between.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::model::{Name, Time};
use super::promise::Promise;
use super::step::{Step, StepVerb};
use super::walk::{SeenEntry, SeenKind, Snapshot};

#[cfg(test)]
mod tests;

/// The largest block of the small file systems, in bytes. Allocations are counted in these.
const BLOCK_BYTES: u64 = 4096;
/// The unit in which files are written in place.
const PIECE_BYTES: u64 = 256 << 10;
/// The smallest block, in bytes. Zeros are recognized in these.
const UNIT_BYTES: usize = 1024;
/// Inodes for what belongs to no entry: marks and tries.
const SLACK_INODES: u64 = 16;

/// The largest slack of file systems that tell exactly what is free, in bytes.
const EXACT_SLACK_BYTES_MAX: u64 = 1 << 20;

/// Free or needed space of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceAmount {
    /// Bytes.
    pub bytes: u64,
    /// Inodes.
    pub inodes: u64,
}

/// The prospect of a step, as far as space decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceOutlook {
    /// There is enough for everything old and new at once, so nothing may be refused and nothing may fail.
    Enough,
    /// The result fits, but perhaps not beside what it replaces: the run may fail, but must not be refused.
    EnoughAfterwards,
    /// Too close to call.
    Open,
    /// The result cannot fit.
    TooLittle,
}

impl SpaceOutlook {
    /// Returns a name for counting.
    pub fn name(self) -> &'static str {
        match self {
            Self::Enough => "enough",
            Self::EnoughAfterwards => "enough afterwards",
            Self::Open => "open",
            Self::TooLittle => "too little",
        }
    }
}

/// The space that a step needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceDemand {
    /// At most so much while the run goes on, with old and new entries side by side.
    pub at_once: SpaceAmount,
    /// At most so much of it goes to entries that stay, without what they surely replace.
    pub afterwards: SpaceAmount,
    /// At least so much.
    pub at_least: SpaceAmount,
}

/// The bytes of a file that take space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataAmount {
    /// The blocks outside of holes, rounded up.
    pub allocated: u64,
    /// The units that are not all zeros.
    pub nonzero: u64,
    /// The number of ranges between holes.
    pub ranges: u64,
}

impl SpaceDemand {
    /// Compares the demand with what is free. The file system needs up to `slack_bytes` for itself, unless it is one of
    /// those that tell exactly what is free.
    pub fn outlook(&self, free: SpaceAmount, slack_bytes: u64) -> SpaceOutlook {
        let fits = |need: SpaceAmount| {
            need.bytes + slack_bytes <= free.bytes && need.inodes + SLACK_INODES <= free.inodes
        };
        let estimate = if slack_bytes > EXACT_SLACK_BYTES_MAX { slack_bytes } else { 0 };
        if fits(self.at_once) {
            SpaceOutlook::Enough
        } else if fits(self.afterwards) {
            SpaceOutlook::EnoughAfterwards
        } else if self.at_least.bytes > free.bytes + estimate || self.at_least.inodes > free.inodes {
            SpaceOutlook::TooLittle
        } else {
            SpaceOutlook::Open
        }
    }
}

/// Returns what is free on the file system of a path.
pub fn free(place: &Path) -> anyhow::Result<SpaceAmount> {
    let found = rustix::fs::statvfs(place)?;
    // Some file systems have no limit, and report zeros.
    let inodes = if found.f_files == 0 { u64::MAX } else { found.f_favail };
    Ok(SpaceAmount { bytes: found.f_bavail * found.f_frsize, inodes })
}

/// Returns the data of each file of a tree, found by asking for its holes and reading the rest.
pub fn data(root: &Path, tree: &Snapshot) -> anyhow::Result<BTreeMap<Name, DataAmount>> {
    let mut amounts = BTreeMap::new();
    for (path, entry) in tree.iter().filter(|(_, entry)| entry.is_file()) {
        amounts.insert(path.clone(), data_of(&path.below(root), entry.size())?);
    }
    Ok(amounts)
}

fn data_of(place: &Path, size: u64) -> anyhow::Result<DataAmount> {
    let file = File::open(place)?;
    let mut amount = DataAmount::default();
    let (mut at, mut counted_to) = (0, 0);
    let mut buffer = vec![0_u8; 256 << 10];
    while at < size {
        let from = match rustix::fs::seek(&file, SeekFrom::Data(at)) {
            Ok(from) if from < size => from,
            Ok(_) | Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let to = rustix::fs::seek(&file, SeekFrom::Hole(from))?.clamp(from + 1, size);
        amount.ranges += 1;
        // A block that two ranges share counts once.
        let first = (from / BLOCK_BYTES * BLOCK_BYTES).max(counted_to);
        counted_to = to.div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        amount.allocated += counted_to.saturating_sub(first);
        let mut read_to = from / UNIT_BYTES as u64 * UNIT_BYTES as u64;
        while read_to < to {
            let length = file.read_at(&mut buffer, read_to)?;
            if length == 0 {
                break;
            }
            let wanted = &buffer[..length.min((to - read_to) as usize)];
            let units = wanted.chunks(UNIT_BYTES).filter(|unit| unit.iter().any(|byte| *byte != 0));
            amount.nonzero += (units.count() * UNIT_BYTES) as u64;
            read_to += length as u64;
        }
        at = to;
    }
    Ok(amount)
}

/// A step and all that its demand depends on.
#[derive(Debug)]
pub struct SpaceQuestion<'a> {
    /// The step.
    pub step: &'a Step,
    /// Its promise, if nothing fails.
    pub promise: &'a Promise,
    /// The source.
    pub source: &'a Snapshot,
    /// The target before the step.
    pub target: &'a Snapshot,
    /// The data of the files of the source.
    pub data: &'a BTreeMap<Name, DataAmount>,
    /// True if each name of a file takes an inode, as on tmpfs.
    pub names_are_inodes: bool,
}

impl SpaceQuestion<'_> {
    /// Returns the demand of the step.
    pub fn demand(&self) -> SpaceDemand {
        let mut demand = SpaceDemand::default();
        let (mut written, mut present) = (BTreeSet::new(), BTreeSet::new());
        let mut replaced = SpaceAmount::default();
        let links = !self.step.is_without("hardlinks");
        for (path, expected) in &self.promise.entries {
            let Some(entry) = self.source.get(path) else { continue };
            let there = self.target.get(path);
            if there.is_some_and(|there| there.is_file() && there.kind == entry.kind) {
                present.insert(entry.inode);
            }
            if let Some(there) = there.filter(|there| is_left(entry, there, expected.entry.mtime)) {
                // Attributes may still be set, and a name may become a hard link.
                demand.at_once.bytes += if there.xattrs == entry.xattrs { 0 } else { own_bytes(entry) };
                demand.at_once.inodes += xattr_inodes(entry) + u64::from(entry.is_file() && entry.links > 1);
                demand.afterwards.inodes += xattr_inodes(entry);
                continue;
            }
            let is_new = there.is_none();
            let inodes = 1 + xattr_inodes(entry);
            demand.at_once.inodes += inodes;
            demand.afterwards.inodes += if is_new { inodes } else { xattr_inodes(entry) };
            demand.at_once.bytes += own_bytes(entry);
            demand.afterwards.bytes += own_bytes(entry);
            if entry.is_file() {
                let further = links && entry.links > 1 && !written.insert(entry.inode);
                let data = self.data.get(path).copied().unwrap_or_default();
                // In place, holes that are smaller than a piece are written.
                let pieces = match there.is_some() && self.step.in_place {
                    true => (data.ranges * 2 * PIECE_BYTES).min(entry.size().next_multiple_of(BLOCK_BYTES)),
                    false => 0,
                };
                let bytes = data.allocated + pieces + index_bytes(data.ranges);
                if !further {
                    demand.at_once.bytes += bytes;
                    demand.afterwards.bytes += bytes;
                } else if !self.names_are_inodes {
                    demand.at_once.inodes -= inodes;
                    demand.afterwards.inodes -= if is_new { inodes } else { xattr_inodes(entry) };
                }
            }
            // Only a file that has no other name and is not written in place surely gives its space back.
            if let Some(there) = there.filter(|there| there.is_file() && there.links == 1)
                && !self.step.in_place
            {
                replaced.bytes += there.room;
            }
        }
        demand.afterwards.bytes = demand.afterwards.bytes.saturating_sub(replaced.bytes);
        demand.at_least = self.at_least(&present);
        demand
    }

    /// Returns the lower bound: content that is nowhere at the target yet, without everything that may go.
    fn at_least(&self, present: &BTreeSet<(u64, u64)>) -> SpaceAmount {
        let (mut bytes, mut inodes) = (0_u64, 0_u64);
        let mut counted = BTreeSet::new();
        for path in self.promise.entries.keys().filter(|path| !self.target.contains_key(*path)) {
            let is_first = self.source.get(path).is_some_and(|entry| counted.insert(entry.inode));
            inodes += u64::from(is_first);
        }
        counted.clear();
        for (path, expected) in self.promise.entries.iter().filter(|(_, expected)| !expected.free.all) {
            let Some(entry) = self.source.get(path).filter(|entry| entry.is_file()) else { continue };
            // Content that may be left alone need not arrive.
            let may_stay = present.contains(&entry.inode) || !expected.or.is_empty();
            if !may_stay && counted.insert(entry.inode) {
                bytes += self.data.get(path).map_or(0, |data| data.nonzero);
            }
        }
        let removes = self.step.verb == StepVerb::Sync && (self.step.delete || self.step.during);
        for (path, entry) in self.target {
            let stays = self.source.get(path).is_some_and(|new| new.kind == entry.kind);
            if !stays && (removes || self.source.contains_key(path)) {
                let is_deleted = removes && !self.source.contains_key(path);
                inodes = inodes.saturating_sub(u64::from(is_deleted));
                // Allocated space may be reported late.
                bytes = bytes.saturating_sub(entry.room.max(entry.size()));
            }
        }
        SpaceAmount { bytes, inodes }
    }
}

/// Returns true if an entry is left alone, or has its attributes set at most.
fn is_left(entry: &SeenEntry, there: &SeenEntry, mtime: Time) -> bool {
    match (&entry.kind, &there.kind) {
        (SeenKind::Directory, SeenKind::Directory) => true,
        (one, other) => one == other && (there.mtime == mtime || !entry.is_file()),
    }
}

/// Returns the space that an entry takes apart from its data: names, directory blocks, attributes, long links.
fn own_bytes(entry: &SeenEntry) -> u64 {
    let attributes: usize = entry.xattrs.values().map(Vec::len).sum();
    let block = u64::from(!entry.is_file() || attributes > 0) * BLOCK_BYTES;
    // Names take at most 264 bytes each, and directories are split in halves.
    block + 528 + (attributes as u64).div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Returns the inodes that tmpfs counts for attributes and for the name, which is little: 1024 bytes are one inode.
fn xattr_inodes(entry: &SeenEntry) -> u64 {
    entry.xattrs.iter().map(|(name, value)| 2 + (name.0.len() + value.len()) as u64 / 1024).sum()
}

/// Returns the space for the index of a file's ranges.
fn index_bytes(ranges: u64) -> u64 {
    if ranges <= 3 { 0 } else { BLOCK_BYTES + ranges * 48 }
}
