//! The proof that a broker was given a lease.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::{Epoch, UnitKey};
use crate::names::{BrokerName, GroupName};

/// The use of the key.
const KEY_CONTEXT: &str = "hakobu 2026-11-28 fleet lease token";
/// The use of a token's hash.
const DRAFT_CONTEXT: &str = "hakobu 2026-11-28 fleet drafts";

/// The key from which tokens of leases are made. Control planes that share a ledger have the same.
#[derive(Clone)]
pub struct LeaseKey([u8; 32]);

/// The proof of a lease: nobody else can make it. It is not shown.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseToken([u8; 16]);

impl LeaseKey {
    /// Derives the key from a secret with at least 128 random bits.
    pub fn new(secret: &[u8]) -> Self {
        Self(blake3::derive_key(KEY_CONTEXT, secret))
    }

    /// Returns the token of a lease.
    pub fn token(&self, key: UnitKey, epoch: Epoch, group: &GroupName, broker: &BrokerName) -> LeaseToken {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for number in [key.run.get(), key.unit.get(), epoch.get()] {
            hasher.update(&number.to_le_bytes());
        }
        // A name has no dot in it.
        hasher.update(group.as_str().as_bytes()).update(b".").update(broker.as_str().as_bytes());
        let mut token = [0; 16];
        hasher.finalize_xof().fill(&mut token);
        LeaseToken(token)
    }

    /// Returns true if a token is that of a lease. The time that this takes does not depend on the token.
    pub fn proves(&self, token: LeaseToken, expected: LeaseToken) -> bool {
        let hash = |token: LeaseToken| blake3::keyed_hash(&self.0, &token.0);
        // Hashes of this type are compared in constant time.
        hash(token) == hash(expected)
    }
}

impl LeaseToken {
    /// Returns the key of the drafts that this lease makes at the target. It tells nothing about the token.
    pub fn draft_key(self) -> [u8; 8] {
        let hash = blake3::derive_key(DRAFT_CONTEXT, &self.0);
        let mut key = [0; 8];
        key.copy_from_slice(&hash[..8]);
        key
    }
}

impl fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseKey")
    }
}

impl fmt::Debug for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LeaseToken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{RunId, UnitId};

    #[test]
    fn a_token_is_of_one_lease_and_one_broker() {
        let key = |unit| UnitKey { run: RunId::new(1).unwrap(), unit: UnitId::new(unit).unwrap() };
        let epoch = |number| Epoch::new(number).unwrap();
        let (group, other_group) = (GroupName::new("a").unwrap(), GroupName::new("b").unwrap());
        let (broker, other) = (BrokerName::new("x").unwrap(), BrokerName::new("y").unwrap());
        let secret = LeaseKey::new(b"secret");
        let token = secret.token(key(1), epoch(1), &group, &broker);
        assert!(secret.proves(token, secret.token(key(1), epoch(1), &group, &broker)));
        for wrong in [
            secret.token(key(2), epoch(1), &group, &broker),
            secret.token(key(1), epoch(2), &group, &broker),
            secret.token(key(1), epoch(1), &other_group, &broker),
            secret.token(key(1), epoch(1), &group, &other),
            LeaseKey::new(b"other").token(key(1), epoch(1), &group, &broker),
        ] {
            assert!(!secret.proves(wrong, token));
        }
        assert_eq!(format!("{secret:?} {token:?}"), "LeaseKey LeaseToken");
    }
}
