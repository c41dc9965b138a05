//! A value from a settings file, and the file that is named where it is wrong.

use hakobu_core::error::Error;

/// The value of an option in a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromFile {
    /// The keyword, which is the option's name without its dashes.
    pub keyword: &'static str,
    /// The value as written in the file.
    pub value: String,
    /// `FILE:LINE`.
    pub place: String,
}

/// Says of errors in options which file they come from.
pub(crate) fn name_places(errors: &mut [Error], from_files: &[FromFile]) {
    for error in errors {
        let option = String::from_utf8_lossy(&error.at).into_owned();
        let keyword = option.strip_prefix("--").unwrap_or_default();
        if let Some(found) = from_files.iter().find(|found| found.keyword == keyword) {
            error.detail = format!("{} (it comes from {})", error.detail, found.place);
        }
    }
}
