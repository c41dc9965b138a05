//! The verb `report`: what a run has left behind, for people and their change tickets.
//!
//! The report is made into a [`page::ReportPage`], which knows nothing of how it is shown, and that is
//! written as text, Markdown or HTML. Everything in the file is hostile: it may have been written
//! by anybody, and holds names and words that other machines gave.

use std::path::Path;

use hakobu_core::error::Result;

mod about;
mod charts;
pub(crate) mod html;
mod limits;
mod lists;
pub(crate) mod markdown;
mod outcome;
pub(crate) mod page;
mod read;
mod sums;
pub(crate) mod text;
pub(crate) mod words;
pub(crate) mod write;

use crate::commands::report::ReportArguments;
use crate::language::Language;
use crate::{exit, output};

/// Shows a report; returns the exit code.
pub fn report(typed: &ReportArguments) -> u8 {
    let language = typed.lang.unwrap_or_else(Language::from_environment);
    let shown = match render(&typed.file, &typed.format, language) {
        Ok(shown) => shown,
        Err(error) => return exit::errors(&[error]),
    };
    match typed.output.as_deref().filter(|path| *path != Path::new("-")) {
        None => output::print(shown.as_bytes()),
        Some(path) => {
            let form =
                if typed.format == "html" { write::ReportFormat::Html } else { write::ReportFormat::Other };
            match write::write(path, Some(&typed.file), (form, shown.as_bytes())) {
                Ok(()) => 0,
                Err(error) => exit::errors(&[error]),
            }
        }
    }
}

/// Returns the text of a report that is not in a file.
///
/// # Errors
/// `Unsupported` if it is no report that this version knows.
pub(crate) fn text_of_json(json: &[u8], language: Language) -> Result<String> {
    Ok(text::write(&about::page(&read::parse(json)?, language)))
}

fn render(file: &Path, format: &str, language: Language) -> Result<String> {
    let page = about::page(&read::read(file)?, language);
    Ok(match format {
        "html" => html::write(&page),
        "markdown" => markdown::write(&page),
        _ => text::write(&page),
    })
}
