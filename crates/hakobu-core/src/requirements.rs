//! Checks, from the capabilities of both ends and before any data is transferred, whether a job is possible and what
//! cannot be kept.

use crate::capabilities::Capabilities;
use crate::error::{Error, ErrorKind};
use crate::extended::Classes;
use crate::job::{Job, Update};
use crate::losses::LossKind;
use crate::times::year_of;

/// A capability that a job needs from its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeededCapability {
    /// `--one-file-system`: the source must distinguish file systems.
    FileSystems,
    /// `--verify medium`: the target must read past its caches.
    Medium,
    /// `--in-place`: the target must change files in place.
    InPlace,
    /// `--by-name`: both ends must resolve the names of accounts.
    AccountNames,
    /// `--compress`: both ends must support compressed content.
    Compression,
    /// Passes over a source in use: both ends must hash content locally.
    Passes,
    /// `--require`: the target must keep it.
    Kept(LossKind),
    /// `--require`: the source must report it.
    Shown(LossKind),
}

/// A capability that an end of a job lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissingCapability {
    /// The required capability.
    pub need: NeededCapability,
    /// True if the target lacks it, false if the source does.
    pub is_target: bool,
}

impl MissingCapability {
    fn source(need: NeededCapability) -> Self {
        Self { need, is_target: false }
    }

    fn target(need: NeededCapability) -> Self {
        Self { need, is_target: true }
    }

    /// Returns the first of the two ends that lacks a capability needed at both.
    fn of_both(need: NeededCapability, source: bool, target: bool) -> Result<(), Self> {
        match (source, target) {
            (false, _) => Err(Self::source(need)),
            (true, false) => Err(Self::target(need)),
            (true, true) => Ok(()),
        }
    }

    /// Returns the error. `end` is a name for that kind of end, such as `an sftp server`.
    pub fn error(self, end: &str) -> Error {
        let (kind, words) = match self.need {
            NeededCapability::FileSystems => {
                (ErrorKind::Usage, format!("--one-file-system: {end} does not tell file systems apart"))
            }
            NeededCapability::Medium => (
                ErrorKind::Usage,
                format!("--verify medium: {end} does not read what was written past its cache"),
            ),
            NeededCapability::InPlace => {
                (ErrorKind::Usage, format!("--in-place: {end} replaces files and does not change them"))
            }
            NeededCapability::AccountNames => {
                (ErrorKind::Usage, format!("--by-name: {end} does not tell the names of users and groups"))
            }
            NeededCapability::Compression => {
                (ErrorKind::Usage, format!("--compress zstd: {end} does not decompress"))
            }
            NeededCapability::Passes => (
                ErrorKind::Usage,
                format!(
                    "passes over a source in use compare content at both ends, and {end} does not hash it"
                ),
            ),
            NeededCapability::Kept(kind) => {
                (ErrorKind::Requirement, format!("--require {}: {end} cannot keep it", kind.name()))
            }
            NeededCapability::Shown(kind) => {
                (ErrorKind::Requirement, format!("--require {}: {end} does not show it", kind.name()))
            }
        };
        Error::new(kind, "copying", words)
    }
}

impl Job {
    /// Checks that the job is possible between these ends.
    ///
    /// Problems of single entries, such as an owner that may not be set, are only detected when those are copied.
    ///
    /// # Errors
    /// The first capability that an end lacks.
    pub fn fit(&self, source: &Capabilities, target: &Capabilities) -> Result<(), MissingCapability> {
        if self.one_file_system && !source.tells_file_systems {
            return Err(MissingCapability::source(NeededCapability::FileSystems));
        }
        if self.verify_medium && !target.reads_medium {
            return Err(MissingCapability::target(NeededCapability::Medium));
        }
        if self.update == Update::InPlace && !target.writes_in_place {
            return Err(MissingCapability::target(NeededCapability::InPlace));
        }
        if self.by_name {
            MissingCapability::of_both(
                NeededCapability::AccountNames,
                source.account_names,
                target.account_names,
            )?;
        }
        if self.compression.is_asked_for() {
            MissingCapability::of_both(NeededCapability::Compression, source.compresses, target.compresses)?;
        }
        let keeps = |kind| match kind {
            LossKind::Owner => target.owners,
            LossKind::HardLinks => target.hard_links,
            LossKind::Holes => !target.fills_holes,
            LossKind::Times => target.keeps_times,
            _ => true,
        };
        if let Some(&kind) = self.require.iter().find(|kind| !keeps(**kind)) {
            return Err(MissingCapability::target(NeededCapability::Kept(kind)));
        }
        match self.require.iter().find(|kind| !shows(source, **kind)) {
            Some(&kind) => Err(MissingCapability::source(NeededCapability::Shown(kind))),
            None => Ok(()),
        }
    }
}

/// Checks that passes over a source in use are possible between these ends.
///
/// # Errors
/// The end that cannot hash content.
pub fn fits_passes(source: &Capabilities, target: &Capabilities) -> Result<(), MissingCapability> {
    MissingCapability::of_both(NeededCapability::Passes, source.hashes, target.hashes)
}

/// Returns true if a source reports this property of an entry, which could be lost.
fn shows(source: &Capabilities, kind: LossKind) -> bool {
    match kind {
        LossKind::Acl | LossKind::Xattr | LossKind::Flags => !source.extended.is_empty(),
        LossKind::HardLinks => source.inodes || source.tells_links,
        LossKind::Holes => source.inodes,
        LossKind::Owner | LossKind::SetId | LossKind::Times => true,
    }
}

/// Returns a description of what a source does not report.
pub fn not_shown(source: &Capabilities) -> Vec<String> {
    let mut missing = Vec::new();
    missing.extend(finer_times(source));
    missing.extend(attributes(source));
    if !source.inodes && !source.tells_links {
        missing.push("hard links".to_owned());
    }
    if !source.special_files {
        missing.push("device nodes".to_owned());
    }
    missing
}

/// Returns a description of what cannot be kept at a target. With `durable`, data must be on stable storage in the end.
pub fn not_kept(target: &Capabilities, durable: bool) -> Vec<String> {
    let mut lost = Vec::new();
    let times: Vec<_> = finer_times(target).into_iter().chain(times_beyond(target)).collect();
    if !times.is_empty() {
        lost.push(times.join(", and "));
    }
    lost.extend(attributes(target));
    let abilities = [
        (target.keeps_times, "times of the last change"),
        (target.modes, "permissions"),
        (target.directories, "empty directories"),
        (target.special_files, "device nodes and named pipes"),
        (target.owners, "owners"),
        (target.hard_links, "hard links"),
        (!target.fills_holes, "holes"),
        (target.symlinks, "symbolic links"),
        (target.sets_links || !target.symlinks, "times of symbolic links"),
        (target.replaces_in_one_step, "replacing a file in one step"),
        // An object store has all the room there is.
        (target.tells_room || target.shared_names, "the reason why a write fails"),
        (target.flushes || !durable, "certainty that it is on stable storage"),
    ];
    lost.extend(abilities.iter().filter(|(able, _)| !able).map(|(_, words)| (*words).to_owned()));
    lost
}

fn attributes(able: &Capabilities) -> Option<String> {
    (able.extended == Classes::NONE).then(|| "extended attributes and access lists".to_owned())
}

fn finer_times(able: &Capabilities) -> Option<String> {
    match able.time_step_ns {
        0..=1 => None,
        1_000_000_000 => Some("fractions of a second".to_owned()),
        step_ns @ ..1_000_000_000 => Some(format!("times finer than {step_ns} ns")),
        step_ns => Some(format!("times finer than {} s", f64::from(step_ns) / 1e9)),
    }
}

/// Describes the times that cannot be stored, by the years that are not fully covered.
fn times_beyond(able: &Capabilities) -> Option<String> {
    let first = (able.time_first_s > i64::MIN).then(|| {
        let (year, before) = (year_of(able.time_first_s), year_of(able.time_first_s.saturating_sub(1)));
        if year == before { year + 1 } else { year }
    });
    let last = (able.time_last_s < i64::MAX).then(|| {
        let (year, behind) = (year_of(able.time_last_s), year_of(able.time_last_s.saturating_add(1)));
        if year == behind { year - 1 } else { year }
    });
    match (first, last) {
        (Some(first), Some(last)) => Some(format!("times before {first} and after {last}")),
        (Some(first), None) => Some(format!("times before {first}")),
        (None, Some(last)) => Some(format!("times after {last}")),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Compression;

    /// Returns capabilities of an end that supports very little.
    fn poor() -> Capabilities {
        Capabilities {
            extended: Classes::NONE,
            time_step_ns: 1_000_000_000,
            time_first_s: 0,
            time_last_s: u32::MAX.into(),
            hard_links: false,
            inodes: false,
            special_files: false,
            sets_links: false,
            tells_file_systems: false,
            account_names: false,
            writes_in_place: false,
            replaces_in_one_step: false,
            hashes: false,
            reads_medium: false,
            flushes: false,
            tells_room: false,
            compresses: false,
            ..Capabilities::posix(false)
        }
    }

    #[test]
    fn each_need_is_asked_of_the_end_that_has_to_meet_it() {
        let (poor, rich) = (poor(), Capabilities::unlimited());
        let job = Job::default;
        let require = |kind| Job { require: vec![kind], ..job() };
        let source = [
            (Job { one_file_system: true, ..job() }, NeededCapability::FileSystems),
            (Job { by_name: true, ..job() }, NeededCapability::AccountNames),
            (Job { compression: Compression::Adapted, ..job() }, NeededCapability::Compression),
            (require(LossKind::Acl), NeededCapability::Shown(LossKind::Acl)),
            (require(LossKind::Xattr), NeededCapability::Shown(LossKind::Xattr)),
            (require(LossKind::Flags), NeededCapability::Shown(LossKind::Flags)),
            (require(LossKind::Holes), NeededCapability::Shown(LossKind::Holes)),
            (require(LossKind::HardLinks), NeededCapability::Shown(LossKind::HardLinks)),
        ];
        for (job, need) in source {
            assert_eq!(job.fit(&poor, &rich), Err(MissingCapability { need, is_target: false }), "{need:?}");
            assert_eq!(job.fit(&rich, &rich), Ok(()), "{need:?}");
        }
        let target = [
            (Job { verify_medium: true, ..job() }, NeededCapability::Medium),
            (Job { update: Update::InPlace, ..job() }, NeededCapability::InPlace),
            (Job { by_name: true, ..job() }, NeededCapability::AccountNames),
            (Job { compression: Compression::Level(3), ..job() }, NeededCapability::Compression),
            (require(LossKind::Owner), NeededCapability::Kept(LossKind::Owner)),
            (require(LossKind::HardLinks), NeededCapability::Kept(LossKind::HardLinks)),
        ];
        for (job, need) in target {
            assert_eq!(job.fit(&rich, &poor), Err(MissingCapability { need, is_target: true }), "{need:?}");
            assert_eq!(job.fit(&rich, &rich), Ok(()), "{need:?}");
        }
        for job in [job(), Job { update: Update::Changes, ..job() }, require(LossKind::Times)] {
            assert_eq!(job.fit(&poor, &poor), Ok(()), "{job:?}");
        }
        assert_eq!(
            fits_passes(&rich, &poor),
            Err(MissingCapability { need: NeededCapability::Passes, is_target: true })
        );
        assert_eq!(
            fits_passes(&poor, &rich),
            Err(MissingCapability { need: NeededCapability::Passes, is_target: false })
        );
        assert_eq!(fits_passes(&rich, &rich), Ok(()));
    }

    #[test]
    fn a_misfit_names_the_option_and_the_end() {
        let error =
            MissingCapability::target(NeededCapability::Kept(LossKind::Owner)).error("an sftp server");
        assert_eq!((error.kind, error.detail.as_str()), {
            (ErrorKind::Requirement, "--require owner: an sftp server cannot keep it")
        });
        let error = MissingCapability::source(NeededCapability::FileSystems).error("a bucket");
        assert_eq!((error.kind, error.detail.as_str()), {
            (ErrorKind::Usage, "--one-file-system: a bucket does not tell file systems apart")
        });
    }

    #[test]
    fn what_is_lost_follows_from_what_an_end_can_do() {
        assert_eq!(not_kept(&Capabilities::unlimited(), true), Vec::<String>::new());
        assert_eq!(not_shown(&Capabilities::unlimited()), Vec::<String>::new());
        let words = [
            "fractions of a second, and times before 1970 and after 2105",
            "extended attributes and access lists",
            "device nodes and named pipes",
            "owners",
            "hard links",
            "times of symbolic links",
            "replacing a file in one step",
            "the reason why a write fails",
            "certainty that it is on stable storage",
        ];
        assert_eq!(not_kept(&poor(), true), words);
        assert_eq!(not_kept(&poor(), false), words[..8]);
        let shown =
            ["fractions of a second", "extended attributes and access lists", "hard links", "device nodes"];
        assert_eq!(not_shown(&poor()), shown);
        let no_links = Capabilities { symlinks: false, sets_links: false, ..Capabilities::unlimited() };
        assert_eq!(not_kept(&no_links, true), ["symbolic links"]);
    }

    #[test]
    fn times_are_told_by_their_step_and_the_years_that_are_whole() {
        let of = |time_step_ns, time_first_s, time_last_s| {
            let able = Capabilities { time_step_ns, time_first_s, time_last_s, ..Capabilities::unlimited() };
            not_kept(&able, true).join("; ")
        };
        let (any, ever) = (i64::MIN, i64::MAX);
        for (told, expected) in [
            (of(1, any, ever), ""),
            (of(100, any, ever), "times finer than 100 ns"),
            (of(2_000_000_000, any, ever), "times finer than 2 s"),
            (of(1, i32::MIN.into(), i32::MAX.into()), "times before 1902 and after 2037"),
            // FAT: from 1980 to the end of 2107.
            (of(1, 315_532_800, 4_354_819_199), "times before 1980 and after 2107"),
            (of(1, any, 0), "times after 1969"),
        ] {
            assert_eq!(told, expected);
        }
    }
}
