//! The arguments of `explain`, and their help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::filter::FilterArguments;

pub(crate) const EXPLAIN_HELP: &str = "\
Rules are as in .gitignore: the last one that matches decides, a pattern with a slash in it is
relative to SOURCE, one that ends in a slash is for directories, and nothing takes part within a
directory that is left out. sync removes nothing that a rule leaves out.

Examples:
  hakobu explain build/x.o data --exclude '*.o'
  hakobu explain notes/a.txt data --filter-file rules --newer-than 7d

Exit codes: 0 it takes part; 3 it is left out by a rule, by a limit such as --newer-than, or since
--files-from does not list it; 1 failed, as where there is no such entry; 2 wrong usage.";

/// The arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArguments {
    /// An entry of the tree, below SOURCE
    #[arg(value_name = "PATH")]
    pub path: OsString,

    /// The tree, on this machine
    #[arg(value_name = "SOURCE")]
    pub source: PathBuf,

    /// Which entries take part.
    #[command(flatten)]
    pub filter: FilterArguments,
}
