//! The tree that is shown, and the operations of requests on it.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use fuser::{FileHandle, FopenFlags, INodeNo, Request, TimeOrNow};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, Timespec, Timestamps};
use rustix::io::Errno as E;

use super::content::{HandleTable, OpenDirectory, OpenFile};
use super::lies::Lies;
use super::nodes::{self, Nodes};

/// A tree of the backing file system, shown with lies.
pub struct LyingServer {
    pub(super) nodes: Nodes,
    pub(super) lies: Lies,
    pub(super) files: HandleTable<OpenFile>,
    pub(super) directories: HandleTable<OpenDirectory>,
}

impl LyingServer {
    /// Returns a server of the tree below `root`.
    ///
    /// # Errors
    /// Returns an error if the tree cannot be opened.
    pub fn new(root: &Path, lies: Lies) -> io::Result<Self> {
        Ok(Self {
            nodes: Nodes::new(root)?,
            lies,
            files: HandleTable::default(),
            directories: HandleTable::default(),
        })
    }

    pub(super) fn open_flags(&self) -> FopenFlags {
        if self.lies.direct() { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::empty() }
    }

    /// Returns the name as it is on disk, which may differ in case if names are case-insensitive.
    pub(super) fn on_disk(&self, parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<Vec<u8>> {
        let name = name.as_bytes();
        if !self.lies.case_insensitive {
            return Ok(name.to_vec());
        }
        let all = list(parent)?;
        let same = |(_, _, other): &&(u64, fuser::FileType, Vec<u8>)| other.eq_ignore_ascii_case(name);
        Ok(all.iter().find(same).map_or_else(|| name.to_vec(), |(_, _, other)| other.clone()))
    }

    pub(super) fn look_up(&self, parent: INodeNo, name: &OsStr) -> rustix::io::Result<(u64, Stat)> {
        let parent = self.nodes.handle(parent)?;
        let name = self.on_disk(&parent, name)?;
        self.nodes.look_up(&parent, OsStr::from_bytes(&name))
    }

    /// Creates an entry owned by the requesting user, and looks it up.
    pub(super) fn made(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        make: impl FnOnce(&OwnedFd) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<(u64, Stat)> {
        let handle = self.nodes.handle(parent)?;
        if self.lies.case_insensitive && self.on_disk(&handle, name)? != name.as_bytes() {
            return Err(E::EXIST);
        }
        make(&handle)?;
        owned(request, &handle, name)?;
        self.nodes.look_up(&handle, name)
    }

    /// Returns the mode of a new entry: without the umask's bits, unless the directory has a default ACL.
    pub(super) fn mode(&self, parent: INodeNo, mode: u32, umask: u32) -> rustix::io::Result<Mode> {
        let handle = self.nodes.handle(parent)?;
        let default = rustix::fs::getxattr_query(nodes::path_of(&handle), "system.posix_acl_default");
        Ok(Mode::from_raw_mode(if default.is_ok() { mode } else { mode & !umask } & 0o7777))
    }

    pub(super) fn changed(
        &self,
        node: INodeNo,
        change: &AttributeChanges,
        fh: Option<FileHandle>,
    ) -> rustix::io::Result<Stat> {
        let handle = self.nodes.handle(node)?;
        let path = nodes::path_of(&handle);
        if self.lies.no_owners && (change.uid.is_some() || change.gid.is_some() || change.mode.is_some()) {
            return Err(E::PERM);
        }
        if change.uid.is_some() || change.gid.is_some() {
            let (uid, gid) =
                (change.uid.map(rustix::fs::Uid::from_raw), change.gid.map(rustix::fs::Gid::from_raw));
            rustix::fs::chownat(&handle, "", uid, gid, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode & 0o7777))?;
        }
        if let Some(size) = change.size {
            if self.lies.enospc_at.is_some_and(|full| size > full && self.lies.holds_for(node.0)) {
                return Err(E::NOSPC);
            }
            match fh.and_then(|fh| self.files.get(fh).ok()) {
                Some(open) => rustix::fs::ftruncate(open.file(), size)?,
                None => {
                    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                    rustix::fs::ftruncate(rustix::fs::open(&path, flags, Mode::empty())?, size)?;
                }
            }
        }
        if change.atime.is_some() || change.mtime.is_some() {
            let times = Timestamps {
                last_access: self.time(change.atime),
                last_modification: self.time(change.mtime),
            };
            rustix::fs::utimensat(&handle, "", &times, AtFlags::EMPTY_PATH | AtFlags::SYMLINK_NOFOLLOW)?;
        }
        nodes::stat(&handle)
    }

    pub(super) fn time(&self, time: Option<TimeOrNow>) -> Timespec {
        match time {
            None => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            Some(TimeOrNow::Now) => Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW },
            Some(TimeOrNow::SpecificTime(time)) => {
                let (seconds, nanoseconds) = nodes::sent(time);
                let (seconds, nanoseconds) = self.lies.rounded(seconds, nanoseconds);
                Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) }
            }
        }
    }

    /// Opens the content of a node. Requests carry their offsets, and buffers are not aligned, so the flags for
    /// appending and direct I/O are dropped.
    pub(super) fn open_node(&self, node: INodeNo, flags: i32) -> rustix::io::Result<OpenFile> {
        let left_out = OFlags::APPEND | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CREATE | OFlags::EXCL;
        let flags = (OFlags::from_bits_retain(flags as u32) - left_out) | OFlags::CLOEXEC;
        let handle = self.nodes.handle(node)?;
        OpenFile::new(rustix::fs::open(nodes::path_of(&handle), flags, Mode::empty())?)
    }

    pub(super) fn created(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: Mode,
        flags: i32,
    ) -> rustix::io::Result<(u64, Stat, FileHandle)> {
        let exclusive = OFlags::from_bits_retain(flags as u32) & OFlags::EXCL;
        let make = |handle: &OwnedFd| {
            let new = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            rustix::fs::openat(handle, name, new, mode).map(drop)
        };
        let (number, stat) = match self.made(request, parent, name, make) {
            Err(E::EXIST) if exclusive.is_empty() => self.look_up(parent, name)?,
            other => other?,
        };
        let open = self.open_node(INodeNo(number), flags)?;
        Ok((number, stat, self.files.add(open)))
    }

    pub(super) fn xattr_allowed(&self, node: INodeNo) -> rustix::io::Result<String> {
        if self.lies.no_xattrs {
            return Err(E::OPNOTSUPP);
        }
        Ok(nodes::path_of(&*self.nodes.handle(node)?))
    }

    /// Returns the entries of a directory as this file system lists them.
    pub(super) fn listed(&self, node: INodeNo) -> rustix::io::Result<OpenDirectory> {
        let mut all = list(&*self.nodes.handle(node)?)?;
        if self.lies.lists_twice && self.lies.holds_for(node.0) {
            all.extend_from_within(..);
        }
        Ok(all)
    }
}

/// The changes that a request wants.
pub(super) struct AttributeChanges {
    pub(super) mode: Option<u32>,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    pub(super) size: Option<u64>,
    pub(super) atime: Option<TimeOrNow>,
    pub(super) mtime: Option<TimeOrNow>,
}

/// Returns all entries of a directory, including `.` and `..`.
fn list(directory: &OwnedFd) -> rustix::io::Result<OpenDirectory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(nodes::path_of(directory), flags, Mode::empty())?;
    let mut all = Vec::new();
    for entry in rustix::fs::Dir::new(opened)? {
        let entry = entry?;
        all.push((entry.ino(), nodes::kind(entry.file_type()), entry.file_name().to_bytes().to_vec()));
    }
    Ok(all)
}

/// Gives a new entry to the requesting user. Its group is the directory's if that has the set-group-ID bit.
fn owned(request: &Request, parent: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    if request.uid() == 0 && request.gid() == 0 {
        return Ok(());
    }
    let sticky_group = nodes::stat(parent)?.st_mode & 0o2000 != 0;
    let gid = (!sticky_group).then(|| rustix::fs::Gid::from_raw(request.gid()));
    let uid = Some(rustix::fs::Uid::from_raw(request.uid()));
    rustix::fs::chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW)
}
