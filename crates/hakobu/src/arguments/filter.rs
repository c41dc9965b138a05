//! The options that say which entries take part.

use std::path::PathBuf;

use clap::Args;

use crate::rules::RuleArguments;

/// Which entries take part.
#[derive(Debug, Default, Args)]
pub struct FilterArguments {
    /// Rules.
    #[command(flatten)]
    pub rules: RuleArguments,

    /// Only the paths in this file, relative to SOURCE, a line or a NUL behind each; what is not there fails
    #[arg(long, value_name = "FILE", help_heading = "What takes part")]
    pub files_from: Option<PathBuf>,

    /// Only files changed since then: 7d ago, or 2026-11-01
    #[arg(long, value_name = "WHEN", help_heading = "What takes part")]
    pub newer_than: Option<String>,

    /// Only files not changed since then
    #[arg(long, value_name = "WHEN", help_heading = "What takes part")]
    pub older_than: Option<String>,

    /// Only files of this size or more
    #[arg(long, value_name = "SIZE", help_heading = "What takes part")]
    pub min_size: Option<String>,

    /// Only files of this size or less
    #[arg(long, value_name = "SIZE", help_heading = "What takes part")]
    pub max_size: Option<String>,

    /// Make directories on which other file systems are mounted, but do not look into them
    #[arg(short = 'x', long, help_heading = "What takes part")]
    pub one_file_system: bool,
}
