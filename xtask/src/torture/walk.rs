//! The oracle's inspection of a tree, with plain system calls and SHA-256, and none of hakobu's code.
//!
//! Content is read with `pread` to its end, whatever the reported size. The digest covers the size, and each block of 4
//! KiB that is not all zeros with its number. So holes and written zeros are the same content, and a file of 4 GiB with
//! three blocks of data costs three blocks. The file system is asked for holes only in files above [`READ_WHOLE_MAX`]
//! bytes. Its answer is checked by reading some blocks of each reported hole, chosen anew each time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use sha2::{Digest, Sha256};

use super::model::{Name, Time};
use super::rng::Rng;

/// The largest size in bytes of a file that is read whole.
pub const READ_WHOLE_MAX: u64 = 48 << 20;
const BLOCK: usize = 4096;
/// The read size in bytes.
const STEP: usize = 1 << 20;

/// The number of bytes of content that were read and compared, for the page.
pub static BYTES_READ: AtomicU64 = AtomicU64::new(0);

/// The state of a tree: each entry by its path. The root has the empty path; a missing root has no entry.
pub type Snapshot = BTreeMap<Name, SeenEntry>;

/// The kind of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeenKind {
    /// A directory.
    Directory,
    /// A file, with its size and the digest of its content.
    File {
        /// The size that `lstat` returns.
        size: u64,
        /// The digest of what was read.
        digest: [u8; 32],
    },
    /// A symbolic link with this target.
    Link(Vec<u8>),
    /// A named pipe.
    Pipe,
    /// A character device.
    Character(u64),
    /// A block device.
    Block(u64),
    /// A socket.
    Socket,
}

/// An entry with everything that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeenEntry {
    /// The kind and content.
    pub kind: SeenKind,
    /// Permissions, set-ID and sticky bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// The modification time.
    pub mtime: Time,
    /// Extended attributes and access control lists, without those that the system creates by itself.
    pub xattrs: BTreeMap<Name, Vec<u8>>,
    /// Device and inode number.
    pub inode: (u64, u64),
    /// The number of hard links.
    pub links: u64,
    /// The inode's change time, which any change updates.
    pub ctime: Time,
    /// The allocated space in bytes.
    pub room: u64,
    /// The size that hakobu is told, in bytes. Differs from the real one if the source lies.
    pub told_bytes: u64,
    /// The facts of an object in a store.
    pub stored: Option<StoredFacts>,
}

/// The facts of an object that no file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredFacts {
    /// The time of its upload.
    pub uploaded: Time,
    /// Differs for each object that was written.
    pub version: (u64, u64),
    /// True if it has no metadata of a file, or if it is a directory that is no object.
    pub is_bare: bool,
    /// True if the store's listings show all attributes.
    pub shows_all: bool,
}

impl SeenEntry {
    /// Returns true for a directory that versitygw may remove with the last object in it: one that is no object, or one whose
    /// object has no metadata. The lists of the other stores show all attributes.
    pub fn may_vanish(&self) -> bool {
        self.is_directory() && self.stored.as_ref().is_some_and(|stored| stored.is_bare && !stored.shows_all)
    }

    /// Returns true for a directory.
    pub fn is_directory(&self) -> bool {
        self.kind == SeenKind::Directory
    }

    /// Returns true for a file.
    pub fn is_file(&self) -> bool {
        matches!(self.kind, SeenKind::File { .. })
    }

    /// Returns the size of a file in bytes, or 0 for anything else.
    pub fn size(&self) -> u64 {
        if let SeenKind::File { size, .. } = self.kind { size } else { 0 }
    }
}

/// Returns a snapshot of the tree at a path. Changes nothing but access times.
pub fn walk(root: &Path) -> anyhow::Result<Snapshot> {
    let mut found = Snapshot::new();
    let mut left = vec![Name::default()];
    while let Some(path) = left.pop() {
        let place = path.below(root);
        let metadata = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && path.0.is_empty() => continue,
            result => result.with_context(|| format!("looking at {path}"))?,
        };
        let entry = look(&place, &metadata).with_context(|| format!("looking at {path}"))?;
        if entry.is_directory() {
            for child in fs::read_dir(&place).with_context(|| format!("listing {path}"))? {
                left.push(path.join(child?.file_name().as_bytes()));
            }
        }
        found.insert(path, entry);
    }
    Ok(found)
}

fn look(place: &Path, metadata: &fs::Metadata) -> anyhow::Result<SeenEntry> {
    let kind = match metadata.mode() & 0o170_000 {
        0o040_000 => SeenKind::Directory,
        0o100_000 => {
            SeenKind::File { size: metadata.size(), digest: content_digest(place, metadata.size())? }
        }
        0o120_000 => SeenKind::Link(fs::read_link(place)?.as_os_str().as_bytes().to_vec()),
        0o010_000 => SeenKind::Pipe,
        0o020_000 => SeenKind::Character(metadata.rdev()),
        0o060_000 => SeenKind::Block(metadata.rdev()),
        _ => SeenKind::Socket,
    };
    Ok(SeenEntry {
        kind,
        mode: metadata.mode() & 0o7777,
        owner: (metadata.uid(), metadata.gid()),
        mtime: Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 },
        xattrs: attributes(place)?,
        inode: (metadata.dev(), metadata.ino()),
        links: metadata.nlink(),
        ctime: Time { s: metadata.ctime(), ns: metadata.ctime_nsec() as u32 },
        room: metadata.blocks() * 512,
        told_bytes: metadata.size(),
        stored: None,
    })
}

/// Returns the attributes that a user has set. Those of the system (`security.selinux`, `btrfs.*`, `system.ntfs_*` and
/// so on) are not preserved by default.
fn attributes(place: &Path) -> anyhow::Result<BTreeMap<Name, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut names = vec![0_u8; 1 << 16];
    let length = match rustix::fs::llistxattr(place, names.as_mut_slice()) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP | Errno::PERM) => return Ok(found),
        Err(error) => return Err(error).context("listing attributes"),
    };
    for name in names[..length].split(|byte| *byte == 0) {
        let text = String::from_utf8_lossy(name);
        let ours = text.starts_with("user.")
            || text.starts_with("trusted.")
                && !["trusted.overlay.", "trusted.SGI_ACL"].iter().any(|own| text.starts_with(own))
            || text.starts_with("system.posix_acl_")
            || text == "security.capability";
        if !ours {
            continue;
        }
        let mut value = vec![0_u8; 1 << 16];
        match rustix::fs::lgetxattr(place, name, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            Err(Errno::NODATA) => continue,
            Err(error) => return Err(error).with_context(|| format!("reading the attribute {text}")),
        }
        found.insert(Name(name.to_vec()), value);
    }
    Ok(found)
}

/// Returns the digest of a file's content.
pub fn content_digest(place: &Path, size: u64) -> anyhow::Result<[u8; 32]> {
    let file = open(place)?;
    let mut hasher = Sha256::new();
    let end = if size <= READ_WHOLE_MAX {
        add_range(&file, &mut hasher, 0, u64::MAX)?
    } else {
        add_sparse(&file, &mut hasher, size)?
    };
    hasher.update(end.to_le_bytes());
    Ok(hasher.finalize().into())
}

/// Returns the digest of content in memory.
pub fn digest_of(content: &[u8]) -> [u8; 32] {
    BYTES_READ.fetch_add(content.len() as u64, Ordering::Relaxed);
    let mut hasher = Sha256::new();
    for (at, part) in (0..).step_by(STEP).zip(content.chunks(STEP)) {
        add_blocks(&mut hasher, part, at);
    }
    hasher.update((content.len() as u64).to_le_bytes());
    hasher.finalize().into()
}

/// Returns the plain SHA-256 of content, as `sha256sum` prints it.
pub fn plain_digest(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(place: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOATIME | rustix::fs::OFlags::NOFOLLOW;
    fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(place)
}

/// Adds the blocks of a range that are not all zeros, and returns the offset at which reading ended.
fn add_range(file: &File, hasher: &mut Sha256, from: u64, to: u64) -> anyhow::Result<u64> {
    let mut buffer = vec![0_u8; STEP];
    let mut at = from;
    loop {
        let wanted = (STEP as u64).min(to - at) as usize;
        let mut filled = 0;
        while filled < wanted {
            match file.read_at(&mut buffer[filled..wanted], at + filled as u64) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).with_context(|| format!("reading at {at}")),
            }
        }
        BYTES_READ.fetch_add(filled as u64, Ordering::Relaxed);
        add_blocks(hasher, &buffer[..filled], at);
        at += filled as u64;
        if filled < wanted || at == to || wanted == 0 {
            return Ok(at);
        }
    }
}

fn add_blocks(hasher: &mut Sha256, content: &[u8], at: u64) {
    for (index, block) in content.chunks(BLOCK).enumerate() {
        if block != &ZEROS[..block.len()] {
            hasher.update((at / BLOCK as u64 + index as u64).to_le_bytes());
            // The last block is padded with zeros. Files with different ends still differ in the size.
            hasher.update(block);
            hasher.update(&ZEROS[block.len()..]);
        }
    }
}

static ZEROS: [u8; BLOCK] = [0; BLOCK];

fn add_sparse(file: &File, hasher: &mut Sha256, size: u64) -> anyhow::Result<u64> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let mut rng = Rng::new(now.as_nanos() as u64);
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(data) => data.min(size) / BLOCK as u64 * BLOCK as u64,
            Err(Errno::NXIO) => size,
            Err(error) => return Err(error).context("looking for data"),
        }
        .max(at);
        if data > at {
            look_into_hole(file, at, data, &mut rng)?;
        }
        if data >= size {
            break;
        }
        let hole = rustix::fs::seek(file, SeekFrom::Hole(data.max(at)))?.max(data + 1);
        let end = (hole.div_ceil(BLOCK as u64) * BLOCK as u64).min(size);
        if add_range(file, hasher, data, end)? != end {
            anyhow::bail!("the file ends before its size");
        }
        at = end;
    }
    Ok(size)
}

/// Checks some blocks of a reported hole: the first, the last, and two in between.
fn look_into_hole(file: &File, from: u64, to: u64, rng: &mut Rng) -> anyhow::Result<()> {
    let (first, last) = (from / BLOCK as u64, (to - 1) / BLOCK as u64);
    let mut block = vec![0_u8; BLOCK];
    for number in [first, last, rng.between(first, last), rng.between(first, last)] {
        let length = file.read_at(&mut block, number * BLOCK as u64)?;
        if block[..length] != ZEROS[..length] {
            anyhow::bail!("block {number} is not zero, and the file system calls it a hole");
        }
    }
    Ok(())
}
