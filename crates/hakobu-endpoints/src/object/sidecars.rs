//! The objects with extended attributes of other objects, each read and written once.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::checksum::crc64;
use hakobu_core::digest::Digest;
use hakobu_core::extended::{EXTENDED_BYTES_MAX, Extended};
use hakobu_core::{Error, ErrorKind, Result};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::api::{ObjectApi, ObjectBody, ObjectProperties, PutCondition, PutObject};
use super::keys::KeyRoot;
use super::metadata::content_type::UNKNOWN;
use super::metadata::sidecar::{Sidecar, SidecarName};

/// The most sidecars that are kept in memory.
const KNOWN_MAX: usize = 1024;
/// The most bytes of sidecars that are kept in memory.
const KNOWN_BYTES_MAX: usize = 16 << 20;
/// The most sidecars that are remembered as written. After that, some are written again.
const WRITTEN_MAX: usize = 1 << 16;
/// The most directories that are remembered because sidecars were found in them.
const HOMES_MAX: usize = 8;

/// The sidecars below one root that were read or written.
#[derive(Debug, Default)]
pub(crate) struct Sidecars(Mutex<SidecarState>);

#[derive(Debug, Default)]
struct SidecarState {
    /// Those that were asked for, with the bytes that they take.
    known: HashMap<Digest, (Arc<AsyncMutex<SidecarLookup>>, usize)>,
    /// Their digests, in the order in which they were first asked for.
    order: VecDeque<Digest>,
    bytes: usize,
    /// The directories in which sidecars were found, the latest last.
    homes: Vec<String>,
    /// The keys of those that are being written or have been.
    written: HashMap<String, Arc<OnceCell<()>>>,
}

/// The search for one sidecar.
#[derive(Debug, Default)]
struct SidecarLookup {
    content: Option<Arc<Extended>>,
    /// The directories in which there is none, or a damaged one.
    tried: HashSet<String>,
    damaged: Option<Error>,
}

impl Sidecars {
    fn state(&self) -> MutexGuard<'_, SidecarState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a sidecar in the directory whose keys begin with `home`, unless that has been done.
    ///
    /// # Errors
    /// Those of the request.
    pub(crate) async fn write(&self, api: &dyn ObjectApi, home: &str, sidecar: &Sidecar<'_>) -> Result<()> {
        let key = format!("{home}{}", sidecar.name.key());
        let cell = {
            let mut state = self.state();
            if state.written.len() >= WRITTEN_MAX {
                state.written.retain(|_, cell| !cell.initialized());
            }
            Arc::clone(state.written.entry(key.clone()).or_default())
        };
        let write = || async {
            let properties =
                ObjectProperties { content_type: Some(UNKNOWN.to_owned()), ..ObjectProperties::default() };
            let put = PutObject {
                key: &key,
                content: vec![Bytes::copy_from_slice(sidecar.content)],
                properties: &properties,
                condition: &PutCondition::None,
                crc64: Some(crc64(sidecar.content)),
            };
            api.put(put).await.map(drop).map_err(|error| error.at(&key))
        };
        cell.get_or_try_init(write).await.copied()
    }

    /// Returns the content of a sidecar that the object at `key` refers to.
    ///
    /// It is below the directory that was the target of that object's copy, which can be any above the object.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or damaged, or the error of a request.
    pub(crate) async fn read(
        &self,
        api: &dyn ObjectApi,
        root: &KeyRoot,
        key: &str,
        name: &SidecarName,
    ) -> Result<Arc<Extended>> {
        let (lookup, homes) = self.lookup(name.digest);
        let mut lookup = lookup.lock().await;
        if let Some(content) = &lookup.content {
            return same_classes(name, content);
        }
        let above = key.char_indices().rev().filter(|(_, char)| *char == '/').map(|(at, _)| &key[..=at]);
        let near = homes.iter().rev().map(String::as_str).filter(|home| key.starts_with(home));
        let places = near.chain([root.prefix()]).chain(above).chain([""]);
        for place in places {
            if lookup.tried.contains(place) {
                continue;
            }
            match fetch(api, place, name).await {
                Ok(Some(content)) => {
                    let content = Arc::new(content);
                    lookup.content = Some(Arc::clone(&content));
                    self.found(place, &name.digest, content.as_bytes().len());
                    return Ok(content);
                }
                Ok(None) => {}
                Err(error) if error.kind == ErrorKind::Corrupt => lookup.damaged = Some(error),
                Err(error) => return Err(error),
            }
            lookup.tried.insert(place.to_owned());
        }
        Err(lookup.damaged.clone().unwrap_or_else(|| name.missing()))
    }

    /// Returns the search for a sidecar, and the directories in which others were found.
    fn lookup(&self, digest: Digest) -> (Arc<AsyncMutex<SidecarLookup>>, Vec<String>) {
        let mut state = self.state();
        let SidecarState { known, order, bytes, homes, .. } = &mut *state;
        if !known.contains_key(&digest) {
            while order.len() >= KNOWN_MAX || *bytes > KNOWN_BYTES_MAX {
                let Some(oldest) = order.pop_front() else { break };
                *bytes = bytes.saturating_sub(known.remove(&oldest).map_or(0, |(_, bytes)| bytes));
            }
            order.push_back(digest);
        }
        (Arc::clone(&known.entry(digest).or_default().0), homes.clone())
    }

    fn found(&self, place: &str, digest: &Digest, bytes: usize) {
        let mut state = self.state();
        if let Some((_, of_this)) = state.known.get_mut(digest) {
            let before = std::mem::replace(of_this, bytes);
            state.bytes = (state.bytes + bytes).saturating_sub(before);
        }
        state.homes.retain(|home| home != place);
        if state.homes.len() >= HOMES_MAX {
            state.homes.remove(0);
        }
        state.homes.push(place.to_owned());
    }
}

/// Returns attributes that were read, if they are of the classes that the name says.
fn same_classes(name: &SidecarName, content: &Arc<Extended>) -> Result<Arc<Extended>> {
    match content.as_ref().as_ref().classes() == name.classes {
        true => Ok(Arc::clone(content)),
        false => name.read(content.as_bytes().to_vec()).map(Arc::new),
    }
}

/// Reads a sidecar in a directory, or returns `None` if it is not there.
async fn fetch(api: &dyn ObjectApi, place: &str, name: &SidecarName) -> Result<Option<Extended>> {
    let key = format!("{place}{}", name.key());
    let ObjectBody { head, mut chunks } = match api.get(&key, None, None).await {
        Ok(body) => body,
        Err(error) if error.kind == ErrorKind::SourceVanished => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    // A larger one is damaged, whatever it has.
    if head.size_bytes <= EXTENDED_BYTES_MAX as u64 {
        while let Some(chunk) = chunks.next().await {
            content.extend_from_slice(&chunk?);
        }
    }
    name.read(content).map(Some)
}
