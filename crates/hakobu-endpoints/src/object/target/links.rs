//! The identities that the names of one file share.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::digest::Digest;
use hakobu_core::entry::Inode;
use tokio::sync::OnceCell;

/// The most objects that are remembered to have an identity. After that, some are looked at again.
const KNOWN_MAX: usize = 1 << 17;

/// The identities that a run gives to objects.
#[derive(Debug)]
pub(super) struct ObjectLinks {
    /// Makes the identities of this run different from those of others: an inode number is reused on one machine, and is
    /// that of something else on another.
    mark: Inode,
    /// The objects that have an identity, by the digest of the key, with their sizes.
    known: Mutex<HashMap<Digest, Arc<OnceCell<u64>>>>,
}

impl Default for ObjectLinks {
    fn default() -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("hakobu mark of identities 1");
        let now_ns = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
        hasher.update(&now_ns.to_le_bytes());
        for _ in 0..4 {
            hasher.update(&RandomState::new().hash_one(std::process::id()).to_le_bytes());
        }
        Self { mark: inode_of(&hasher.finalize()), known: Mutex::default() }
    }
}

impl ObjectLinks {
    /// Returns the identity of the objects that are names of an inode.
    pub(super) fn identity(&self, inode: Inode) -> Inode {
        let Inode { file_system, number } = inode;
        Inode { file_system: file_system ^ self.mark.file_system, number: number ^ self.mark.number }
    }

    /// Returns a new identity for the object at a key.
    pub(super) fn new_identity(&self, key: &str) -> Inode {
        let mut hasher = blake3::Hasher::new_derive_key("hakobu identity of an object 1");
        hasher.update(&self.mark.file_system.to_le_bytes()).update(&self.mark.number.to_le_bytes());
        inode_of(&hasher.update(key.as_bytes()).finalize())
    }

    /// Records that an object was stored with an identity.
    pub(super) fn stored(&self, key: &str, size_bytes: u64) {
        // The size of an object that is stored again is the same, or the link to it fails and is made again.
        let _known = self.cell(key).set(size_bytes);
    }

    /// Returns what is known of the object at a key: its size, if it has an identity.
    pub(super) fn cell(&self, key: &str) -> Arc<OnceCell<u64>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KNOWN_MAX {
            known.retain(|_, cell| !cell.initialized());
        }
        Arc::clone(known.entry(*blake3::hash(key.as_bytes()).as_bytes()).or_default())
    }
}

fn inode_of(hash: &blake3::Hash) -> Inode {
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, ..] = *hash.as_bytes();
    let (file_system, number) = ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]);
    Inode { file_system: u64::from_le_bytes(file_system), number: u64::from_le_bytes(number) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_two_runs_differ_and_those_of_one_inode_do_not() {
        let (one, other) = (ObjectLinks::default(), ObjectLinks::default());
        let inode = Inode { file_system: 0x803, number: 7 };
        assert_eq!(one.identity(inode), one.identity(inode));
        assert_ne!(one.identity(inode), other.identity(inode));
        assert_ne!(one.identity(inode), one.identity(Inode { number: 8, ..inode }));
        assert_ne!(one.new_identity("a"), one.new_identity("b"));
    }
}
