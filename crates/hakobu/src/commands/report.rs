//! The arguments of `report`, and their help.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use crate::commands::shared::headings::OUTPUT;
use crate::language::Language;

/// The text below the options in the help.
pub(crate) const HELP: &str = "\
Shows everything the report contains: what was copied from where to where, by whom and when, the result, the rate and \
the bottleneck, and what was lost or failed. HTML is one file with its charts and loads nothing. Text lists the first \
20 failures, the other formats list all of them.

Examples:
  hakobu copy --report run.json data/ host:/backup/data
  hakobu report run.json
  hakobu report --format html --output run.html run.json
  hakobu report --format markdown --lang ja run.json
  hakobu report /var/lib/hakobu/jobs/ID/report.json   of a job of root

Exit codes: 0 done, whatever the report says, 1 the file cannot be read or is not a report, 2 wrong usage, 6 refused \
(--output would overwrite the report, a disk, or, with --format html, an existing file that hakobu report did not write).";

/// The arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// File written by --report; - is standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Format: text, markdown, html
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_possible_values = true,
        value_parser = PossibleValuesParser::new(["text", "markdown", "html"]), help_heading = OUTPUT)]
    pub format: String,

    /// Language: en, ja; default: that of the locale (LANG)
    #[arg(long, value_name = "LANG", value_enum, hide_possible_values = true, help_heading = OUTPUT)]
    pub lang: Option<Language>,

    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
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
