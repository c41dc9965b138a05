//! The verb `report`: what a run has left behind, for people and their change tickets.
//!
//! The report is made into a [`page::Page`], which knows nothing of how it is shown, and that is
//! written as text, Markdown or HTML. Everything in the file is hostile: it may have been written
//! by anybody, and holds names and words that other machines gave.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use hakobu_core::error::Result;

mod about;
mod charts;
pub(crate) mod html;
mod language;
mod limits;
mod lists;
pub(crate) mod markdown;
mod outcome;
pub(crate) mod page;
mod read;
mod sums;
pub(crate) mod text;
mod words;
pub(crate) mod write;

pub use language::Language;

use crate::{exit, output};

/// What stands below the options in the help.
pub const HELP: &str = "\
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

/// Shows a report; returns the exit code.
pub fn report(typed: &ReportArguments) -> u8 {
    let shown = match render(&typed.file, &typed.format, typed.lang) {
        Ok(shown) => shown,
        Err(error) => return exit::errors(&[error]),
    };
    match typed.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => output::print(shown.as_bytes()),
        Some(path) => {
            let form = if typed.format == "html" { write::Form::Html } else { write::Form::Other };
            match write::write(path, Some(&typed.file), (form, shown.as_bytes())) {
                Ok(()) => 0,
                Err(error) => exit::errors(&[error]),
            }
        }
    }
}

fn render(file: &Path, format: &str, language: Language) -> Result<String> {
    let page = about::page(&read::read(file)?, language);
    Ok(match format {
        "html" => html::write(&page),
        "markdown" => markdown::write(&page),
        _ => text::write(&page),
    })
}

impl ValueEnum for Language {
    fn value_variants<'a>() -> &'a [Self] {
        &[Language::En, Language::Ja]
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.tag()))
    }
}
