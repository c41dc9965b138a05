//! The command `explain`: shows which filter rule decides about an entry.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use clap::Args;
use hakobu_core::entry::{EntryKind, FileTime};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::filter::Filter;
use hakobu_core::location::{Location, LocationKind};
use hakobu_core::path::lossy;
use hakobu_endpoints::local::describe_entry;

use crate::commands::shared::filter::{FilterArguments, filter};
use crate::{exit, output};

pub(crate) const EXPLAIN_HELP: &str = "\
Rules work as in .gitignore: the last matching rule wins, a pattern with a slash in it is relative to SOURCE, one \
that ends in a slash matches directories only, and nothing in an excluded directory is copied. sync does not delete \
excluded entries.

Examples:
  hakobu explain build/x.o data --exclude '*.o'
  hakobu explain notes/a.txt data --filter-file rules --newer-than 7d

Exit codes: 0 included; 3 excluded by a rule, by a limit such as --newer-than, or because --files-from does not list \
it; 1 failed, for example if there is no such entry; 2 wrong usage.";

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// Path of an entry below SOURCE
    #[arg(value_name = "PATH")]
    pub path: OsString,

    /// The tree, on this machine
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// Which entries take part.
    #[command(flatten)]
    pub filter: FilterArguments,
}

/// The exit code for an entry that is excluded.
const LEFT_OUT: u8 = 3;

/// Prints which rule decides; returns the exit code.
pub fn explain(typed: &ExplainArguments) -> u8 {
    match verdict(typed) {
        Ok((words, left_out)) => match output::print(words.as_bytes()) {
            0 if left_out => LEFT_OUT,
            code => code,
        },
        Err(errors) => exit::errors(&errors),
    }
}

fn verdict(typed: &ExplainArguments) -> std::result::Result<(String, bool), Vec<Error>> {
    let rules = filter(&typed.filter)?;
    let decided = Filter::new(&rules).and_then(|filter| decide(filter.as_ref(), typed));
    decided.map_err(|error| vec![error])
}

/// Decides about each directory down to the entry, because an excluded directory excludes everything in it. Returns
/// the explanation, and true if the entry is excluded.
fn decide(filter: Option<&Filter>, typed: &ExplainArguments) -> Result<(String, bool)> {
    let path = below(Path::new(&typed.path), &typed.source)?;
    let shown = lossy(path);
    let one_system = typed.filter.one_file_system;
    refuse_other_hosts(&typed.source)?;
    let begin = device_of(&typed.source)?;
    let ends = (0..path.len()).filter(|at| path[*at] == b'/').chain([path.len()]);
    let mut taken_in = None;
    for end in ends {
        let part = &path[..end];
        let place = typed.source.join(std::ffi::OsStr::from_bytes(part));
        let metadata = describe_entry(&place)?;
        if one_system && end < path.len() && device_of(&place)? != begin {
            let words =
                format!("it lies in {}, which is on another file system (--one-file-system)", lossy(part));
            return Ok((format!("{shown} is excluded: {words}\n"), true));
        }
        let Some(filter) = filter else { continue };
        if filter.is_not_listed(part) {
            return Ok((format!("{shown} is excluded: --files-from does not list it\n"), true));
        }
        let decided = filter.deciding(part, metadata.kind == EntryKind::Directory);
        let above =
            if end < path.len() { format!("it lies in {}, which ", lossy(part)) } else { String::new() };
        match decided {
            Some(decided) if decided.left_out => {
                let words =
                    format!("{shown} is excluded: {above}matches `{}` ({})\n", decided.line, decided.from);
                return Ok((words, true));
            }
            decided if end == path.len() => taken_in = decided,
            _ => {}
        }
        if let Some(limit) = filter.limit(&metadata) {
            let FileTime { seconds, .. } = metadata.mtime;
            let size_bytes = metadata.size_bytes;
            let facts = format!("it has {size_bytes} bytes, and was changed at {}", date(seconds));
            return Ok((format!("{shown} is excluded: {limit}; {facts}\n"), true));
        }
    }
    let why = match taken_in {
        Some(rule) => format!("it matches `{}` ({})", rule.line, rule.from),
        None if filter.is_none() && !one_system => "there are no rules".to_owned(),
        None => "no rule excludes it".to_owned(),
    };
    Ok((format!("{shown} is included: {why}\n"), false))
}

/// Refuses a source that is on another host, unless a local path has this name.
fn refuse_other_hosts(source: &Path) -> Result<()> {
    let parsed = Location::parse(source.as_os_str().as_bytes())?;
    if matches!(parsed.place(), LocationKind::Local { .. }) || source.exists() {
        return Ok(());
    }
    let words = "only trees on this machine can be examined; run hakobu explain on the other host";
    Err(Error::new(ErrorKind::Usage, "explaining", words).at(source.as_os_str().as_bytes()))
}

/// Returns the file system of a path, as its device number.
fn device_of(path: &Path) -> Result<u64> {
    let found = std::fs::symlink_metadata(path);
    found
        .map(|found| found.dev())
        .map_err(|error| Error::io("looking at", &error).at(path.as_os_str().as_bytes()))
}

fn date(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).map_or_else(|_| seconds.to_string(), |time| time.to_string())
}

/// Returns the entry's path below the source, with or without the source in front of it.
fn below<'a>(path: &'a Path, source: &Path) -> Result<&'a [u8]> {
    let below = path.strip_prefix(source).unwrap_or(path);
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || below.as_os_str().is_empty() {
        let words = "name an entry below SOURCE, such as dir/file";
        return Err(Error::new(ErrorKind::Usage, "explaining", words).at(path.as_os_str().as_bytes()));
    }
    let bytes = below.as_os_str().as_bytes();
    Ok(bytes.strip_suffix(b"/").unwrap_or(bytes))
}
