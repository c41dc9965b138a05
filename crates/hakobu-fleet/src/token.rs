//! Tokens, of which the ledger has only hashes.

use std::fmt;

use hakobu_core::error::Result;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::{Moment, TokenId};
use crate::limits::check_at_most;

/// The maximum length of a token's label in bytes.
pub const TOKEN_LABEL_BYTES_MAX: usize = 256;
/// The use of the hash: a token is random, so that one pass of a hash is enough, and nothing else has equal hashes.
const HASH_CONTEXT: &str = "hakobu 2026-11-27 fleet token";

/// The hash of a token. It is not shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    /// Returns the hash of a token with at least 128 random bits.
    pub fn of(secret: &[u8]) -> Self {
        Self(blake3::derive_key(HASH_CONTEXT, secret))
    }

    /// Returns the bytes to keep.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads kept bytes.
    pub(crate) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHash")
    }
}

/// The role of a token: each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenRole {
    /// Sees everything except secrets.
    Viewer,
    /// Starts, stops and limits runs.
    Operator,
    /// Changes relationships, brokers and tokens.
    Admin,
}

impl TokenRole {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Viewer, Self::Operator, Self::Admin];

    /// Returns the name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns the role with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

/// A token to add.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewToken {
    /// The hash.
    pub hash: TokenHash,
    /// The name that people give it.
    pub label: String,
    /// The role.
    pub role: TokenRole,
    /// The moment at which it is made.
    pub created: Moment,
    /// The moment from which it is not valid.
    pub expires: Option<Moment>,
    /// True if it is valid once.
    pub is_single_use: bool,
}

impl NewToken {
    /// Checks the lengths.
    ///
    /// # Errors
    /// `Usage`
    pub fn check(&self) -> Result<()> {
        check_at_most("the bytes of a token's label", self.label.len(), TOKEN_LABEL_BYTES_MAX)
    }
}

/// A token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRecord {
    /// The number.
    pub id: TokenId,
    /// Everything that was said when it was added.
    pub token: NewToken,
    /// The moment at which it was last used.
    pub last_used: Option<Moment>,
}

impl TokenRecord {
    /// Returns true if it is valid at a moment.
    pub fn is_valid_at(&self, now: Moment) -> bool {
        self.token.expires.is_none_or(|expires| now < expires)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_of_one_token_and_not_shown() {
        let hash = TokenHash::of(b"secret");
        assert_eq!(hash, TokenHash::of(b"secret"));
        assert_ne!(hash, TokenHash::of(b"secret "));
        assert_ne!(hash.as_bytes(), blake3::hash(b"secret").as_bytes());
        assert_eq!(format!("{hash:?}"), "TokenHash");
    }

    #[test]
    fn roles_are_read_by_name_and_in_order() {
        for role in TokenRole::ALL {
            assert_eq!(TokenRole::from_name(role.name()), Some(role));
        }
        assert!(TokenRole::Viewer < TokenRole::Operator && TokenRole::Operator < TokenRole::Admin);
        assert_eq!(TokenRole::from_name("root"), None);
    }
}
