//! What a tree holds, worked out from its specification without touching a disk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Timespec, Timestamps};

use super::content::derive;
use super::names;
use super::threads::available_threads;
use crate::{Error, Result};

/// How large files are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeDistribution {
    /// All of this many bytes.
    Fixed(u64),
    /// Log-normal, as home directories are: half of the files are smaller than
    /// the median, two thirds within a factor of e^`sigma` of it. The mean is
    /// `median * e^(sigma² / 2)`.
    LogNormal {
        /// The size half of the files stay below.
        median_bytes: u64,
        /// The standard deviation of the size's natural logarithm; 0 to 4.
        sigma: f64,
    },
}

/// What a tree shall be.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeSpec {
    /// How many regular files, spread evenly over the directories.
    pub files: u64,
    /// How many directories hold files, besides the root. With 0 all files are
    /// in the root, else none is.
    pub directories: u64,
    /// How many further directories hold nothing.
    pub empty_directories: u64,
    /// How many directories a directory holds, at least 1: directories are
    /// filled level by level. 1 is a chain, which path lengths bound to a few
    /// hundred; `directories` or more is flat.
    pub fanout: u64,
    /// How large the files are.
    pub size: SizeDistribution,
    /// From 0.0 (random) to 1.0 (zeros); see [`super::Pattern::new`].
    pub compressibility: f64,
    /// Makes every fourth file's and every eighth directory's name a nasty one:
    /// not UTF-8, line ends, control characters, a leading dash, 255 bytes…
    pub nasty_names: bool,
    /// Adds one symbolic link per directory and one more for every 20 files in
    /// it: to files, to directories, to nothing, to themselves.
    pub links: bool,
    /// How many files have a second name; in another directory where several hold files. At most as many as there
    /// are files.
    pub hard_links: u64,
    /// Gives about a third of the files and directories one to three attributes of users, of up to 199 bytes each. The
    /// file system must be able to hold them.
    pub extended_attributes: bool,
    /// What names, sizes, content, modes, times and attributes follow from.
    pub seed: u64,
    /// How many threads create; 0 is taken as 1. Does not change the tree.
    pub threads: usize,
}

impl Default for TreeSpec {
    /// An empty tree of plain names, 10 KiB a file once there are any.
    fn default() -> Self {
        Self {
            files: 0,
            directories: 0,
            empty_directories: 0,
            fanout: 32,
            size: SizeDistribution::Fixed(10 * 1024),
            compressibility: 0.0,
            nasty_names: false,
            links: false,
            hard_links: 0,
            extended_attributes: false,
            seed: 1,
            threads: available_threads(),
        }
    }
}

/// What derived numbers are for; one seed gives independent ones for each.
#[derive(Clone, Copy)]
enum Purpose {
    FileContent = 1,
    FileSize,
    FileSizeAngle,
    FileName,
    FileMode,
    FileTime,
    DirectoryName,
    DirectoryMode,
    DirectoryTime,
    LinkTime,
    LinkTarget,
    FileAttributes,
    DirectoryAttributes,
}

// Every file is writable or readable by its owner: a tree that its maker cannot
// read again would be of no use to a user who is not root.
const FILE_MODES: [u32; 8] = [0o644, 0o644, 0o644, 0o600, 0o640, 0o755, 0o444, 0o664];
const DIRECTORY_MODES: [u32; 4] = [0o755, 0o755, 0o750, 0o700];

const LINKS_PER_FILES: u64 = 20;
const LONG_TARGET_BYTES: usize = 1000;

// September 2001 to November 2023: unlike the time of generation, so that a
// copier that loses times is caught.
const EARLIEST_SECONDS: u64 = 1_000_000_000;
const SPAN_SECONDS: u64 = 700_000_000;

/// A specification that has been checked, and all that follows from it.
/// Directory 0 is the root; then come those with files, then the empty ones.
pub(super) struct Plan<'a> {
    spec: &'a TreeSpec,
}

impl<'a> Plan<'a> {
    pub(super) fn new(spec: &'a TreeSpec) -> Result<Self> {
        let wrong = |text: &str| Err(Error::Specification(text.to_owned()));
        if spec.fanout == 0 {
            return wrong("a directory's fanout must be at least 1");
        }
        // Numbers beyond any file system, so that sums below cannot overflow.
        if [spec.files, spec.directories, spec.empty_directories].iter().any(|count| *count > 1 << 40) {
            return wrong("more than 2^40 files or directories");
        }
        if spec.hard_links > spec.files {
            return wrong("more files with a second name than files");
        }
        if let SizeDistribution::LogNormal { sigma, .. } = spec.size
            && !(0.0..=4.0).contains(&sigma)
        {
            return wrong("sigma must be from 0 to 4");
        }
        Ok(Self { spec })
    }

    fn number(&self, purpose: Purpose, index: u64) -> u64 {
        derive(self.spec.seed, purpose as u64, index)
    }

    /// All directories, the root included.
    pub(super) fn directories(&self) -> u64 {
        1 + self.spec.directories + self.spec.empty_directories
    }

    /// The directories that hold files; with numbers from this range.
    pub(super) fn holders(&self) -> std::ops::Range<u64> {
        match self.spec.directories {
            0 => 0..1,
            count => 1..count + 1,
        }
    }

    /// The numbers of the files in a directory that holds files.
    pub(super) fn files_in(&self, directory: u64) -> std::ops::Range<u64> {
        let holders = self.holders();
        let count = holders.end - holders.start;
        let (each, more) = (self.spec.files / count, self.spec.files % count);
        let first = |place: u64| place * each + place.min(more);
        let place = directory - holders.start;
        first(place)..first(place + 1)
    }

    /// The directory that holds a file.
    pub(super) fn holder(&self, file: u64) -> u64 {
        let holders = self.holders();
        let count = holders.end - holders.start;
        let (each, more) = (self.spec.files / count, self.spec.files % count);
        let larger = more * (each + 1);
        let place = match file.checked_sub(larger) {
            None => file / (each + 1),
            Some(rest) => more + rest / each,
        };
        holders.start + place
    }

    /// A file with a second name: its directory and number, and where the second name is and what.
    pub(super) fn hard_link(&self, link: u64) -> (u64, u64, u64, OsString) {
        let file = (u128::from(link) * u128::from(self.spec.files) / u128::from(self.spec.hard_links)) as u64;
        let (holders, holder) = (self.holders(), self.holder(file));
        let other = if holder + 1 == holders.end { holders.start } else { holder + 1 };
        (holder, file, other, names::plain('h', link))
    }

    fn parent(&self, directory: u64) -> u64 {
        match directory.checked_sub(1 + self.spec.directories) {
            Some(empty) => empty % (1 + self.spec.directories),
            None => (directory - 1) / self.spec.fanout,
        }
    }

    fn directory_name(&self, directory: u64) -> OsString {
        let number = self.number(Purpose::DirectoryName, directory);
        let child = directory.saturating_mul(self.spec.fanout).saturating_add(1);
        let kind = match child <= self.spec.directories {
            // Long names only where nothing is below: path lengths are limited.
            true => (number >> 32) % (names::KINDS - 1),
            false => number >> 32,
        };
        match self.spec.nasty_names && number.is_multiple_of(8) {
            true => names::nasty('d', directory, kind),
            false => names::plain('d', directory),
        }
    }

    /// A directory's path below `root`.
    pub(super) fn directory_path(&self, root: &Path, directory: u64) -> PathBuf {
        let mut names = Vec::new();
        let mut at = directory;
        while at > 0 {
            names.push(self.directory_name(at));
            at = self.parent(at);
        }
        let mut path = root.to_path_buf();
        path.extend(names.iter().rev());
        path
    }

    pub(super) fn file_name(&self, file: u64) -> OsString {
        let number = self.number(Purpose::FileName, file);
        match self.spec.nasty_names && number.is_multiple_of(4) {
            true => names::nasty('f', file, number >> 32),
            false => names::plain('f', file),
        }
    }

    pub(super) fn file_size(&self, file: u64) -> u64 {
        match self.spec.size {
            SizeDistribution::Fixed(bytes) => bytes,
            SizeDistribution::LogNormal { median_bytes, sigma } => {
                // Box and Muller's normal from two numbers in (0, 1].
                let share = |purpose| {
                    let bits = self.number(purpose, file) >> 11;
                    (bits + 1) as f64 / (1_u64 << 53) as f64
                };
                let radius = (-2.0 * share(Purpose::FileSize).ln()).sqrt();
                let angle = std::f64::consts::TAU * share(Purpose::FileSizeAngle);
                let factor = (sigma * radius * angle.cos()).exp();
                (median_bytes as f64 * factor).round() as u64
            }
        }
    }

    pub(super) fn file_seed(&self, file: u64) -> u64 {
        self.number(Purpose::FileContent, file)
    }

    pub(super) fn file_mode(&self, file: u64) -> u32 {
        choose(&FILE_MODES, self.number(Purpose::FileMode, file))
    }

    pub(super) fn file_times(&self, file: u64) -> Timestamps {
        times(self.number(Purpose::FileTime, file))
    }

    /// Names and values of a file's attributes.
    pub(super) fn file_attributes(&self, file: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.attributes(Purpose::FileAttributes, file)
    }

    /// Names and values of a directory's attributes.
    pub(super) fn directory_attributes(&self, directory: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.attributes(Purpose::DirectoryAttributes, directory)
    }

    fn attributes(&self, purpose: Purpose, index: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
        let number = self.number(purpose, index);
        let count = match self.spec.extended_attributes && number.is_multiple_of(3) {
            true => 1 + (number >> 8) % 3,
            false => 0,
        };
        (0..count).map(move |attribute| {
            let bytes = derive(number, purpose as u64, attribute);
            let words =
                (0..(bytes % 200).div_ceil(8)).map(move |word| derive(bytes, attribute, word).to_le_bytes());
            let mut value: Vec<u8> = words.flatten().collect();
            value.truncate((bytes % 200) as usize);
            (format!("user.hakobu{attribute}"), value)
        })
    }

    pub(super) fn directory_mode(&self, directory: u64) -> u32 {
        let number = self.number(Purpose::DirectoryMode, directory);
        choose(&DIRECTORY_MODES, number)
    }

    pub(super) fn directory_times(&self, directory: u64) -> Timestamps {
        times(self.number(Purpose::DirectoryTime, directory))
    }

    /// How many symbolic links a directory that holds files has.
    pub(super) fn links_in(&self, directory: u64) -> u64 {
        let files = self.files_in(directory);
        match self.spec.links {
            true => 1 + (files.end - files.start) / LINKS_PER_FILES,
            false => 0,
        }
    }

    /// Name, target and times of one of a directory's links.
    pub(super) fn link(&self, directory: u64, link: u64) -> (OsString, OsString, Timestamps) {
        let name = names::plain('l', link);
        let index = derive(directory, Purpose::LinkTarget as u64, link);
        let number = self.number(Purpose::LinkTarget, index);
        let files = self.files_in(directory);
        // All kinds take turns, beginning at another in each directory.
        let target = match directory.wrapping_add(link) % 7 {
            0 | 1 if !files.is_empty() => self.file_name(files.start + number % (files.end - files.start)),
            2 => "..".into(),
            3 => format!("nowhere/{number:016x}").into(),
            4 => format!("/nonexistent/{number:016x}").into(),
            5 => name.clone(),
            6 if self.spec.nasty_names => names::nasty('t', link, number),
            _ => "long/".repeat(LONG_TARGET_BYTES / 5).into(),
        };
        (name, target, times(self.number(Purpose::LinkTime, index)))
    }
}

fn choose(values: &[u32], number: u64) -> u32 {
    let place = (number % values.len() as u64) as usize;
    values.get(place).copied().unwrap_or(0o755)
}

fn times(number: u64) -> Timestamps {
    let seconds = EARLIEST_SECONDS + (number >> 32) % SPAN_SECONDS;
    let time = Timespec {
        tv_sec: seconds.cast_signed(),
        tv_nsec: ((number & 0xffff_ffff) % 1_000_000_000).cast_signed(),
    };
    Timestamps { last_access: time, last_modification: time }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
