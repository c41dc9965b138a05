//! Changes of a tree between two steps. Each mutation names its paths and does nothing if they do not fit, so a history
//! stays valid when parts of it are removed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt, lchown};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::generate::{self, Limits};
use super::model::{Attribute, Content, FileExtent, ModelTree, Name, NodeKind, Time, TreeNode};
use super::realize::{self, chmod, lenient, set_time};
use super::rng::Rng;

/// A change of a tree.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Mutation {
    /// Writes into a file in place and restores its time, so size and time stay the same.
    RewriteKeepingTime(Name, FileExtent),
    /// Replaces a file by another one of the same size and time.
    ReplaceKeepingTime(Name, u64),
    /// Writes into a file and sets its time.
    Write(Name, FileExtent, Time),
    /// Extends or truncates a file to this size.
    Resize(Name, u64, Time),
    /// Punches a hole.
    Punch(Name, u64, u64, Time),
    /// Inserts this many bytes at the beginning, which moves the rest.
    Insert(Name, u64, Time),
    /// Removes an entry and everything below it.
    Remove(Name),
    /// Creates an entry, replacing what is there.
    Put(TreeNode),
    /// Renames an entry.
    Rename(Name, Name),
    /// Makes the second path a hard link to the file at the first.
    LinkTo(Name, Name),
    /// Replaces a hard link by a file of its own.
    Separate(Name),
    /// Replaces a symbolic link by one of the same length and time with another text.
    Retext(Name),
    /// Sets permissions.
    Mode(Name, u32),
    /// Sets owner and group.
    Owner(Name, u32, u32),
    /// Sets the time.
    SetTime(Name, Time),
    /// Sets an attribute or an access control list.
    Set(Name, Attribute),
    /// Removes all attributes and access control lists.
    Bare(Name),
}

/// Returns a random mutation of a tree that began as `tree`.
pub fn random(rng: &mut Rng, tree: &ModelTree, limits: Limits) -> Mutation {
    use NodeKind::{Directory, File as Regular};
    let any: Vec<&TreeNode> = tree.nodes.iter().filter(|node| !node.path.0.is_empty()).collect();
    let files: Vec<&TreeNode> = any.iter().copied().filter(|node| matches!(node.kind, Regular(_))).collect();
    if any.is_empty() || rng.percent(12) {
        return Mutation::Put(generate::further(rng, limits, tree));
    }
    let links: Vec<&TreeNode> =
        any.iter().copied().filter(|node| matches!(node.kind, NodeKind::Link(_))).collect();
    if !links.is_empty() && rng.percent(6) {
        return Mutation::Retext(links[rng.below(links.len() as u64) as usize].path.clone());
    }
    let twins: Vec<&TreeNode> =
        any.iter().copied().filter(|node| matches!(node.kind, NodeKind::SameAs(_))).collect();
    if !twins.is_empty() && rng.percent(6) {
        return Mutation::Separate(twins[rng.below(twins.len() as u64) as usize].path.clone());
    }
    let path = |rng: &mut Rng| any[rng.below(any.len() as u64) as usize].path.clone();
    if files.is_empty() || rng.percent(45) {
        return match rng.below(12) {
            0 | 1 => Mutation::Remove(path(rng)),
            2 | 3 => {
                // Something else in the place of an existing entry.
                let mut node = generate::further(rng, limits, tree);
                node.path = path(rng);
                Mutation::Put(node)
            }
            4 => {
                let directories: Vec<&TreeNode> =
                    tree.nodes.iter().filter(|node| node.kind == Directory).collect();
                let directory = &directories[rng.below(directories.len() as u64) as usize].path;
                Mutation::Rename(path(rng), directory.join(&generate::name(rng, limits)))
            }
            5 | 6 => Mutation::Mode(path(rng), rng.below(0o1000) as u32),
            7 => Mutation::Owner(path(rng), rng.pick(&[0, 1, 1000]), rng.pick(&[0, 1, 1000])),
            8 => Mutation::SetTime(path(rng), generate::time(rng)),
            9 => Mutation::Bare(path(rng)),
            _ => {
                let name = rng.pick(&["system.posix_acl_access", "user.a0", "user.new", "trusted.a0"]);
                let attribute = if name.starts_with("system") {
                    generate::list(rng, name)
                } else {
                    let value = super::model::AttributeValue::Noise(rng.pick(&[0, 5, 300, 3000]), rng.next());
                    Attribute { name: Name(name.as_bytes().to_vec()), value }
                };
                Mutation::Set(path(rng), attribute)
            }
        };
    }
    let node = files[rng.below(files.len() as u64) as usize];
    let size = if let Regular(content) = &node.kind { content.size } else { 0 };
    let (path, time) = (node.path.clone(), generate::time(rng));
    let extent = |rng: &mut Rng| {
        let at = rng.below(size.max(1));
        let length = rng.pick(&[1, 7, 4096, 5000, 70_000]).min(size.saturating_sub(at));
        FileExtent { at, length, fill: super::model::Fill::Noise(rng.next()) }
    };
    match rng.below(12) {
        0 | 1 => Mutation::RewriteKeepingTime(path, extent(rng)),
        2 => Mutation::ReplaceKeepingTime(path, rng.next()),
        3 | 4 => Mutation::Write(path, extent(rng), time),
        5 => Mutation::Resize(path, size + rng.pick(&[1, 100, 4096, 100_000]), time),
        6 => Mutation::Resize(path, rng.below(size + 1), time),
        7 => Mutation::Punch(path, rng.below(size + 1) / 4096 * 4096, rng.pick(&[4096, 8192, 262_144]), time),
        8 => Mutation::Insert(path, rng.pick(&[1, 100, 4096]), time),
        9 | 10 => {
            let other = files[rng.below(files.len() as u64) as usize].path.clone();
            Mutation::LinkTo(
                path,
                if rng.percent(50) { other } else { node.path.parent().unwrap_or_default().join(b"linked") },
            )
        }
        _ => Mutation::Separate(path),
    }
}

/// Applies a mutation to the tree below a root. Restores the times of the directories concerned, so that a history does
/// not depend on the clock.
pub fn apply(mutation: &Mutation, root: &Path) -> anyhow::Result<()> {
    match mutation {
        Mutation::RewriteKeepingTime(path, extent) => {
            in_file(path, root, None, |file, size| write_within(file, size, *extent))
        }
        Mutation::Write(path, extent, time) => {
            in_file(path, root, Some(*time), |file, size| write_within(file, size, *extent))
        }
        Mutation::Resize(path, size, time) => in_file(path, root, Some(*time), |file, old| {
            file.set_len(*size)?;
            if *size > old {
                let length = (*size - old).min(1 << 20);
                file.write_all_at(&super::rng::count(old, length as usize), *size - length)?;
            }
            Ok(())
        }),
        Mutation::Punch(path, at, length, time) => in_file(path, root, Some(*time), |file, _| {
            let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
            Ok(rustix::fs::fallocate(file, flags, *at, *length)?)
        }),
        Mutation::Insert(path, length, time) => in_file(path, root, Some(*time), |file, size| {
            if size <= 8 << 20 {
                let mut bytes = super::rng::count(7, *length as usize);
                let mut old = vec![0; size as usize];
                file.read_exact_at(&mut old, 0)?;
                bytes.extend_from_slice(&old);
                file.write_all_at(&bytes, 0)?;
            }
            Ok(())
        }),
        Mutation::ReplaceKeepingTime(path, seed) => replace(path, root, |size| Content {
            size,
            extents: vec![FileExtent {
                at: 0,
                length: size.min(300_000),
                fill: super::model::Fill::Noise(*seed),
            }],
        }),
        Mutation::Separate(path) => separate(path, root),
        Mutation::Retext(path) => existing(path, root, |place, metadata| {
            if !metadata.is_symlink() {
                return Ok(());
            }
            let mut text = fs::read_link(place)?.into_os_string().into_vec();
            let Some(last) = text.last_mut() else { return Ok(()) };
            *last = if *last == b'x' { b'y' } else { b'x' };
            let time = Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 };
            within(path, root, |place| {
                fs::remove_file(place)?;
                lenient(std::os::unix::fs::symlink(OsString::from_vec(text), place))?;
                lenient(lchown(place, Some(metadata.uid()), Some(metadata.gid())))?;
                lenient(set_time(place, time))
            })
        }),
        Mutation::Remove(path) => within(path, root, remove),
        Mutation::Put(node) => within(&node.path, root, |place| {
            remove(place)?;
            if realize::make(node, root)? {
                realize::dress(node, root)?;
            }
            Ok(())
        }),
        Mutation::Rename(from, to) => within(from, root, |place| {
            within(to, root, |new| {
                if new.symlink_metadata().is_err() && place.symlink_metadata().is_ok() && !to.is_below(from) {
                    lenient(fs::rename(place, new))?;
                }
                Ok(())
            })
        }),
        Mutation::LinkTo(existing, new) => within(new, root, |place| {
            let old = existing.below(root);
            let same = place.symlink_metadata().ok().map(|metadata| metadata.ino());
            match old.symlink_metadata() {
                Ok(metadata) if metadata.is_file() && same != Some(metadata.ino()) && !place.is_dir() => {
                    remove(place)?;
                    lenient(fs::hard_link(old, place))?;
                }
                _ => {}
            }
            Ok(())
        }),
        Mutation::Mode(path, mode) => {
            existing(
                path,
                root,
                |place, metadata| {
                    if metadata.is_symlink() { Ok(()) } else { lenient(chmod(place, *mode)) }
                },
            )
        }
        Mutation::Owner(path, user, group) => {
            existing(path, root, |place, _| lenient(lchown(place, Some(*user), Some(*group))))
        }
        Mutation::SetTime(path, time) => existing(path, root, |place, _| lenient(set_time(place, *time))),
        Mutation::Set(path, attribute) => existing(path, root, |place, metadata| {
            if metadata.is_file() || metadata.is_dir() {
                realize::set_attribute(place, attribute)
            } else {
                Ok(())
            }
        }),
        Mutation::Bare(path) => existing(path, root, |place, _| {
            for name in super::walk::walk(place)?
                .get(&Name::default())
                .into_iter()
                .flat_map(|entry| entry.xattrs.keys())
            {
                let removed = rustix::fs::lremovexattr(place, name.0.as_slice());
                lenient(removed.map_err(std::io::Error::from))?;
            }
            Ok(())
        }),
    }
}

fn write_within(file: &File, size: u64, extent: FileExtent) -> std::io::Result<()> {
    if extent.at < size {
        let extent = FileExtent { length: extent.length.min(size - extent.at), ..extent };
        file.write_all_at(&extent.bytes(), extent.at)?;
    }
    Ok(())
}

fn existing(
    path: &Name,
    root: &Path,
    act: impl FnOnce(&Path, &fs::Metadata) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let place = path.below(root);
    match place.symlink_metadata() {
        Ok(metadata) => act(&place, &metadata),
        Err(_) => Ok(()),
    }
}

/// Runs `act` on a path and restores the time of its parent directory. Does nothing if there is no such directory.
fn within(path: &Name, root: &Path, act: impl FnOnce(&Path) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let Some(directory) = path.parent().map(|parent| parent.below(root)) else { return Ok(()) };
    let Ok(metadata) = directory.symlink_metadata() else { return Ok(()) };
    if !metadata.is_dir() {
        return Ok(());
    }
    let time = Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 };
    act(&path.below(root))?;
    lenient(set_time(&directory, time))
}

fn remove(place: &Path) -> anyhow::Result<()> {
    match place.symlink_metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(fs::remove_dir_all(place)?),
        Ok(_) => Ok(fs::remove_file(place)?),
        Err(_) => Ok(()),
    }
}

fn in_file(
    path: &Name,
    root: &Path,
    time: Option<Time>,
    act: impl FnOnce(&File, u64) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    existing(path, root, |place, metadata| {
        if !metadata.is_file() {
            return Ok(());
        }
        let file = OpenOptions::new().read(true).write(true).open(place)?;
        lenient(act(&file, metadata.len()))?;
        // Writing removes set-ID bits and capabilities.
        lenient(chmod(place, metadata.mode() & 0o7777))?;
        drop(file);
        lenient(set_time(
            place,
            time.unwrap_or(Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 }),
        ))
    })
}

fn replace(path: &Name, root: &Path, content: impl FnOnce(u64) -> Content) -> anyhow::Result<()> {
    existing(path, root, |place, metadata| {
        if !metadata.is_file() {
            return Ok(());
        }
        within(path, root, |_| {
            fs::remove_file(place)?;
            let node = TreeNode {
                path: path.clone(),
                kind: NodeKind::File(content(metadata.len())),
                mode: metadata.mode() & 0o7777,
                uid: metadata.uid(),
                gid: metadata.gid(),
                mtime: Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 },
                attributes: Vec::new(),
            };
            if realize::make(&node, root)? {
                realize::dress(&node, root)?;
            }
            Ok(())
        })
    })
}

fn separate(path: &Name, root: &Path) -> anyhow::Result<()> {
    existing(path, root, |place, metadata| {
        if !metadata.is_file() || metadata.nlink() < 2 || metadata.len() > 64 << 20 {
            return Ok(());
        }
        within(path, root, |_| {
            let bytes = fs::read(place)?;
            fs::remove_file(place)?;
            lenient(fs::write(place, bytes))?;
            lenient(lchown(place, Some(metadata.uid()), Some(metadata.gid())))?;
            lenient(chmod(place, metadata.mode() & 0o7777))?;
            lenient(set_time(place, Time { s: metadata.mtime(), ns: metadata.mtime_nsec() as u32 }))
        })
    })
}
