//! An abstract model of a tree, which histories start with, `realize` creates and `shrink` reduces.
//!
//! The model is plain data that can be stored as JSON. Names and paths are bytes, relative to the root of the tree. The
//! root itself has the empty path.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::rng;

/// A path below a root, as bytes. In JSON it is text, with bytes other than plain ASCII written as `%XX`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Name(pub Vec<u8>);

impl From<String> for Name {
    fn from(text: String) -> Self {
        let (text, mut bytes, mut at) = (text.as_bytes(), Vec::new(), 0);
        while at < text.len() {
            let hex = text.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
            match (text[at], hex.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
                (b'%', Some(byte)) => {
                    bytes.push(byte);
                    at += 3;
                }
                (byte, _) => {
                    bytes.push(byte);
                    at += 1;
                }
            }
        }
        Self(bytes)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.to_string()
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for byte in &self.0 {
            match byte {
                b'%' | 0..=0x20 | 0x7f.. => write!(out, "%{byte:02x}")?,
                byte => write!(out, "{}", char::from(*byte))?,
            }
        }
        Ok(())
    }
}

impl Name {
    /// Returns this path below a root.
    pub fn below(&self, root: &Path) -> PathBuf {
        if self.0.is_empty() { root.to_owned() } else { root.join(OsStr::from_bytes(&self.0)) }
    }

    /// Returns the parent directory, or `None` for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.0.is_empty() {
            return None;
        }
        let end = self.0.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        Some(Self(self.0[..end].to_vec()))
    }

    /// Returns the last component.
    pub fn base(&self) -> &[u8] {
        self.0.rsplit(|byte| *byte == b'/').next().unwrap_or_default()
    }

    /// Returns the path of an entry in this directory.
    pub fn join(&self, name: &[u8]) -> Self {
        let mut path = self.0.clone();
        if !path.is_empty() && !name.is_empty() {
            path.push(b'/');
        }
        path.extend_from_slice(name);
        Self(path)
    }

    /// Returns true if this path is below `directory`.
    pub fn is_below(&self, directory: &Self) -> bool {
        let (path, directory) = (&self.0, &directory.0);
        path != directory
            && path.starts_with(directory)
            && (directory.is_empty() || path.get(directory.len()) == Some(&b'/'))
    }
}

/// A tree: the root first, and every directory before its entries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ModelTree {
    /// All entries.
    pub nodes: Vec<TreeNode>,
}

/// One entry of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TreeNode {
    /// The path below the root.
    pub path: Name,
    /// The kind of entry, with its content.
    pub kind: NodeKind,
    /// Permissions, set-ID and sticky bits.
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The modification time.
    pub mtime: Time,
    /// Extended attributes and access control lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attributes: Vec<Attribute>,
}

/// A time: seconds since 1970, and nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time {
    /// Seconds since 1970, negative before.
    pub s: i64,
    /// Nanoseconds within the second.
    pub ns: u32,
}

/// The kinds of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeKind {
    /// A directory.
    Directory,
    /// A file.
    File(Content),
    /// A symbolic link.
    Link(Name),
    /// A named pipe.
    Pipe,
    /// A character device with these numbers.
    Device(u32, u32),
    /// A socket.
    Socket,
    /// A hard link to the file at this path.
    SameAs(Name),
}

/// The content of a file: its size and the ranges that are written. The rest is holes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// The size in bytes.
    pub size: u64,
    /// The written ranges, in this order.
    pub extents: Vec<FileExtent>,
}

/// A written range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileExtent {
    /// The offset in bytes.
    pub at: u64,
    /// The length in bytes.
    pub length: u64,
    /// The fill.
    pub fill: Fill,
}

/// The fill of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fill {
    /// The output of `seq START 9999999999`.
    Count(u64),
    /// Incompressible bytes from a seed.
    Noise(u64),
    /// Written zeros.
    Zeros,
}

impl FileExtent {
    /// Returns the bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let length = self.length as usize;
        match self.fill {
            Fill::Count(start) => rng::count(start, length),
            Fill::Noise(seed) => rng::noise(seed, length),
            Fill::Zeros => vec![0; length],
        }
    }
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// The name, with the namespace.
    pub name: Name,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an extended attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AttributeValue {
    /// These bytes.
    Text(Name),
    /// Bytes generated from a seed: length and seed.
    Noise(usize, u64),
    /// An access control list: permissions of owner, group, others and mask, and users with their permissions.
    List([u16; 4], Vec<(u32, u16)>),
    /// The capability `cap_net_bind_service`, as `setcap` stores it.
    Capability,
}

impl AttributeValue {
    /// Returns the bytes in the kernel's format.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.0.clone(),
            Self::Noise(length, seed) => rng::noise(*seed, *length),
            Self::List([owner, group, others, mask], users) => {
                let mut bytes = 2_u32.to_le_bytes().to_vec();
                let mut entry = |tag: u16, permissions: u16, id: u32| {
                    bytes.extend_from_slice(&tag.to_le_bytes());
                    bytes.extend_from_slice(&permissions.to_le_bytes());
                    bytes.extend_from_slice(&id.to_le_bytes());
                };
                entry(1, *owner, u32::MAX);
                for (user, permissions) in users {
                    entry(2, *permissions, *user);
                }
                entry(4, *group, u32::MAX);
                entry(0x10, *mask, u32::MAX);
                entry(0x20, *others, u32::MAX);
                bytes
            }
            Self::Capability => {
                let mut bytes = 0x0200_0001_u32.to_le_bytes().to_vec();
                for word in [1_u32 << 10, 0, 0, 0] {
                    bytes.extend_from_slice(&word.to_le_bytes());
                }
                bytes
            }
        }
    }
}
