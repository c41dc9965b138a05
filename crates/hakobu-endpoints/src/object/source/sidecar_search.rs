//! A search for sidecars. Objects that can have none are copied inside the store without a look at each.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use hakobu_core::entry::FileTime;
use hakobu_core::{ErrorKind, Result};

use crate::object::api::{Bucket, ListQuery, ListStart, ObjectApi};
use crate::object::metadata::sidecar::SIDECAR_DIRECTORY;

/// The most directories that are remembered.
const KNOWN_MAX: usize = 1 << 14;
/// The number of objects that make up for one listing: a HEAD costs less.
const OBJECTS_PER_LIST: usize = 16;

/// The directories of a bucket that were searched, for all lanes of a source.
pub(super) struct SidecarSearch {
    bucket: Arc<dyn Bucket>,
    /// By what the keys in a directory begin with: a time by the store's clock at which it had no sidecars, or `None` if it
    /// had some, or may not be listed.
    known: Mutex<HashMap<String, Option<FileTime>>>,
}

impl SidecarSearch {
    pub(super) fn new(bucket: Arc<dyn Bucket>) -> Self {
        Self { bucket, known: Mutex::default() }
    }

    /// Returns a time by the store's clock before which nobody can have stored an object with a sidecar in a directory, for
    /// some of its objects: a sidecar is stored first, in any directory above its object. Returns `None` if that is not
    /// known, or if to find out costs more than to ask for each object.
    ///
    /// # Errors
    /// Those of listing, unless it is denied.
    pub(super) async fn none_before(
        &self,
        api: &dyn ObjectApi,
        directory: &str,
        objects: usize,
    ) -> Result<Option<FileTime>> {
        let above =
            directory.char_indices().filter(|(_, char)| *char == '/').map(|(at, _)| &directory[..=at]);
        let places: Vec<&str> = std::iter::once("").chain(above).collect();
        let unknown: Vec<&str> = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            places.iter().copied().filter(|place| !known.contains_key(*place)).collect()
        };
        if unknown.len() * OBJECTS_PER_LIST > objects {
            return Ok(None);
        }
        for place in unknown {
            let found = match self.search(api, place).await {
                // Credentials for a part of a bucket may not list what is above it.
                Err(error) if error.kind == ErrorKind::PermissionDenied => None,
                found => found?,
            };
            let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(place.to_owned(), found);
        }
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let times = places.iter().map(|place| known.get(*place).copied().flatten());
        Ok(times.collect::<Option<Vec<FileTime>>>().and_then(|times| times.into_iter().min()))
    }

    async fn search(&self, api: &dyn ObjectApi, place: &str) -> Result<Option<FileTime>> {
        let begun = SystemTime::now();
        let prefix = format!("{place}{SIDECAR_DIRECTORY}/");
        let start = ListStart::First;
        let query = ListQuery { prefix: &prefix, delimiter: false, start, until: None, entries: 1 };
        let page = api.list(query).await?;
        let is_empty = page.objects.is_empty() && page.next.is_none();
        Ok(is_empty.then(|| self.store_time(begun)).flatten())
    }

    /// Returns the earliest time by the store's clock that a time of this machine's can be.
    fn store_time(&self, time: SystemTime) -> Option<FileTime> {
        let here_ns = i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_nanos()).ok()?;
        let there_ns = here_ns.checked_add(self.bucket.clock()?.least_ns)?;
        let nanoseconds = there_ns.rem_euclid(1_000_000_000) as u32;
        Some(FileTime { seconds: there_ns.div_euclid(1_000_000_000), nanoseconds })
    }
}
