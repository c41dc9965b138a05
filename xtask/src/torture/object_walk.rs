//! The oracle's inspection of object stores: reads objects and their metadata as docs/book/object-stores.md describes
//! them.
//!
//! versitygw keeps an object as a file, one whose key ends with a slash as a directory with an ETag, and metadata as
//! JSON in an extended attribute; inode and change time show whether an object was written again. From Azurite and
//! fake-gcs-server the objects are read by requests, and tags and generations show that.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::{Context, bail};
use rustix::io::Errno;

use super::base64::from_base64;
use super::environment::object_store::{StoreClient, TortureStoreKind};
use super::key_names;
use super::model::{Name, Time};
use super::object_fields::{ObjectFields, extended_attributes};
use super::walk::{SeenEntry, SeenKind, Snapshot, StoredFacts, content_digest, digest_of};

const METADATA: &str = "user.metadata";
const ETAG: &str = "user.etag";
/// The directory of extended attributes that do not fit into metadata.
pub const SIDECARS: &str = ".hakobu.attributes";
/// The device number of entries whose inode number was made up.
const NO_DEVICE: u64 = u64::MAX;

/// An object, or a directory that is none.
struct WalkedObject {
    /// The key below the prefix, without a slash at the end.
    key: String,
    /// True if it is an object.
    is_object: bool,
    is_directory: bool,
    metadata: BTreeMap<String, String>,
    uploaded: Time,
    /// Numbers that a change of the object changes.
    inode: (u64, u64),
    ctime: Time,
    room: u64,
    size: u64,
    /// The content as an entry has it.
    digest: [u8; 32],
    /// The content, if it is short.
    text: Vec<u8>,
}

/// The largest object in bytes whose content may be the text of a link.
const LINK_BYTES_MAX: u64 = 4095;
/// The largest object in bytes whose content may be attributes.
const SIDECAR_BYTES_MAX: u64 = 4 << 20;

/// Returns a snapshot of the objects that versitygw keeps in a directory. Removes directories that are no objects and
/// have none in them, such as a refused upload leaves: no listing shows them, and the server takes no file in their place.
pub fn walk_files(root: &Path) -> anyhow::Result<Snapshot> {
    remove_empty(root)?;
    let mut objects = Vec::new();
    let mut left = vec![(String::new(), root.to_owned())];
    while let Some((key, place)) = left.pop() {
        let metadata = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            result => result.with_context(|| format!("looking at {key}"))?,
        };
        if metadata.is_dir() {
            for child in fs::read_dir(&place)? {
                let child = child?;
                let name = child.file_name();
                let name = name.to_str().with_context(|| format!("the key {key}/{name:?} is no text"))?;
                left.push((below(&key, name), child.path()));
            }
        }
        objects.push(look(key, &place, &metadata)?);
    }
    entries(TortureStoreKind::Versitygw, objects)
}

fn remove_empty(directory: &Path) -> anyhow::Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    let mut is_empty = true;
    for child in fs::read_dir(directory)? {
        let child = child?;
        if child.file_type()?.is_dir() {
            remove_empty(&child.path())?;
        }
        is_empty &= !child.path().exists();
    }
    if is_empty && attribute(directory, ETAG)?.is_none() {
        fs::remove_dir(directory)?;
    }
    Ok(())
}

fn below(key: &str, name: &str) -> String {
    if key.is_empty() { name.to_owned() } else { format!("{key}/{name}") }
}

fn look(key: String, place: &Path, metadata: &fs::Metadata) -> anyhow::Result<WalkedObject> {
    let (is_directory, size) = (metadata.is_dir(), metadata.size());
    let pairs = match attribute(place, METADATA)? {
        Some(text) => serde_json::from_slice(&text).context("reading the metadata")?,
        None => BTreeMap::new(),
    };
    let is_short = size <= LINK_BYTES_MAX || size <= SIDECAR_BYTES_MAX && key.contains(SIDECARS);
    let is_text = !is_directory && is_short;
    Ok(WalkedObject {
        is_object: !is_directory || attribute(place, ETAG)?.is_some(),
        is_directory,
        metadata: pairs,
        uploaded: Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 },
        inode: (metadata.dev(), metadata.ino()),
        // A directory's marker is stored again when its entries were examined.
        ctime: match is_directory {
            true => Time::default(),
            false => Time { s: metadata.ctime(), ns: metadata.ctime_nsec() as u32 },
        },
        room: metadata.blocks() * 512,
        size,
        digest: if is_directory { [0; 32] } else { content_digest(place, size)? },
        text: if is_text { fs::read(place)? } else { Vec::new() },
        key,
    })
}

/// Returns a snapshot of the objects below a prefix of another store.
pub fn walk_prefix(client: StoreClient, kind: TortureStoreKind, prefix: &str) -> anyhow::Result<Snapshot> {
    let mut objects = BTreeMap::new();
    for object in client.list(&format!("{prefix}/"))? {
        let rest = object.key.strip_prefix(&format!("{prefix}/")).context("a key without the prefix")?;
        let is_folder = object.metadata.get("hdi_isfolder").is_some_and(|value| value == "true");
        let is_directory = rest.ends_with('/') || kind == TortureStoreKind::Azurite && is_folder;
        let content = if is_directory { Vec::new() } else { client.get(&object.key)? };
        let key = rest.trim_end_matches('/').to_owned();
        let walked = WalkedObject {
            is_object: true,
            is_directory,
            metadata: object.metadata,
            uploaded: Time { s: object.uploaded.0, ns: object.uploaded.1 },
            inode: (0, if is_directory { 0 } else { object.version }),
            ctime: Time::default(),
            room: content.len() as u64,
            size: content.len() as u64,
            digest: digest_of(&content),
            text: content,
            key: key.clone(),
        };
        if objects.insert(key.clone(), walked).is_some() {
            bail!("{key} is a directory and no directory");
        }
    }
    let keys: Vec<String> = objects.keys().cloned().collect();
    for key in keys {
        let above = key.match_indices('/').map(|(at, _)| key[..at].to_owned());
        for directory in above.chain([String::new()]) {
            let found = objects.entry(directory.clone()).or_insert_with(|| implied(directory));
            if !found.is_directory {
                bail!("{} is a file, and there is {key}", found.key);
            }
        }
    }
    entries(kind, objects.into_values().collect())
}

/// Returns a directory that exists because something is in it.
fn implied(key: String) -> WalkedObject {
    WalkedObject {
        key,
        is_object: false,
        is_directory: true,
        metadata: BTreeMap::new(),
        uploaded: Time::default(),
        inode: (0, 0),
        ctime: Time::default(),
        room: 0,
        size: 0,
        digest: [0; 32],
        text: Vec::new(),
    }
}

/// Returns the entries that objects stand for.
fn entries(kind: TortureStoreKind, objects: Vec<WalkedObject>) -> anyhow::Result<Snapshot> {
    let is_sidecar = |key: &str| key.split('/').any(|name| name == SIDECARS);
    let (sidecars, objects): (Vec<_>, Vec<_>) =
        objects.into_iter().partition(|object| is_sidecar(&object.key));
    let sidecars: BTreeMap<String, Vec<u8>> =
        sidecars.into_iter().map(|object| (object.key, object.text)).collect();
    let mut found = Snapshot::new();
    let mut names: BTreeMap<Vec<u8>, Vec<Name>> = BTreeMap::new();
    for object in objects {
        let mut path = Name::default();
        for part in object.key.split('/').filter(|part| !part.is_empty()) {
            let name = key_names::read(kind, part);
            path = path.join(&name.with_context(|| format!("the key {} stands for no name", object.key))?);
        }
        let key = object.key.clone();
        let (entry, identity) =
            entry(kind, object, &sidecars).with_context(|| format!("looking at {key}"))?;
        if let Some(identity) = identity.filter(|_| entry.is_file()) {
            // Names of one file have equal attributes and contents.
            let facts = format!(
                "{identity} {:?} {:o} {:?} {:?} {:?}",
                entry.kind, entry.mode, entry.owner, entry.mtime, entry.xattrs
            );
            names.entry(facts.into_bytes()).or_default().push(path.clone());
        }
        found.insert(path, entry);
    }
    for (facts, names) in names.iter().filter(|(_, names)| names.len() > 1) {
        let number = digest_of(facts).iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        for name in names {
            if let Some(entry) = found.get_mut(name) {
                entry.inode = (NO_DEVICE, number);
                entry.links = names.len() as u64;
            }
        }
    }
    Ok(found)
}

/// Returns the entry that an object stands for, and the identity that names of one file share.
fn entry(
    kind: TortureStoreKind,
    object: WalkedObject,
    sidecars: &BTreeMap<String, Vec<u8>>,
) -> anyhow::Result<(SeenEntry, Option<String>)> {
    let fields = ObjectFields::of(kind, &object.metadata)?;
    let xattrs = match &fields.attributes {
        None => BTreeMap::new(),
        Some(value) => extended_attributes(&attribute_bytes(value, &object.key, sidecars)?)?,
    };
    let seen = match fields.kind {
        _ if object.is_directory => SeenKind::Directory,
        Some(SeenKind::Link(_)) => SeenKind::Link(object.text),
        Some(SeenKind::File { .. } | SeenKind::Directory) | None => {
            SeenKind::File { size: object.size, digest: object.digest }
        }
        Some(other) => other,
    };
    let usual = if object.is_directory { 0o755 } else { 0o644 };
    let shows_all = kind != TortureStoreKind::Versitygw;
    let is_bare = fields.mode.is_none() || !object.is_object;
    Ok((
        SeenEntry {
            kind: seen,
            mode: fields.mode.unwrap_or(usual),
            owner: fields.owner.unwrap_or((0, 0)),
            mtime: fields.mtime.unwrap_or(object.uploaded),
            xattrs,
            inode: object.inode,
            links: 1,
            ctime: object.ctime,
            room: object.room,
            told_bytes: object.size,
            stored: Some(StoredFacts {
                uploaded: object.uploaded,
                version: object.inode,
                is_bare,
                shows_all,
            }),
        },
        fields.identity,
    ))
}

/// Returns the extended attributes that a value in metadata stands for. A sidecar is in the entry's directory or in one
/// above.
fn attribute_bytes(value: &str, key: &str, sidecars: &BTreeMap<String, Vec<u8>>) -> anyhow::Result<Vec<u8>> {
    let Some((_, digest)) = value.strip_prefix("sidecar:").and_then(|rest| rest.split_once(':')) else {
        return Ok(from_base64(value));
    };
    let mut directory = Some(key);
    while let Some(here) = directory {
        if let Some(bytes) = sidecars.get(&below(here, &format!("{SIDECARS}/{digest}"))) {
            return Ok(bytes.clone());
        }
        directory = match here.rsplit_once('/') {
            Some((above, _)) => Some(above),
            None => (!here.is_empty()).then_some(""),
        };
    }
    bail!("the sidecar {digest} does not exist")
}

fn attribute(place: &Path, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; 1 << 16];
    match rustix::fs::lgetxattr(place, name, value.as_mut_slice()) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA) => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {name}")),
    }
}
