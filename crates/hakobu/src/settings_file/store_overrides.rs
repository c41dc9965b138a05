//! The options of one of several object stores.

use super::keywords::Keyword;

/// The options of one of several object stores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreOverrides {
    /// The store, as patterns name it: `s3://bucket`.
    pub store: String,
    /// Keywords and values.
    values: Vec<(&'static str, String)>,
}

impl StoreOverrides {
    pub(super) fn new(store: &str) -> Self {
        Self { store: store.to_owned(), values: Vec::new() }
    }

    /// Returns overrides with these values.
    #[cfg(test)]
    pub(crate) fn with(store: &str, values: &[(&'static str, &str)]) -> Self {
        let values = values.iter().map(|(keyword, value)| (*keyword, (*value).to_owned())).collect();
        Self { store: store.to_owned(), values }
    }

    pub(super) fn take(&mut self, keyword: &Keyword, value: Option<&str>) {
        self.values.extend(value.map(|value| (keyword.name, value.to_owned())));
    }

    /// Returns the value of a keyword, if it is set.
    pub fn value(&self, keyword: &str) -> Option<&str> {
        self.values.iter().find(|(name, _)| *name == keyword).map(|(_, value)| value.as_str())
    }
}
