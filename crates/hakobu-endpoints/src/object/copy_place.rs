//! The place of a bucket among those that a store copies objects between.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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

/// The sidecars of the roots of a source, as far as they have been listed.
pub(crate) type ListedSidecars = tokio::sync::Mutex<HashMap<u16, Arc<SourceSidecars>>>;

/// The roots of sources whose sidecars are at the target, each with its bucket.
pub(crate) type BroughtSidecars = tokio::sync::Mutex<HashSet<(String, String)>>;

/// An object of a source that the store may copy.
pub(crate) struct OpenedObject {
    pub(crate) bucket: String,
    pub(crate) key: String,
    /// The metadata of an object that is too large to be copied in one request.
    pub(crate) head: Option<ObjectHead>,
    /// The objects that metadata of a copy may refer to.
    pub(crate) sidecars: Arc<SourceSidecars>,
}

/// The objects with extended attributes of other objects below a root of a source.
#[derive(Debug, Default)]
pub(crate) struct SourceSidecars {
    /// The beginning of their keys.
    pub(crate) prefix: String,
    /// Their keys, without that.
    pub(crate) names: Vec<String>,
    /// True if there are more of them.
    pub(crate) is_partial: bool,
}
