//! Changes of an object store between two steps by another program, which knows nothing of modes and owners.

use std::fs;
use std::path::PathBuf;

use super::environment::object_store::StoreClient;
use super::key_names;
use super::model::{Content, ModelTree, Name, NodeKind};
use super::mutate::Mutation;
use super::rng;

/// The largest object that is written, in bytes.
const SIZE_MAX: u64 = 2 << 20;

/// The objects below a prefix.
#[derive(Clone, Debug)]
pub struct ObjectTree {
    /// The program that changes them.
    pub client: StoreClient,
    /// The prefix of their keys, without a slash at the end.
    pub prefix: String,
    /// The directory in which the server keeps them.
    pub folder: PathBuf,
}

impl ObjectTree {
    /// Stores the files of a tree, and a part of its directories.
    pub fn realize(&self, tree: &ModelTree) -> anyhow::Result<()> {
        for (number, node) in tree.nodes.iter().enumerate() {
            match &node.kind {
                NodeKind::File(content) => self.store(&node.path, content)?,
                NodeKind::Directory if number % 2 == 1 => self.store_marker(&node.path)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Applies a mutation, if there is one like it for objects.
    pub fn apply(&self, mutation: &Mutation) -> anyhow::Result<()> {
        match mutation {
            Mutation::Put(node) => {
                let place = self.place(&node.path);
                match &node.kind {
                    NodeKind::File(content) if !place.is_dir() => self.store(&node.path, content)?,
                    NodeKind::Directory if !place.is_file() => self.store_marker(&node.path)?,
                    _ => {}
                }
            }
            Mutation::Remove(path) if !path.0.is_empty() => {
                let place = self.place(path);
                // The server has no other memory of an object than its file.
                if place.is_dir() {
                    fs::remove_dir_all(&place)?;
                } else if place.exists() {
                    self.client.delete(&self.key(path))?;
                }
            }
            Mutation::ReplaceKeepingTime(path, seed) => self.rewrite(path, *seed, |size| size)?,
            Mutation::RewriteKeepingTime(path, extent) | Mutation::Write(path, extent, _) => {
                self.rewrite(path, extent.at, |size| size)?;
            }
            Mutation::Resize(path, size, _) => self.rewrite(path, *size, |_| *size)?,
            Mutation::Insert(path, length, _) => self.rewrite(path, *length, |size| size + length)?,
            _ => {}
        }
        Ok(())
    }

    fn place(&self, path: &Name) -> PathBuf {
        self.folder.join(key_names::spelled(&path.0))
    }

    fn key(&self, path: &Name) -> Vec<u8> {
        format!("{}/{}", self.prefix, key_names::spelled(&path.0)).into_bytes()
    }

    fn rewrite(&self, path: &Name, seed: u64, size: impl FnOnce(u64) -> u64) -> anyhow::Result<()> {
        let Ok(metadata) = fs::symlink_metadata(self.place(path)) else { return Ok(()) };
        let size = size(metadata.len());
        if metadata.is_file() && size <= SIZE_MAX {
            self.client.put(&self.key(path), &rng::noise(seed, size as usize))?;
        }
        Ok(())
    }

    fn store(&self, path: &Name, content: &Content) -> anyhow::Result<()> {
        if content.size > SIZE_MAX {
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
