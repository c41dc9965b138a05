//! The error of a setting that people write: with the field, so that a page can show it there.

use hakobu_core::error::{Error, ErrorKind};

/// The error of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The field, as in `blackouts[1].from`; empty if it is the whole.
    pub field: String,
    /// The column within the field, from 1, in characters, if one is at fault.
    pub column: Option<usize>,
    /// The fault and the remedy.
    pub words: String,
}

impl SettingError {
    /// Returns an error of a whole field.
    pub fn new(field: impl Into<String>, words: impl Into<String>) -> Self {
        Self { field: field.into(), column: None, words: words.into() }
    }

    /// Returns an error at a column of a field, from 1.
    pub fn at_column(field: impl Into<String>, column: usize, words: impl Into<String>) -> Self {
        Self { column: Some(column), ..Self::new(field, words) }
    }

    /// Returns the error of JSON that has another form. Its column is that of the text.
    pub fn json(error: &serde_json::Error) -> Self {
        let column = Some(error.column()).filter(|column| *column > 0 && error.line() == 1);
        Self { column, ..Self::new("", error.to_string()) }
    }

    /// Returns the error within a field that contains this one.
    #[must_use]
    pub fn within(mut self, outer: &str) -> Self {
        if outer.is_empty() {
            return self;
        }
        self.field = match self.field.is_empty() {
            true => outer.to_owned(),
            false => format!("{outer}.{}", self.field),
        };
        self
    }
}

impl std::fmt::Display for SettingError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.field.is_empty(), self.column) {
            (true, _) => f.write_str(&self.words),
            (false, None) => write!(f, "{}: {}", self.field, self.words),
            (false, Some(column)) => write!(f, "{}, column {column}: {}", self.field, self.words),
        }
    }
}

impl std::error::Error for SettingError {}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::new(ErrorKind::Usage, "reading a setting", error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_its_field_and_column() {
        let error = SettingError::at_column("from", 3, "no time").within("blackouts[1]");
        assert_eq!(error.to_string(), "blackouts[1].from, column 3: no time");
        assert_eq!(SettingError::new("", "no").within("cron").to_string(), "cron: no");
        assert_eq!(Error::from(SettingError::new("", "no JSON")).kind, ErrorKind::Usage);
        let wrong = serde_json::from_str::<u8>("x").unwrap_err();
        assert_eq!(SettingError::json(&wrong).column, Some(1));
    }
}
