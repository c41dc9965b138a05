//! The variables with account and credentials, and what the modules of credentials share.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hakobu_core::{Error, ErrorKind};

/// The step of errors. The location follows it.
pub(super) const LOADING: &str = "reading the credentials for";
/// The cause where nothing has credentials.
pub(super) const NO_CREDENTIALS: &str =
    "there are none, neither in the environment nor of az login or this machine";
pub(super) const HINT: &str =
    "set AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or run az login";
pub(super) const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";

/// The environment variables that name an account and credentials.
#[derive(Clone, Default)]
pub struct AzureEnvironment(BTreeMap<String, String>);

impl AzureEnvironment {
    /// Returns the variables of this process.
    pub fn of_process() -> Self {
        let is_known = |name: &str| {
            ["AZURE_", "AZCOPY_AUTO_LOGIN_TYPE", "IDENTITY_"].iter().any(|start| name.starts_with(start))
                || name == "PATH"
        };
        std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| is_known(name))
            .collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.trim()).filter(|value| !value.is_empty())
    }
}

impl FromIterator<(String, String)> for AzureEnvironment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl std::fmt::Debug for AzureEnvironment {
    /// Leaves the values out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A token of Microsoft Entra.
#[derive(Clone)]
pub(crate) struct EntraToken {
    pub(crate) token: String,
    pub(crate) expires: SystemTime,
}

impl EntraToken {
    pub(super) fn ends_within(&self, time: Duration) -> bool {
        self.expires <= SystemTime::now() + time
    }
}

pub(super) fn unauthenticated(cause: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unauthenticated, LOADING, cause.into())
}
