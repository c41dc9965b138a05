//! Examines the paths that the user named, through an SFTP server.

use hakobu_core::entry::{EntryKind, EntryMetadata};
use hakobu_core::error::{Error, ErrorKind, Result};
use hakobu_core::landing::{Ancestry, FileIdentity, TargetFound};
use hakobu_core::path::EntryPath;
use hakobu_proto::control::{SourceAsk, SourceLook, TargetLook};

use super::endpoint::SftpSide;
use hakobu_agent::inspect;

/// The path that discards content. Whether the server has it is only checked when something is written to it, and never
/// if only digests are taken.
const NOWHERE: &[u8] = b"/dev/null";

impl SftpSide {
    /// Examines one source.
    ///
    /// # Errors
    /// `NotFound`, `PermissionDenied` or another I/O error, with the path as typed.
    pub fn look_at_source(&self, ask: &SourceAsk) -> Result<SourceLook> {
        let during = "looking at the source";
        let missing = || Error::new(ErrorKind::NotFound, during, "no such file or directory").at(&ask.path);
        let mut metadata = self.look.describe(&ask.path, false)?.ok_or_else(missing)?;
        let mut whole = None;
        if metadata.kind == EntryKind::Symlink && ask.contents {
            metadata = self.look.describe(&ask.path, true)?.ok_or_else(missing)?;
            whole = Some(self.look.resolve(&ask.path)?);
        }
        let (root, entry) = match (metadata.kind, &whole) {
            (EntryKind::Directory, _) if ask.contents => (self.look.resolve(&ask.path)?, EntryPath::root()),
            (_, Some(whole)) => parent_and_name(whole)?,
            (_, None) => self.resolved_parent(&ask.path)?,
        };
        if metadata.kind == EntryKind::BlockDevice {
            let words =
                "an sftp server does not tell what is on a disk; a disk takes an agent on its machine";
            return Err(Error::new(ErrorKind::Unsupported, during, words).at(&ask.path));
        }
        let resolved = below(&root, &entry);
        Ok(SourceLook {
            kind: metadata.kind,
            size_bytes: metadata.size_bytes,
            ancestry: self.ancestry(&resolved, true),
            root,
            entry,
            resolved,
            device: None,
            image: None,
            network: false,
            written_sectors: None,
        })
    }

    /// Examines a target, which need not exist.
    ///
    /// # Errors
    /// `PermissionDenied` or another I/O error, with the path as typed.
    pub fn look_at_target(&self, typed: &[u8]) -> Result<TargetLook> {
        let look = |found, resolved: Vec<u8>, parent: Vec<u8>, name: Vec<u8>| TargetLook {
            found,
            resolved,
            parent,
            name,
            device: None,
            unfinished: None,
            stray: false,
            network: false,
        };
        if typed == NOWHERE {
            let found = TargetFound::CharacterDevice { null: true };
            return Ok(look(found, NOWHERE.to_vec(), b"/dev".to_vec(), b"null".to_vec()));
        }
        // With a slash at the end, the server would follow a symbolic link, which may lead to a disk that is not
        // mounted now.
        let bare = match trim(typed) {
            b"" => typed,
            bare => bare,
        };
        let there = match self.look.describe(bare, false)? {
            Some(link) if link.kind == EntryKind::Symlink => {
                let led_to = self.look.describe(typed, true)?;
                let led_to = led_to.map_or(TargetFound::Symlink, |led_to| found(&led_to));
                Some(if led_to == TargetFound::File { TargetFound::Symlink } else { led_to })
            }
            Some(there) => Some(found(&there)),
            None => None,
        };
        let followed = match there {
            Some(TargetFound::Symlink) | None => None,
            Some(_) => Some(self.look.resolve(typed)?),
        };
        let named = match &followed {
            Some(whole) => parent_and_name(whole),
            None => self.resolved_parent(typed),
        };
        let (parent, name) = match (named, there) {
            (Ok((parent, name)), _) => (parent, name.as_bytes().to_vec()),
            (Err(_), Some(_)) => (followed.clone().unwrap_or_default(), Vec::new()),
            (Err(error), None) if error.kind == ErrorKind::NotFound => (typed.to_vec(), Vec::new()),
            (Err(error), None) => return Err(error),
        };
        let found = match there {
            Some(found) => found,
            None => {
                let holds = |found: EntryMetadata| found.kind == EntryKind::Directory;
                let parent_exists = !name.is_empty() && self.look.describe(&parent, true)?.is_some_and(holds);
                TargetFound::Absent { parent_exists }
            }
        };
        let resolved = followed.unwrap_or_else(|| [&parent, b"/".as_slice(), &name].concat());
        Ok(look(found, resolved, parent, name))
    }

    /// Returns the identities of a path below a directory.
    pub fn look_at_place(&self, root: &[u8], place: &EntryPath) -> Ancestry {
        let whole = below(root, place);
        // Existence matters only for a copy onto itself, for which both ends are on this server.
        let exists = self.look.describe(&whole, false).is_ok_and(|found| found.is_some());
        self.ancestry(&whole, exists)
    }

    /// Returns the identities of a path and of all directories above it. SFTP version 3 has no inodes, so paths without
    /// symbolic links identify entries on this server. If the server turns out to be this host and shows the same
    /// files, the system's identities are used.
    fn ancestry(&self, whole: &[u8], exists: bool) -> Ancestry {
        if self.boot_id.as_deref().is_some_and(|id| id == inspect::boot_id())
            && let Ok(mut here) = inspect::places(whole, &[EntryPath::root()])
            && let Some(here) = here.pop()
            && here.exists == exists
        {
            return here;
        }
        let machine = self.boot_id.as_deref().unwrap_or(&self.host);
        let identity = |path: &[u8]| {
            let mut inode = [0; 8];
            inode.copy_from_slice(&blake3::hash(path).as_bytes()[..8]);
            FileIdentity { boot_id: format!("sftp {machine}"), device: 0, inode: u64::from_le_bytes(inode) }
        };
        let mut upwards = Vec::new();
        let mut at = whole;
        if !exists {
            at = above(at).unwrap_or(b"/");
        }
        loop {
            upwards.push(identity(at));
            match above(at) {
                Some(parent) => at = parent,
                None => return Ancestry { exists, upwards, volumes: Vec::new() },
            }
        }
    }

    /// Returns the directory that contains a typed path, with symbolic links resolved, and the last name in it.
    fn resolved_parent(&self, typed: &[u8]) -> Result<(Vec<u8>, EntryPath)> {
        let trimmed = trim(typed);
        let name = trimmed.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        if matches!(name, b"" | b"." | b"..") {
            return parent_and_name(&self.look.resolve(typed)?);
        }
        let parent = match trim(&trimmed[..trimmed.len() - name.len()]) {
            b"" if trimmed.starts_with(b"/") => b"/",
            b"" => b".".as_slice(),
            parent => parent,
        };
        Ok((self.look.resolve(parent)?, EntryPath::new(name)?))
    }
}

/// Returns a path without trailing slashes.
fn trim(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    &path[..end]
}

/// Returns the path of the directory that contains an absolute path.
fn above(path: &[u8]) -> Option<&[u8]> {
    let path = trim(path);
    let slash = path.iter().rposition(|&byte| byte == b'/')?;
    Some(if slash == 0 { b"/" } else { trim(&path[..slash]) })
}

fn parent_and_name(whole: &[u8]) -> Result<(Vec<u8>, EntryPath)> {
    let name = trim(whole).rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    match above(whole) {
        Some(parent) if !name.is_empty() => Ok((parent.to_vec(), EntryPath::new(name)?)),
        _ => Err(Error::new(ErrorKind::Usage, "looking at", "the root directory has no name").at(whole)),
    }
}

fn below(root: &[u8], entry: &EntryPath) -> Vec<u8> {
    match entry.is_root() {
        true => root.to_vec(),
        false => [trim(root), b"/", entry.as_bytes()].concat(),
    }
}

fn found(there: &EntryMetadata) -> TargetFound {
    match there.kind {
        EntryKind::Directory => TargetFound::Directory,
        EntryKind::File => TargetFound::File,
        EntryKind::Symlink => TargetFound::Symlink,
        EntryKind::CharDevice => TargetFound::CharacterDevice { null: false },
        EntryKind::BlockDevice => TargetFound::BlockDevice,
        EntryKind::Fifo | EntryKind::Socket => TargetFound::Special,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_path_has_those_above_it() {
        let all = |path: &'static [u8]| {
            std::iter::successors(Some(path), |path| above(path)).map(|path| str::from_utf8(path).unwrap())
        };
        assert_eq!(all(b"/a/b//c/").collect::<Vec<_>>(), ["/a/b//c/", "/a/b", "/a", "/"]);
        assert_eq!(all(b"/").collect::<Vec<_>>(), ["/"]);
        let (parent, name) = parent_and_name(b"/a").unwrap();
        assert_eq!((&parent[..], name.as_bytes()), (&b"/"[..], &b"a"[..]));
        assert!(parent_and_name(b"/").is_err());
        assert_eq!(below(b"/", &name), b"/a");
    }
}
