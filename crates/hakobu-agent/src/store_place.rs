//! A store that this process opens: examining what is in it, and opening its endpoints.

use std::time::Duration;

use hakobu_core::capabilities::Capabilities;
use hakobu_core::endpoint::{SourceEndpoint, TargetEndpoint};
use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::grant::Grant;
use hakobu_core::landing::{Ancestry, FileIdentity, TargetFound};
use hakobu_core::location::StoreName;
use hakobu_core::path::EntryPath;
use hakobu_core::store_settings::StoreSettings;
use hakobu_endpoints::open::{OpenedStore, open};
use hakobu_proto::control::{MachinePath, SourceAsk, SourceLook, StoreFacts, TargetLook};

use crate::machine::state_directory;

const LOOKING: &str = "looking at";
/// The target that discards content of which only a digest is wanted.
const NOWHERE: &[u8] = b"/dev/null";

/// The folder of the state directory for journals of objects that are sent.
const UPLOADS: &str = "uploads";

/// A store that this process has opened.
pub struct StorePlace {
    name: StoreName,
    opened: OpenedStore,
}

impl StorePlace {
    /// Opens a store.
    ///
    /// # Errors
    /// `Usage` for a store that this build does not support, and other reasons why it cannot be opened.
    pub fn open(name: &StoreName, settings: &StoreSettings) -> Result<Self> {
        let journals = state_directory().map(|state| state.path().join(UPLOADS));
        let opened = open(&name.scheme, &name.name, settings, journals);
        Ok(Self { name: name.clone(), opened: opened.map_err(|error| error.at(name.location_of(b"")))? })
    }

    /// Returns a path in it for messages.
    pub fn name_of(&self, path: &[u8]) -> Vec<u8> {
        self.name.location_of(path)
    }

    /// Returns the capabilities that a place in it has at best.
    pub fn capabilities(&self) -> Capabilities {
        self.opened.access.capabilities()
    }

    /// Returns the time that it took for an answer, or zero if that is not known.
    pub fn round_trip(&self) -> Duration {
        self.opened.access.round_trip()
    }

    /// Returns the facts about it that the controller of an agent needs.
    pub fn facts(&self) -> StoreFacts {
        let capabilities = self.capabilities();
        StoreFacts {
            fills_holes: capabilities.fills_holes,
            tells_links: capabilities.tells_links,
            shared_names: capabilities.shared_names,
            capabilities,
            round_trip: self.round_trip(),
        }
    }

    /// Returns true if it is reached through TLS, or `None` if that is not known.
    pub fn uses_tls(&self) -> Option<bool> {
        self.opened.access.uses_tls()
    }

    /// Converts a typed path to one in the store.
    fn path(&self, typed: &[u8]) -> Result<EntryPath> {
        let end = typed.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        EntryPath::new(&typed[..end]).map_err(|error| {
            let words = format!("it is no path in a store: {}", error.detail);
            Error::new(ErrorKind::Usage, LOOKING, words).at(self.name.location_of(typed))
        })
    }

    /// Removes what earlier runs have left of unfinished files at a typed path or below it.
    ///
    /// # Errors
    /// If the store refuses.
    pub fn remove_unfinished(&self, typed: &[u8]) -> Result<u64> {
        self.opened.access.remove_unfinished(&self.path(typed)?)
    }

    fn inspect(&self, path: &EntryPath) -> Result<Option<EntryMetadata>> {
        self.opened.access.inspect(path).map_err(|error| error.at(self.name_of(path.as_bytes())))
    }

    /// Examines a source.
    ///
    /// # Errors
    /// `NotFound`, or if the store cannot be asked.
    pub fn look_at_source(&self, ask: &SourceAsk) -> Result<SourceLook> {
        let path = self.path(&ask.path)?;
        let missing = || {
            Error::new(ErrorKind::NotFound, "looking at the source", "no such file or directory")
                .at(self.name_of(path.as_bytes()))
        };
        let found = self.inspect(&path)?.ok_or_else(missing)?;
        let (root, entry) = match path.split_last() {
            Some((parent, name)) if !(ask.contents && found.kind == EntryKind::Directory) => {
                (parent, EntryPath::root().join(name)?)
            }
            _ => (path.clone(), EntryPath::root()),
        };
        Ok(SourceLook {
            kind: found.kind,
            size_bytes: found.size_bytes,
            ancestry: self.ancestry(&path, true),
            root: root.as_bytes().to_vec(),
            entry,
            resolved: path.as_bytes().to_vec(),
            device: None,
            image: None,
            network: false,
            written_sectors: None,
        })
    }

    /// Returns the identities of a path and of all directories above it. In a store they are derived from the paths.
    fn ancestry(&self, path: &EntryPath, exists: bool) -> Ancestry {
        let identity = |path: &EntryPath| {
            let mut inode = [0; 8];
            inode.copy_from_slice(&blake3::hash(path.as_bytes()).as_bytes()[..8]);
            FileIdentity {
                boot_id: self.opened.identity.clone(),
                device: 0,
                inode: u64::from_le_bytes(inode),
            }
        };
        let above = |path: &EntryPath| path.split_last().map(|(parent, _)| parent);
        let first = if exists { Some(path.clone()) } else { above(path) };
        let upwards = std::iter::successors(first, above).map(|path| identity(&path)).collect();
        Ancestry { exists, upwards, volumes: Vec::new() }
    }

    /// Examines a target, which need not exist.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub fn look_at_target(&self, typed: &[u8]) -> Result<TargetLook> {
        if typed == NOWHERE {
            return Ok(look(TargetFound::CharacterDevice { null: true }, (NOWHERE, b"/dev", b"null")));
        }
        let path = self.path(typed)?;
        let there = self.inspect(&path)?;
        let (parent, name) = path.split_last().unwrap_or_default();
        let found = match &there {
            Some(there) => found(there),
            // Directories above it are created together with what is written.
            None => TargetFound::Absent { parent_exists: true },
        };
        Ok(look(found, (path.as_bytes(), parent.as_bytes(), name)))
    }

    /// Returns the identities of places below a directory, and of the directories above them.
    ///
    /// # Errors
    /// If the store cannot be asked.
    pub fn look_at_places(&self, root: &[u8], places: &[EntryPath]) -> Result<Vec<Ancestry>> {
        let root = self.path(root)?;
        let place = |place: &EntryPath| {
            let whole = place.names().try_fold(root.clone(), |path, name| path.join(name))?;
            let exists = self.inspect(&whole)?.is_some();
            Ok(self.ancestry(&whole, exists))
        };
        places.iter().map(place).collect()
    }

    /// Opens directories as a source.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub fn open_source(&self, roots: &[MachinePath]) -> Result<Box<dyn SourceEndpoint>> {
        let roots = roots.iter().map(|root| self.path(&root.0)).collect::<Result<Vec<_>>>()?;
        self.opened.access.source(&roots)
    }

    /// Opens a directory as a target.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open_target(&self, root: &[u8], grant: &Grant) -> Result<Box<dyn TargetEndpoint>> {
        self.opened.access.target(&self.path(root)?, grant)
    }
}

fn look(found: TargetFound, (resolved, parent, name): (&[u8], &[u8], &[u8])) -> TargetLook {
    TargetLook {
        found,
        resolved: resolved.to_vec(),
        parent: parent.to_vec(),
        name: name.to_vec(),
        device: None,
        unfinished: None,
        stray: false,
        network: false,
    }
}

/// Returns the kind of what exists at a target.
fn found(there: &EntryMetadata) -> TargetFound {
    match there.kind {
        EntryKind::Directory => TargetFound::Directory,
        EntryKind::Symlink => TargetFound::Symlink,
        EntryKind::File => TargetFound::File,
        _ => TargetFound::Special,
    }
}
