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
/// The most sidecars that are remembered as undamaged. After that, some are read again.
const SOUND_MAX: usize = 1 << 16;
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
    /// Those that were read or written, with the directories that they are in.
    sound: HashMap<SidecarName, Vec<String>>,
}

/// The search for one sidecar.
#[derive(Debug, Default)]
struct SidecarLookup {
    content: Option<Arc<Extended>>,
    /// The directories in which there is none, or one that cannot be read.
    tried: HashSet<String>,
    damaged: Option<Error>,
    denied: Option<Error>,
}

impl SidecarState {
    fn forget(&mut self, digest: &Digest) {
        if let Some((_, bytes)) = self.known.remove(digest) {
            self.bytes = self.bytes.saturating_sub(bytes);
            self.order.retain(|known| known != digest);
        }
    }

    fn add_sound(&mut self, name: &SidecarName, place: &str) {
        if self.sound.len() >= SOUND_MAX {
            self.sound.clear();
        }
        let places = self.sound.entry(*name).or_default();
        if !places.iter().any(|known| known == place) && places.len() < HOMES_MAX {
            places.push(place.to_owned());
        }
    }

    fn is_sound(&self, name: &SidecarName, key: &str) -> bool {
        self.sound.get(name).is_some_and(|places| places.iter().any(|place| key.starts_with(place)))
    }
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
        cell.get_or_try_init(write).await?;
        let mut state = self.state();
        // It may have been missed before.
        state.forget(&sidecar.name.digest);
        state.add_sound(&sidecar.name, home);
        Ok(())
    }

    /// Checks that a sidecar that the object at `key` refers to is there and undamaged.
    ///
    /// # Errors
    /// As [`Sidecars::read`].
    pub(crate) async fn check(
        &self,
        api: &dyn ObjectApi,
        root: &KeyRoot,
        key: &str,
        name: &SidecarName,
    ) -> Result<()> {
        if self.state().is_sound(name, key) {
            return Ok(());
        }
        let (lookup, homes) = self.lookup(name.digest);
        let mut lookup = lookup.lock().await;
        // Another entry may have been waited for.
        if self.state().is_sound(name, key) {
            return Ok(());
        }
        self.search(api, (root, &homes), (key, name), &mut lookup).await.map(drop)
    }

    /// Returns the content of a sidecar that the object at `key` refers to.
    ///
    /// It is below the directory that was the target of that object's copy, which can be any above the object.
    ///
    /// # Errors
    /// `Corrupt` if it is missing or damaged, `PermissionDenied` or `Unsupported` if it cannot be read, or may be where
    /// nothing can be read, or another error of a request.
    pub(crate) async fn read(
        &self,
        api: &dyn ObjectApi,
        root: &KeyRoot,
        key: &str,
        name: &SidecarName,
    ) -> Result<Arc<Extended>> {
        let (lookup, homes) = self.lookup(name.digest);
        let mut lookup = lookup.lock().await;
        match &lookup.content {
            Some(content) => same_classes(name, content),
            None => self.search(api, (root, &homes), (key, name), &mut lookup).await,
        }
    }

    /// Reads a sidecar in the directories above the object at a key.
    async fn search(
        &self,
        api: &dyn ObjectApi,
        (root, homes): (&KeyRoot, &[String]),
        (key, name): (&str, &SidecarName),
        lookup: &mut SidecarLookup,
    ) -> Result<Arc<Extended>> {
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
                    self.found(place, name, content.as_bytes().len());
                    return Ok(content);
                }
                Ok(None) => {}
                Err(error) if error.kind == ErrorKind::Corrupt => lookup.damaged = Some(error),
                // Rights for a part of a bucket may not extend to what is above it, and archived objects are not read.
                Err(error) if matches!(error.kind, ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
                    lookup.denied = Some(error);
                }
                Err(error) => return Err(error),
            }
            lookup.tried.insert(place.to_owned());
        }
        let SidecarLookup { damaged, denied, .. } = lookup;
        Err(damaged.as_ref().or(denied.as_ref()).cloned().unwrap_or_else(|| name.missing()))
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

    fn found(&self, place: &str, name: &SidecarName, bytes: usize) {
        let mut state = self.state();
        state.add_sound(name, place);
        if let Some((_, of_this)) = state.known.get_mut(&name.digest) {
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
