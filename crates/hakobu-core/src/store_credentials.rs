//! Credentials that are given for one run, beside those of the vendor's configuration.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Named values, with the names of the vendor's environment variables. They are never shown and never sent to another
/// machine, and are overwritten when the last copy is dropped. Empty, the vendor's configuration counts.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct StoreCredentials(Arc<CredentialValues>);

#[derive(Default, PartialEq, Eq, Hash)]
struct CredentialValues(BTreeMap<String, String>);

impl Drop for CredentialValues {
    fn drop(&mut self) {
        for value in std::mem::take(&mut self.0).into_values() {
            let mut bytes = value.into_bytes();
            bytes.fill(0);
            // Without this, the compiler may omit a write that nothing reads.
            std::hint::black_box(&bytes);
        }
    }
}

impl StoreCredentials {
    /// Returns true if none are given.
    pub fn is_empty(&self) -> bool {
        self.0.0.is_empty()
    }

    /// Returns the value with a name, unless it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// Returns the names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.0.keys().map(String::as_str)
    }

    /// Returns all names and values, to be looked up.
    pub fn expose(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for StoreCredentials {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(values: I) -> Self {
        Self(Arc::new(CredentialValues(values.into_iter().collect())))
    }
}

impl fmt::Debug for StoreCredentials {
    /// Leaves the values out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_not_shown() {
        let given = [("KEY".to_owned(), "sesame".to_owned()), ("EMPTY".to_owned(), String::new())];
        let given: StoreCredentials = given.into_iter().collect();
        assert_eq!(format!("{given:?}"), r#"{"EMPTY", "KEY"}"#);
        assert_eq!((given.get("KEY"), given.get("EMPTY"), given.get("other")), (Some("sesame"), None, None));
        assert!(!given.is_empty() && StoreCredentials::default().is_empty());
    }
}
