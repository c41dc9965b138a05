//! The place of a bucket among those that a store copies objects between.

use hakobu_core::entry::FileTime;

use super::api::ObjectHead;

/// A bucket among all those that its store copies objects between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyPlace {
    /// The identity of the store. Copies are tried between buckets with equal ones.
    pub store: String,
    /// The name of the bucket for [`CopySource::bucket`](super::api::CopySource::bucket).
    pub bucket: String,
}

impl CopyPlace {
    /// Returns the store as a number for
    /// [`Capabilities::copies_within`](hakobu_core::capabilities::Capabilities::copies_within).
    pub(crate) fn number(&self) -> u64 {
        let hash = blake3::hash(self.store.as_bytes());
        hash.as_bytes().iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
    }
}

/// An object of a source that the store may copy.
pub(crate) struct OpenedObject {
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) seen: SeenObject,
}

/// How the object to copy is known.
pub(crate) enum SeenObject {
    /// It was asked for.
    Head(ObjectHead),
    /// A listing shows it, uploaded at this time, and it has no sidecar.
    Listed(FileTime),
}
