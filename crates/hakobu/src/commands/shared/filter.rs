//! The options that select entries, and the rules that they stand for.

use std::path::PathBuf;

use clap::Args;
use hakobu_core::entry::FileTime;
use hakobu_core::error::Error;
use hakobu_core::filter::{Filter, FilterRules};
use hakobu_core::units::{parse_bytes, parse_duration};

use super::files_from;
use super::findings::Findings;
use crate::commands::shared::headings::FILTERS;
use crate::commands::shared::rules::RuleArguments;

/// The options that select entries.
#[derive(Debug, Default, Args)]
pub struct FilterArguments {
    /// Rules.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// Copy only the paths listed in FILE
    ///
    /// One path per line (or NUL-separated), relative to SOURCE. A path that SOURCE lacks is an error; where `sync`
    /// may delete without asking, it is deleted from TARGET instead
    #[arg(long, value_name = "FILE", help_heading = FILTERS)]
    pub files_from: Option<PathBuf>,

    /// Only files changed since: 7d (ago), or 2026-11-01
    #[arg(long, value_name = "WHEN", help_heading = FILTERS)]
    pub newer_than: Option<String>,

    /// Only files last changed before: 7d, or 2026-11-01
    #[arg(long, value_name = "WHEN", help_heading = FILTERS)]
    pub older_than: Option<String>,

    /// Only files of at least this size
    #[arg(long, value_name = "SIZE", help_heading = FILTERS)]
    pub min_size: Option<String>,

    /// Only files of at most this size
    #[arg(long, value_name = "SIZE", help_heading = FILTERS)]
    pub max_size: Option<String>,

    /// Do not descend into other file systems
    ///
    /// Their mount points are created as empty directories
    #[arg(short = 'x', long, help_heading = FILTERS)]
    pub one_file_system: bool,
}

/// Returns the rules that select entries.
///
/// # Errors
/// `Usage` for each value that is wrong; a file of rules cannot be read.
pub fn filter(typed: &FilterArguments) -> Result<FilterRules, Vec<Error>> {
    let mut found = Findings::default();
    let size = |found: &mut Findings, option: &str, text: Option<&str>| {
        text.and_then(|text| parse_bytes(text).map_err(|error| found.usage(option, error.to_string())).ok())
    };
    let time = |found: &mut Findings, option: &str, text: Option<&str>| {
        text.and_then(|text| {
            let parsed = when(text);
            if parsed.is_none() {
                found.usage(option, "must be an age such as 7d or 12h, or a date such as 2026-11-01");
            }
            parsed
        })
    };
    let rules = FilterRules {
        rules: found.keep(typed.rules.read()).unwrap_or_default(),
        newer_than: time(&mut found, "--newer-than", typed.newer_than.as_deref()),
        older_than: time(&mut found, "--older-than", typed.older_than.as_deref()),
        bytes_min: size(&mut found, "--min-size", typed.min_size.as_deref()),
        bytes_max: size(&mut found, "--max-size", typed.max_size.as_deref()),
        only: typed.files_from.as_deref().and_then(|file| found.keep(files_from::read(file))),
        only_those_there: false,
    };
    found.keep(Filter::new(&rules).map(drop));
    found.or(rules)
}

/// Parses a time: an age, or a date or time in ISO 8601, in the local time zone if none is given.
fn when(text: &str) -> Option<FileTime> {
    let stamp = match parse_duration(text) {
        Ok(age) => jiff::Timestamp::now().checked_sub(age).ok()?,
        Err(_) => match text.parse::<jiff::Timestamp>() {
            Ok(stamp) => stamp,
            Err(_) => {
                let civil = text.parse::<jiff::civil::DateTime>().ok()?;
                civil.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp()
            }
        },
    };
    let nanoseconds = stamp.as_nanosecond().rem_euclid(1_000_000_000);
    let seconds = stamp.as_nanosecond().div_euclid(1_000_000_000);
    Some(FileTime { seconds: i64::try_from(seconds).ok()?, nanoseconds: u32::try_from(nanoseconds).ok()? })
}
