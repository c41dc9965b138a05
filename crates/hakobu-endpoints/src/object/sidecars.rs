//! The objects with extended attributes of other objects, each read and written once.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::StreamExt;
use hakobu_core::checksum::crc64;
use hakobu_core::digest::Digest;
use hakobu_core::extended::{EXTENDED_BYTES_MAX, Extended};
use hakobu_core::{Error, ErrorKind, Result};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use super::api::{ListQuery, ListStart, ObjectApi, ObjectBody, ObjectProperties, PutCondition, PutObject};
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
    /// The directories in which none can be read.
    tried: HashMap<String, SidecarLack>,
}

/// The reason for which a directory gives no sidecar.
#[derive(Clone, Debug)]
enum SidecarLack {
    /// There is none.
    Missing,
    /// It has other content.
    Damaged(Error),
    /// It is there.
    Unreadable(Error),
    /// Nobody may know whether there is one.
    Denied(Error),
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
    /// As [`Sidecars::read`], but `Corrupt` as well if it is not where nothing is denied.
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
        let Err(lacks) = self.search(api, (root, &homes), (key, name), &mut lookup).await? else {
            return Ok(());
        };
        // Where nothing is denied, an entry of this target has its sidecar.
        let is_lost = lacks.iter().any(|it| matches!(it, SidecarLack::Missing | SidecarLack::Damaged(_)));
        let is_there = lacks.iter().any(|it| matches!(it, SidecarLack::Unreadable(_)));
        Err(if is_lost && !is_there { name.missing() } else { cause(name, lacks) })
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
            None => {
                let found = self.search(api, (root, &homes), (key, name), &mut lookup).await?;
                found.map_err(|lacks| cause(name, lacks))
            }
        }
    }

    /// Reads a sidecar in the directories above the object at a key. The inner error tells why none of them has one.
    async fn search(
        &self,
        api: &dyn ObjectApi,
        (root, homes): (&KeyRoot, &[String]),
        (key, name): (&str, &SidecarName),
        lookup: &mut SidecarLookup,
    ) -> Result<std::result::Result<Arc<Extended>, Vec<SidecarLack>>> {
        let above = key.char_indices().rev().filter(|(_, char)| *char == '/').map(|(at, _)| &key[..=at]);
        let near = homes.iter().rev().map(String::as_str).filter(|home| key.starts_with(home));
        let mut lacks = Vec::new();
        for place in near.chain([root.prefix()]).chain(above).chain([""]) {
            let lack = match lookup.tried.get(place) {
                Some(lack) => lack.clone(),
                None => match fetch(api, place, name).await? {
                    Ok(content) => {
                        let content = Arc::new(content);
                        lookup.content = Some(Arc::clone(&content));
                        self.found(place, name, content.as_bytes().len());
                        return Ok(Ok(content));
                    }
                    Err(lack) => {
                        lookup.tried.insert(place.to_owned(), lack.clone());
                        lack
                    }
                },
            };
            lacks.push(lack);
        }
        Ok(Err(lacks))
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

/// Returns the error for a sidecar that no directory gives.
fn cause(name: &SidecarName, lacks: Vec<SidecarLack>) -> Error {
    let rank = |lack: &SidecarLack| match lack {
        SidecarLack::Damaged(_) => 0,
        SidecarLack::Unreadable(_) => 1,
        SidecarLack::Denied(_) => 2,
        SidecarLack::Missing => 3,
    };
    match lacks.into_iter().min_by_key(rank) {
        Some(SidecarLack::Damaged(error) | SidecarLack::Unreadable(error) | SidecarLack::Denied(error)) => {
            error
        }
        Some(SidecarLack::Missing) | None => name.missing(),
    }
}

/// Reads a sidecar in a directory. The inner error tells why it gives none.
async fn fetch(
    api: &dyn ObjectApi,
    place: &str,
    name: &SidecarName,
) -> Result<std::result::Result<Extended, SidecarLack>> {
    let key = format!("{place}{}", name.key());
    let ObjectBody { head, mut chunks } = match api.get(&key, None, None).await {
        Ok(body) => body,
        Err(error) => {
            return match error.kind {
                ErrorKind::SourceVanished => Ok(Err(SidecarLack::Missing)),
                // It is archived.
                ErrorKind::Unsupported => Ok(Err(SidecarLack::Unreadable(error))),
                // Without the right to list all of a bucket, what is missing is denied.
                ErrorKind::PermissionDenied => match is_listed(api, &key).await {
                    Ok(true) => Ok(Err(SidecarLack::Unreadable(error))),
                    Ok(false) => Ok(Err(SidecarLack::Missing)),
                    Err(other) if other.kind == ErrorKind::PermissionDenied => {
                        Ok(Err(SidecarLack::Denied(error)))
                    }
                    Err(other) => Err(other),
                },
                _ => Err(error),
            };
        }
    };
    let mut content = Vec::new();
    // A larger one is damaged, whatever it has.
    if head.size_bytes <= EXTENDED_BYTES_MAX as u64 {
        while let Some(chunk) = chunks.next().await {
            content.extend_from_slice(&chunk?);
        }
    }
    Ok(name.read(content).map_err(SidecarLack::Damaged))
}

/// Returns true if a listing shows an object.
async fn is_listed(api: &dyn ObjectApi, key: &str) -> Result<bool> {
    let start = ListStart::First;
    let query = ListQuery { prefix: key, delimiter: false, start, until: None, entries: 1 };
    Ok(api.list(query).await?.objects.iter().any(|object| object.key == key))
}
