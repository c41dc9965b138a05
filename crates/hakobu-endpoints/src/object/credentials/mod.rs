//! Credentials: read where the store is opened, by the rules of the vendor's tools, and never sent to another host.

pub mod aws;

use std::time::SystemTime;

/// The keys that sign requests.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct SigningKeys {
    pub(crate) access_key: String,
    pub(crate) secret_key: String,
    pub(crate) session_token: Option<String>,
    pub(crate) expires: Option<SystemTime>,
}

impl std::fmt::Debug for SigningKeys {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
