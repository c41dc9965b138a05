//! The arguments of `report`, and their help.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::report::Language;

/// What stands below the options in the help.
pub(crate) const HELP: &str = "\
Everything that the report holds is shown: what was copied from where to where, by whom and when,
how it ended, how fast it was and what limited it, what was lost, and what failed. HTML is one file
with its charts in it, and loads nothing. Text lists the first 20 failures, the others all of them.

Examples:
  hakobu copy --report run.json data/ host:/backup/data
  hakobu report run.json
  hakobu report --format html --output run.html run.json
  hakobu report --format markdown --lang ja run.json
  hakobu report /var/lib/hakobu/jobs/ID/report.json   of a job of root; of others see hakobu jobs

Exit codes: 0 done, whatever the report says, 1 the file cannot be read or is no report, 2 wrong
usage, 6 refused (--output would overwrite the report, or a disk).";

/// The arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// What --report has written; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// text, markdown, html
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["text", "markdown", "html"]))]
    pub format: String,

    /// The language: en, ja
    #[arg(long, value_name = "LANG", value_enum, default_value_t = Language::En, hide_possible_values = true)]
    pub lang: Language,

    /// Write to this file, which gets its name when it is complete
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

impl ValueEnum for Language {
    fn value_variants<'a>() -> &'a [Self] {
        &[Language::En, Language::Ja]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.tag()))
    }
}
