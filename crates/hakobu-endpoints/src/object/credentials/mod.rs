//! Credentials: read where the store is opened, by the rules of the vendor's tools, and never sent to another host.

pub mod aws;
pub mod azure;
pub mod gcs;
pub(super) mod gcs_tokens;

use std::time::SystemTime;

/// The keys that sign requests.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKeys {
    /// The name of the key, which is no secret.
    pub access_key: String,
    /// The secret.
    pub secret_key: String,
    /// The token of temporary credentials.
    pub session_token: Option<String>,
    /// The end of temporary credentials.
    pub expires: Option<SystemTime>,
}

impl std::fmt::Debug for SigningKeys {
    /// Leaves the secrets out.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKeys").field("access_key", &self.access_key).finish_non_exhaustive()
    }
}
