//! Computes the content of a tree from its specification, without disk access.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use rustix::fs::{Timespec, Timestamps};

use super::content::derive;
use super::names;
use super::threads::available_threads;
use crate::MeasureError;
use crate::MeasureResult;

/// The distribution of file sizes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SizeDistribution {
    /// All files have this size in bytes.
    Fixed(u64),
    /// A log-normal distribution, as in home directories: half of the files are smaller than the median, and two
    /// thirds are within a factor of e^`sigma` of it. The mean is `median * e^(sigma² / 2)`.
    LogNormal {
        /// The median size in bytes.
        median_bytes: u64,
        /// The standard deviation of the natural logarithm of the size; 0 to 4.
        sigma: f64,
    },
}

/// The specification of a tree.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeSpec {
    /// The number of regular files, distributed evenly over the directories.
    pub files: u64,
    /// The number of directories with files, besides the root. With 0 all files are in the root, otherwise none are.
    pub directories: u64,
    /// The number of additional, empty directories.
    pub empty_directories: u64,
    /// The number of directories in a directory, at least 1. Directories are filled level by level. 1 results in a
    /// chain, which the path length limits to a few hundred; `directories` or more results in a flat tree.
    pub fanout: u64,
    /// The distribution of file sizes.
    pub size: SizeDistribution,
    /// The compressibility, from 0.0 (random) to 1.0 (zeros); see [`super::Pattern::new`].
    pub compressibility: f64,
    /// Gives every fourth file and every eighth directory a difficult name: invalid UTF-8, line ends, control
    /// characters, a leading dash, 255 bytes…
    pub nasty_names: bool,
    /// Adds one symbolic link per directory, and one more per 20 files in it. Their targets are files, directories,
    /// missing paths and the links themselves.
    pub links: bool,
    /// The number of files with a second hard link, which is in another directory if several directories have files.
    /// At most the number of files.
    pub hard_links: u64,
    /// Gives about a third of the files and directories one to three user extended attributes of up to 199 bytes
    /// each. The file system must support them.
    pub extended_attributes: bool,
    /// The seed of names, sizes, content, modes, times and attributes.
    pub seed: u64,
    /// The number of creating threads; 0 means 1. It does not affect the tree.
    pub threads: usize,
}

impl Default for TreeSpec {
    /// An empty tree with plain names, and 10 KiB per file if there are any.
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

/// The purposes of derived numbers. Each has independent numbers for one seed.
#[derive(Clone, Copy)]
enum NumberPurpose {
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

// Every file is readable by its owner, since a user who is not root must be able to read the tree.
const FILE_MODES: [u32; 8] = [0o644, 0o644, 0o644, 0o600, 0o640, 0o755, 0o444, 0o664];
const DIRECTORY_MODES: [u32; 4] = [0o755, 0o755, 0o750, 0o700];

const LINKS_PER_FILES: u64 = 20;
const LONG_TARGET_BYTES: usize = 1000;

// September 2001 to November 2023. The range excludes the time of generation, so that a copier that loses times is
// detected.
const EARLIEST_SECONDS: u64 = 1_000_000_000;
const SPAN_SECONDS: u64 = 700_000_000;

/// A validated specification and everything that follows from it. Directory 0 is the root, followed by the
/// directories with files and then the empty ones.
pub(super) struct DataPlan<'a> {
    spec: &'a TreeSpec,
}

impl<'a> DataPlan<'a> {
    pub(super) fn new(spec: &'a TreeSpec) -> MeasureResult<Self> {
        let wrong = |text: &str| Err(MeasureError::Specification(text.to_owned()));
        if spec.fanout == 0 {
            return wrong("a directory's fanout must be at least 1");
        }
        // Larger numbers exceed any file system. The limit prevents overflow in the sums below.
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

    fn number(&self, purpose: NumberPurpose, index: u64) -> u64 {
        derive(self.spec.seed, purpose as u64, index)
    }

    /// Returns the number of directories, including the root.
    pub(super) fn directories(&self) -> u64 {
        1 + self.spec.directories + self.spec.empty_directories
    }

    /// Returns the numbers of the directories with files.
    pub(super) fn holders(&self) -> std::ops::Range<u64> {
        match self.spec.directories {
            0 => 0..1,
            count => 1..count + 1,
        }
    }

    /// Returns the numbers of the files in a directory with files.
    pub(super) fn files_in(&self, directory: u64) -> std::ops::Range<u64> {
        let holders = self.holders();
        let count = holders.end - holders.start;
        let (each, more) = (self.spec.files / count, self.spec.files % count);
        let first = |place: u64| place * each + place.min(more);
        let place = directory - holders.start;
        first(place)..first(place + 1)
    }

    /// Returns the directory of a file.
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

    /// Returns a second hard link: the directory and number of the file, and the directory and name of the link.
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
        let number = self.number(NumberPurpose::DirectoryName, directory);
        let child = directory.saturating_mul(self.spec.fanout).saturating_add(1);
        let kind = match child <= self.spec.directories {
            // The longest names are only used for directories without subdirectories, since path lengths are limited.
            true => (number >> 32) % (names::KINDS - 1),
            false => number >> 32,
        };
        match self.spec.nasty_names && number.is_multiple_of(8) {
            true => names::nasty('d', directory, kind),
            false => names::plain('d', directory),
        }
    }

    /// Returns the path of a directory below `root`.
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
        let number = self.number(NumberPurpose::FileName, file);
        match self.spec.nasty_names && number.is_multiple_of(4) {
            true => names::nasty('f', file, number >> 32),
            false => names::plain('f', file),
        }
    }

    pub(super) fn file_size(&self, file: u64) -> u64 {
        match self.spec.size {
            SizeDistribution::Fixed(bytes) => bytes,
            SizeDistribution::LogNormal { median_bytes, sigma } => {
                // The Box-Muller transform of two numbers in (0, 1] to a normal distribution.
                let share = |purpose| {
                    let bits = self.number(purpose, file) >> 11;
                    (bits + 1) as f64 / (1_u64 << 53) as f64
                };
                let radius = (-2.0 * share(NumberPurpose::FileSize).ln()).sqrt();
                let angle = std::f64::consts::TAU * share(NumberPurpose::FileSizeAngle);
                let factor = (sigma * radius * angle.cos()).exp();
                (median_bytes as f64 * factor).round() as u64
            }
        }
    }

    pub(super) fn file_seed(&self, file: u64) -> u64 {
        self.number(NumberPurpose::FileContent, file)
    }

    pub(super) fn file_mode(&self, file: u64) -> u32 {
        choose(&FILE_MODES, self.number(NumberPurpose::FileMode, file))
    }

    pub(super) fn file_times(&self, file: u64) -> Timestamps {
        times(self.number(NumberPurpose::FileTime, file))
    }

    /// Returns the names and values of a file's extended attributes.
    pub(super) fn file_attributes(&self, file: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.attributes(NumberPurpose::FileAttributes, file)
    }

    /// Returns the names and values of a directory's extended attributes.
    pub(super) fn directory_attributes(&self, directory: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
        self.attributes(NumberPurpose::DirectoryAttributes, directory)
    }

    fn attributes(&self, purpose: NumberPurpose, index: u64) -> impl Iterator<Item = (String, Vec<u8>)> {
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
        let number = self.number(NumberPurpose::DirectoryMode, directory);
        choose(&DIRECTORY_MODES, number)
    }

    pub(super) fn directory_times(&self, directory: u64) -> Timestamps {
        times(self.number(NumberPurpose::DirectoryTime, directory))
    }

    /// Returns the number of symbolic links in a directory with files.
    pub(super) fn links_in(&self, directory: u64) -> u64 {
        let files = self.files_in(directory);
        match self.spec.links {
            true => 1 + (files.end - files.start) / LINKS_PER_FILES,
            false => 0,
        }
    }

    /// Returns the name, target and times of a symbolic link in a directory.
    pub(super) fn link(&self, directory: u64, link: u64) -> (OsString, OsString, Timestamps) {
        let name = names::plain('l', link);
        let index = derive(directory, NumberPurpose::LinkTarget as u64, link);
        let number = self.number(NumberPurpose::LinkTarget, index);
        let files = self.files_in(directory);
        // All kinds of target occur in turn, starting with a different one in each directory.
        let target = match directory.wrapping_add(link) % 7 {
            0 | 1 if !files.is_empty() => self.file_name(files.start + number % (files.end - files.start)),
            2 => "..".into(),
            3 => format!("nowhere/{number:016x}").into(),
            4 => format!("/nonexistent/{number:016x}").into(),
            5 => name.clone(),
            6 if self.spec.nasty_names => names::nasty('t', link, number),
            _ => "long/".repeat(LONG_TARGET_BYTES / 5).into(),
        };
        (name, target, times(self.number(NumberPurpose::LinkTime, index)))
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
