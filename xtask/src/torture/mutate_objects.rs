//! Changes of an object store between two steps by another program, which knows nothing of modes and owners.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::environment::object_store::{StoreClient, TortureStoreKind};
use super::key_names;
use super::model::{Content, ModelTree, Name, NodeKind};
use super::mutate::Mutation;
use super::object_walk::{self, SIDECARS};
use super::rng::{self, Rng};
use super::walk::{SeenEntry, Snapshot};

/// The largest object that is written, in bytes.
const SIZE_MAX: u64 = 2 << 20;

/// The objects below a prefix.
#[derive(Clone, Debug)]
pub struct ObjectTree {
    /// The kind of the store.
    pub kind: TortureStoreKind,
    /// The program that changes them.
    pub client: StoreClient,
    /// The prefix of the keys of everything that is read, without a slash at the end.
    pub prefix: String,
    /// The path of the tree below that prefix.
    pub tree: Name,
    /// The directory in which the server keeps the objects of the prefix, if it keeps them as files.
    pub files: Option<PathBuf>,
}

impl ObjectTree {
    /// Returns a snapshot of everything below the prefix.
    pub fn walk(&self) -> anyhow::Result<Snapshot> {
        match &self.files {
            Some(files) => object_walk::walk_files(files),
            None => object_walk::walk_prefix(self.client, self.kind, &self.prefix),
        }
    }

    /// Returns the keys of the objects at the top of the tree that keep extended attributes of others.
    pub fn sidecars(&self) -> anyhow::Result<Vec<String>> {
        let prefix = format!("{}/", self.key_text(&Name(SIDECARS.as_bytes().to_vec()))?);
        let Some(files) = &self.files else {
            return Ok(self.client.list(&prefix)?.into_iter().map(|object| object.key).collect());
        };
        let folder = files.join(OsStr::from_bytes(&self.tree.0)).join(SIDECARS);
        if !folder.is_dir() {
            return Ok(Vec::new());
        }
        let names: Result<Vec<_>, _> =
            fs::read_dir(folder)?.map(|entry| Ok::<_, std::io::Error>(entry?.file_name())).collect();
        let mut keys: Vec<String> =
            names?.iter().map(|name| format!("{prefix}{}", name.to_string_lossy())).collect();
        keys.sort();
        Ok(keys)
    }

    /// Returns the content of a file.
    pub fn content(&self, path: &Name) -> anyhow::Result<Vec<u8>> {
        let whole = self.tree.join(&path.0);
        Ok(match &self.files {
            Some(files) => fs::read(files.join(key_names::spelled(self.kind, &whole.0)))?,
            None => self.client.get(&String::from_utf8(self.key_of(&whole))?)?,
        })
    }

    /// Stores the files of a tree, and a part of its directories.
    pub fn realize(&self, tree: &ModelTree) -> anyhow::Result<()> {
        let there = Snapshot::new();
        for (number, node) in tree.nodes.iter().enumerate() {
            match &node.kind {
                NodeKind::File(content) => self.store(&node.path, content, &there)?,
                NodeKind::Directory if number % 2 == 1 => self.store_marker(&node.path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies a mutation, if there is one like it for objects.
    pub fn apply(&self, mutation: &Mutation) -> anyhow::Result<()> {
        // Another program may leave what the oracle cannot read, so nothing but this is looked at.
        let there = self.walk()?;
        let whole = |path: &Name| self.tree.join(&path.0);
        match mutation {
            Mutation::Put(node) => {
                let seen = there.get(&whole(&node.path)).map(SeenEntry::is_directory);
                match &node.kind {
                    NodeKind::File(content) if seen != Some(true) => {
                        self.store(&node.path, content, &there)?;
                    }
                    NodeKind::Directory if seen != Some(false) && self.has_room(&node.path, &there) => {
                        self.store_marker(&node.path)?;
                    }
                    _ => {}
                }
            }
            Mutation::Remove(path) if !path.0.is_empty() => self.remove(path, &there)?,
            Mutation::ReplaceKeepingTime(path, seed) => self.rewrite(path, *seed, &there, |size| size)?,
            Mutation::RewriteKeepingTime(path, extent) | Mutation::Write(path, extent, _) => {
                self.rewrite(path, extent.at, &there, |size| size)?;
            }
            Mutation::Resize(path, size, _) => self.rewrite(path, *size, &there, |_| *size)?,
            Mutation::Insert(path, length, _) => self.rewrite(path, *length, &there, |size| size + length)?,
            _ => {}
        }
        Ok(())
    }

    /// Changes objects until `is_over`, and returns the paths of the entries that changed. Directories stay.
    pub fn meddle(&self, seed: u64, is_over: impl Fn() -> bool) -> anyhow::Result<Vec<Name>> {
        let mut rng = Rng::new(seed);
        let there = self.walk()?;
        let below = |path: &Name| match self.tree.0.as_slice() {
            [] => Some(path.clone()),
            tree => path.0.strip_prefix(tree)?.strip_prefix(b"/").map(|rest| Name(rest.to_vec())),
        };
        let files: Vec<(Name, u64)> = there
            .iter()
            .filter(|(_, entry)| entry.is_file() && entry.size() <= SIZE_MAX)
            .filter_map(|(path, entry)| Some((below(path)?, entry.size())))
            .collect();
        let mut changed = Vec::new();
        while !files.is_empty() && !is_over() && changed.len() < 200 {
            let (path, size) = &files[rng.below(files.len() as u64) as usize];
            let key = self.key(path);
            match rng.below(5) {
                0 => self.client.delete(&key)?,
                1 => {
                    self.client.put(&key, &rng::noise(rng.next(), *size as usize))?;
                }
                2 => {
                    let further =
                        path.parent().unwrap_or_default().join(format!("m{}", rng.below(30)).as_bytes());
                    let is_free = !there.contains_key(&self.tree.join(&further.0));
                    if is_free {
                        self.client.put(&self.key(&further), b"meddled")?;
                        changed.push(further);
                    }
                }
                _ => {
                    let size = rng.below(9_000) as usize;
                    self.client.put(&key, &rng::noise(rng.next(), size))?;
                }
            }
            changed.push(path.clone());
            std::thread::sleep(std::time::Duration::from_micros(rng.below(3_000)));
        }
        Ok(changed)
    }

    /// Returns true if nothing above a path is a file.
    fn has_room(&self, path: &Name, there: &Snapshot) -> bool {
        let above = std::iter::successors(path.parent(), Name::parent);
        above
            .into_iter()
            .all(|above| there.get(&self.tree.join(&above.0)).is_none_or(SeenEntry::is_directory))
    }

    fn remove(&self, path: &Name, there: &Snapshot) -> anyhow::Result<()> {
        let whole = self.tree.join(&path.0);
        if let Some(files) = &self.files {
            let place = files.join(key_names::spelled(self.kind, &whole.0));
            // The server has no other memory of an object than its file.
            if place.is_dir() {
                fs::remove_dir_all(&place)?;
            } else if place.exists() {
                self.client.delete(&self.key(path))?;
            }
            return Ok(());
        }
        let is_within = |other: &Name| *other == whole || other.is_below(&whole);
        for (other, entry) in there.iter().filter(|(other, _)| is_within(other)) {
            let mut key = self.key_of(other);
            if entry.is_directory() && self.kind == TortureStoreKind::FakeGcs {
                key.push(b'/');
            }
            self.client.delete(&key)?;
        }
        Ok(())
    }

    fn key(&self, path: &Name) -> Vec<u8> {
        self.key_of(&self.tree.join(&path.0))
    }

    fn key_text(&self, path: &Name) -> anyhow::Result<String> {
        Ok(String::from_utf8(self.key(path))?)
    }

    fn key_of(&self, whole: &Name) -> Vec<u8> {
        format!("{}/{}", self.prefix, key_names::spelled(self.kind, &whole.0)).into_bytes()
    }

    fn rewrite(
        &self,
        path: &Name,
        seed: u64,
        there: &Snapshot,
        size: impl FnOnce(u64) -> u64,
    ) -> anyhow::Result<()> {
        let Some(entry) = there.get(&self.tree.join(&path.0)) else { return Ok(()) };
        let size = size(entry.told_bytes);
        if !entry.is_directory() && size <= SIZE_MAX {
            self.client.put(&self.key(path), &rng::noise(seed, size as usize))?;
        }
        Ok(())
    }

    fn store(&self, path: &Name, content: &Content, there: &Snapshot) -> anyhow::Result<()> {
        if content.size > SIZE_MAX || !self.has_room(path, there) {
            return Ok(());
        }
        let mut bytes = vec![0; content.size as usize];
        for extent in &content.extents {
            let (from, data) = (extent.at as usize, extent.bytes());
            let end = (from + data.len()).min(bytes.len());
            if from < end {
                bytes[from..end].copy_from_slice(&data[..end - from]);
            }
        }
        self.client.put(&self.key(path), &bytes)?;
        Ok(())
    }

    fn store_marker(&self, path: &Name) -> anyhow::Result<()> {
        self.client.put(&[self.key(path), b"/".to_vec()].concat(), &[])?;
        Ok(())
    }
}

/// Returns what is at a path and below it, as a tree of its own.
pub fn subtree(whole: Snapshot, path: &Name) -> Snapshot {
    if path.0.is_empty() {
        return whole;
    }
    let mut part = BTreeMap::new();
    for (other, entry) in whole {
        if other == *path {
            part.insert(Name::default(), entry);
        } else if other.is_below(path) {
            part.insert(Name(other.0[path.0.len() + 1..].to_vec()), entry);
        }
    }
    part
}
