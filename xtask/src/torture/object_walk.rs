//! The oracle's inspection of an object store: reads the files in which versitygw keeps objects, and their metadata as
//! docs/book/object-stores.md describes it.
//!
//! versitygw keeps an object as a file, one whose key ends with a slash as a directory with an ETag, and metadata as
//! JSON in an extended attribute. So inode and change time show whether an object was written again.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use rustix::io::Errno;

use super::key_names;
use super::model::{Name, Time};
use super::walk::{SeenEntry, SeenKind, Snapshot, StoredFacts, content_digest};

const METADATA: &str = "user.metadata";
const ETAG: &str = "user.etag";
/// The mode bits of a type.
const TYPE_MASK: u32 = 0o170_000;

/// Returns a snapshot of the objects below a key, which are in this directory.
pub fn walk_objects(root: &Path) -> anyhow::Result<Snapshot> {
    let mut found = Snapshot::new();
    let mut left = vec![(Name::default(), root.to_owned())];
    while let Some((path, place)) = left.pop() {
        let metadata = match fs::symlink_metadata(&place) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            result => result.with_context(|| format!("looking at {path}"))?,
        };
        if metadata.is_dir() {
            for child in fs::read_dir(&place)? {
                let child = child?;
                let spelling = child.file_name();
                let name = spelling.to_str().and_then(key_names::read);
                let name = name.with_context(|| format!("the key {path}/{spelling:?} stands for no name"))?;
                left.push((path.join(&name), child.path()));
            }
        }
        let entry = look(&place, &metadata).with_context(|| format!("looking at {path}"))?;
        found.insert(path, entry);
    }
    Ok(found)
}

fn look(place: &Path, metadata: &fs::Metadata) -> anyhow::Result<SeenEntry> {
    let pairs: BTreeMap<String, String> = match attribute(place, METADATA)? {
        Some(text) => serde_json::from_slice(&text).context("reading the metadata")?,
        None => BTreeMap::new(),
    };
    let value = |name: &str| pairs.get(name).map(String::as_str);
    let st_mode = value("file-permissions").and_then(|text| u32::from_str_radix(text, 8).ok());
    let number = |name: &str| value(name).and_then(|text| text.parse().ok()).unwrap_or(0);
    let is_directory = metadata.is_dir();
    let uploaded = Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 };
    let kind = match st_mode.unwrap_or(0) & TYPE_MASK {
        _ if is_directory => SeenKind::Directory,
        0o120_000 => SeenKind::Link(fs::read(place)?),
        0o010_000 => SeenKind::Pipe,
        0o020_000 => SeenKind::Character(device(value("hakobu-device"))?),
        0o060_000 => SeenKind::Block(device(value("hakobu-device"))?),
        _ => SeenKind::File { size: metadata.size(), digest: content_digest(place, metadata.size())? },
    };
    let is_object = !is_directory || attribute(place, ETAG)?.is_some();
    let usual = if is_directory { 0o755 } else { 0o644 };
    let ctime = Time { s: metadata.ctime(), ns: metadata.ctime_nsec() as u32 };
    Ok(SeenEntry {
        kind,
        mode: st_mode.map_or(usual, |mode| mode & 0o7777),
        owner: (number("file-owner"), number("file-group")),
        mtime: time(value("file-mtime"), value("mtime"))?.unwrap_or(uploaded),
        xattrs: BTreeMap::new(),
        inode: (metadata.dev(), metadata.ino()),
        links: 1,
        // A directory's marker is stored again when its entries were examined.
        ctime: if is_directory { Time::default() } else { ctime },
        room: metadata.blocks() * 512,
        told_bytes: metadata.size(),
        stored: Some(StoredFacts { uploaded, is_bare: st_mode.is_none() || !is_object }),
    })
}

/// Reads both forms of the time, which have to agree.
fn time(convention: Option<&str>, of_rclone: Option<&str>) -> anyhow::Result<Option<Time>> {
    let (Some(convention), Some(of_rclone)) = (convention, of_rclone) else { return Ok(None) };
    let total: i128 = convention.strip_suffix("ns").context("a time without its unit")?.parse()?;
    let (sign, digits) = of_rclone.strip_prefix('-').map_or((1, of_rclone), |digits| (-1, digits));
    let (seconds, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let ns: i128 = format!("{fraction:0<9}").parse()?;
    let rclone = sign * (seconds.parse::<i128>()? * 1_000_000_000 + ns);
    anyhow::ensure!(rclone == total, "the times {convention} and {of_rclone} disagree");
    let (s, ns) = (total.div_euclid(1_000_000_000), total.rem_euclid(1_000_000_000));
    Ok(Some(Time { s: i64::try_from(s)?, ns: ns as u32 }))
}

fn device(text: Option<&str>) -> anyhow::Result<u64> {
    let (major, minor) = text.and_then(|text| text.split_once(':')).context("a device without its number")?;
    Ok(rustix::fs::makedev(major.parse()?, minor.parse()?))
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
