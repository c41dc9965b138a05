//! Creates a modelled tree with plain system calls.
//!
//! Whatever a file system does not accept (a name, an attribute, a device node) is left out: the oracle inspects the
//! result and predicts from that. Only failures without a reason in the file system are errors.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt, lchown};
use std::path::Path;

use anyhow::Context;
use rustix::fs::{AtFlags, FileType, Mode, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;

use super::model::{Attribute, Content, ModelTree, NodeKind, Time, TreeNode};

/// Creates a whole tree. `root` must not exist.
pub fn realize(tree: &ModelTree, root: &Path) -> anyhow::Result<()> {
    for node in &tree.nodes {
        if make(node, root)? && node.kind != NodeKind::Directory {
            dress(node, root)?;
        }
    }
    // Creating entries changes the time of their directory, so directories come last, deepest first.
    for node in tree.nodes.iter().rev() {
        if node.kind == NodeKind::Directory && node.path.below(root).is_dir() {
            dress(node, root)?;
        }
    }
    Ok(())
}

/// Creates an entry without its attributes. Returns false if the file system does not accept it.
pub fn make(node: &TreeNode, root: &Path) -> anyhow::Result<bool> {
    let place = node.path.below(root);
    let made = match &node.kind {
        NodeKind::Directory => fs::create_dir(&place),
        NodeKind::File(content) => write_file(&place, content),
        NodeKind::Link(to) => std::os::unix::fs::symlink(to.below(Path::new("")), &place),
        NodeKind::Pipe => make_special(&place, FileType::Fifo, 0),
        NodeKind::Socket => make_special(&place, FileType::Socket, 0),
        NodeKind::Device(major, minor) => {
            make_special(&place, FileType::CharacterDevice, rustix::fs::makedev(*major, *minor))
        }
        NodeKind::SameAs(other) => {
            // A hard link to a missing file is left out. Shrinking produces such links.
            if fs::symlink_metadata(other.below(root)).map_or(true, |other| !other.is_file()) {
                return Ok(false);
            }
            fs::hard_link(other.below(root), &place)
        }
    };
    match made {
        Ok(()) => Ok(true),
        Err(error) if may_lack(&error) => Ok(false),
        Err(error) => Err(error).with_context(|| format!("making {}", node.path)),
    }
}

/// Returns true for errors that have a reason in the file system or in lack of space.
pub fn may_lack(error: &std::io::Error) -> bool {
    // EPERM, ENOENT (its directory could not be created), EEXIST, ENOTDIR, EINVAL, EFBIG, ENOSPC, EMLINK, ERANGE,
    // ENAMETOOLONG, ENOSYS, EILSEQ, EOPNOTSUPP, EDQUOT, E2BIG
    let codes = [1, 2, 7, 17, 20, 22, 27, 28, 31, 34, 36, 38, 84, 95, 122];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}

fn make_special(place: &Path, kind: FileType, device: u64) -> std::io::Result<()> {
    let made = rustix::fs::mknodat(rustix::fs::CWD, place, kind, Mode::RUSR | Mode::WUSR, device);
    // exfat-fuse creates a plain file instead, which the kernel rejects.
    made.map_err(|error| if error == Errno::IO { Errno::OPNOTSUPP } else { error })?;
    Ok(())
}

fn write_file(place: &Path, content: &Content) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place)?;
    fill(&file, content)
}

/// Writes the content into an empty file.
pub fn fill(file: &File, content: &Content) -> std::io::Result<()> {
    file.set_len(content.size)?;
    for extent in &content.extents {
        file.write_all_at(&extent.bytes(), extent.at)?;
    }
    Ok(())
}

/// Sets owner, attributes, permissions and time of an entry. A hard link has those of its file.
pub fn dress(node: &TreeNode, root: &Path) -> anyhow::Result<()> {
    if matches!(node.kind, NodeKind::SameAs(_)) {
        return Ok(());
    }
    let place = node.path.below(root);
    lenient(lchown(&place, Some(node.uid), Some(node.gid)))?;
    if !matches!(node.kind, NodeKind::Link(_)) {
        lenient(chmod(&place, node.mode))?;
    }
    for attribute in &node.attributes {
        set_attribute(&place, attribute)?;
    }
    lenient(set_time(&place, node.mtime))
}

/// Sets an attribute, if the file system accepts it.
pub fn set_attribute(place: &Path, attribute: &Attribute) -> anyhow::Result<()> {
    let value = attribute.value.bytes();
    let set = rustix::fs::lsetxattr(place, attribute.name.0.as_slice(), &value, XattrFlags::empty());
    lenient(set.map_err(std::io::Error::from))
}

/// Sets permissions.
pub fn chmod(place: &Path, mode: u32) -> std::io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(place, fs::Permissions::from_mode(mode))
}

/// Sets the modification time. Does not follow symbolic links.
pub fn set_time(place: &Path, time: Time) -> std::io::Result<()> {
    let stamp = Timespec { tv_sec: time.s, tv_nsec: time.ns.into() };
    let both = Timestamps { last_access: stamp, last_modification: stamp };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, place, &both, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Ignores errors that have a reason in the file system.
pub fn lenient(result: std::io::Result<()>) -> anyhow::Result<()> {
    match result {
        Err(error) if !may_lack(&error) => Err(error.into()),
        _ => Ok(()),
    }
}
