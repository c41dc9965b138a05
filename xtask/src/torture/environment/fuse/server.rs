//! The kernel's requests, one method each.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use fuser::{
    AccessFlags, BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{AtFlags, Mode, OFlags, Stat, XattrFlags};
use rustix::io::Errno as E;

use super::nodes;
use super::tree::{AttributeChanges, LyingServer};

/// The kernel must not cache anything, so that it always sees the present state.
const TTL: Duration = Duration::ZERO;
/// The maximum size in bytes of a list and of a value of extended attributes in Linux.
const XATTR_MAX: usize = 64 * 1024;

fn code(error: E) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// Sends the result of a request: a value or an error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $send:expr) => {
        match $result {
            Ok($value) => $send,
            Err(error) => $reply.error(code(error)),
        }
    };
}

impl LyingServer {
    fn entry(&self, reply: ReplyEntry, looked: rustix::io::Result<(u64, Stat)>) {
        answer!(reply, looked, (number, stat) => {
            reply.entry(&TTL, &nodes::attributes(stat, Some(number), &self.lies), Generation(0));
        });
    }
}

/// Replies with a value, or with its size if that was requested.
fn send_value(reply: ReplyXattr, value: rustix::io::Result<Vec<u8>>, size: u32) {
    answer!(reply, value, value => match size {
        0 => reply.size(value.len() as u32),
        room if room as usize >= value.len() => reply.data(&value),
        _ => reply.error(Errno::ERANGE),
    });
}

impl Filesystem for LyingServer {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // The kernel enforces ACLs; this file system applies them and the umask to a new file's mode. Capabilities that
        // the kernel lacks are left out.
        if !self.lies.no_xattrs {
            // Without attributes the capability must not be set: before opening other users' files the kernel asks for
            // the ACL and passes on the error, so that nobody could open them.
            let _ = config.add_capabilities(InitFlags::FUSE_POSIX_ACL);
        }
        let _ = config.add_capabilities(InitFlags::FUSE_DONT_MASK);
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        let _ = config.add_capabilities(InitFlags::FUSE_AUTO_INVAL_DATA);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.entry(reply, self.look_up(parent, name));
    }

    fn forget(&self, _: &Request, node: INodeNo, lookups: u64) {
        self.nodes.forget(node, lookups);
    }

    fn getattr(&self, _: &Request, node: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let stat = self.nodes.handle(node).and_then(|handle| nodes::stat(&handle));
        answer!(reply, stat, stat => reply.attr(&TTL, &nodes::attributes(stat, None, &self.lies)));
    }

    fn setattr(
        &self,
        _: &Request,
        node: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        fh: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let change = AttributeChanges { mode, uid, gid, size, atime, mtime };
        answer!(reply, self.changed(node, &change, fh), stat => {
            reply.attr(&TTL, &nodes::attributes(stat, None, &self.lies));
        });
    }

    fn readlink(&self, _: &Request, node: INodeNo, reply: ReplyData) {
        let target =
            self.nodes.handle(node).and_then(|handle| rustix::fs::readlinkat(&*handle, "", Vec::new()));
        answer!(reply, target, target => reply.data(target.as_bytes()));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let made = self.mode(parent, mode, umask).and_then(|plain| {
            let kind = rustix::fs::FileType::from_raw_mode(mode);
            self.made(request, parent, name, |at| rustix::fs::mknodat(at, name, kind, plain, u64::from(rdev)))
        });
        self.entry(reply, made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let made = self
            .mode(parent, mode, umask)
            .and_then(|mode| self.made(request, parent, name, |at| rustix::fs::mkdirat(at, name, mode)));
        self.entry(reply, made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.nodes.handle(parent).and_then(|parent| {
            let name = self.on_disk(&parent, name)?;
            rustix::fs::unlinkat(&*parent, OsStr::from_bytes(&name), AtFlags::empty())
        });
        answer!(reply, done, () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.nodes.handle(parent).and_then(|parent| {
            let name = self.on_disk(&parent, name)?;
            rustix::fs::unlinkat(&*parent, OsStr::from_bytes(&name), AtFlags::REMOVEDIR)
        });
        answer!(reply, done, () => reply.ok());
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let make = |at: &OwnedFd| rustix::fs::symlinkat(target, at, name);
        self.entry(reply, self.made(request, parent, name, make));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
        let done = self.nodes.handle(parent).and_then(|from| {
            let to = self.nodes.handle(new_parent)?;
            let (name, new_name) = (self.on_disk(&from, name)?, self.on_disk(&to, new_name)?);
            rustix::fs::renameat_with(
                &*from,
                OsStr::from_bytes(&name),
                &*to,
                OsStr::from_bytes(&new_name),
                flags,
            )
        });
        answer!(reply, done, () => reply.ok());
    }

    fn link(&self, _: &Request, node: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let made = self.nodes.handle(node).and_then(|from| {
            if self.lies.no_hard_links {
                return Err(E::PERM);
            }
            let to = self.nodes.handle(parent)?;
            rustix::fs::linkat(&*from, "", &*to, name, AtFlags::EMPTY_PATH)?;
            self.nodes.look_up(&to, name)
        });
        self.entry(reply, made);
    }

    fn open(&self, _: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        answer!(reply, self.open_node(node, flags.0), open => {
            reply.opened(self.files.add(open), self.open_flags());
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let created =
            self.mode(parent, mode, umask).and_then(|mode| self.created(request, parent, name, mode, flags));
        answer!(reply, created, (number, stat, file) => {
            let attributes = nodes::attributes(stat, Some(number), &self.lies);
            reply.created(&TTL, &attributes, Generation(0), file, self.open_flags());
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let content = self.files.get(fh).and_then(|open| open.read(&self.lies, offset, size as usize));
        answer!(reply, content, content => reply.data(&content));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let written = self.files.get(fh).and_then(|open| open.write(&self.lies, offset, data));
        answer!(reply, written, written => reply.written(written as u32));
    }

    fn flush(&self, _: &Request, _: INodeNo, fh: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        let done = self.files.get(fh).and_then(|open| open.flush(&self.lies));
        answer!(reply, done, () => reply.ok());
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.files.remove(fh);
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, fh: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let done = self.files.get(fh).and_then(|open| open.fsync(&self.lies, data_only));
        answer!(reply, done, () => reply.ok());
    }

    fn opendir(&self, _: &Request, node: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let listed = self.listed(node);
        answer!(reply, listed, listed => {
            reply.opened(self.directories.add(listed), FopenFlags::empty());
        });
    }

    fn readdir(&self, _: &Request, node: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        if offset == 0 {
            // The directory was opened just now, or rewound: list it again.
            match self.listed(node) {
                Ok(listed) => self.directories.replace(fh, listed),
                Err(error) => return reply.error(code(error)),
            }
        }
        let listed = match self.directories.get(fh) {
            Ok(listed) => listed,
            Err(error) => return reply.error(code(error)),
        };
        let holds = self.lies.holds_for(node.0);
        for (at, (inode, kind, name)) in listed.iter().enumerate().skip(offset as usize) {
            if holds && self.lies.fail_list_after.is_some_and(|after| at as u64 >= after.saturating_add(2)) {
                if at as u64 == offset {
                    return reply.error(Errno::EIO);
                }
                break;
            }
            if reply.add(INodeNo(*inode), at as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.directories.remove(fh);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, node: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let done = self.nodes.handle(node).and_then(|handle| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::fsync(rustix::fs::open(nodes::path_of(&handle), flags, Mode::empty())?)
        });
        answer!(reply, done, () => reply.ok());
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let told = self.nodes.handle(INodeNo(nodes::ROOT)).and_then(|root| rustix::fs::fstatvfs(&*root));
        answer!(reply, told, told => {
            let (size, part, name) = (told.f_bsize as u32, told.f_frsize as u32, told.f_namemax as u32);
            reply.statfs(told.f_blocks, told.f_bfree, told.f_bavail, told.f_files, told.f_ffree, size, name, part);
        });
    }

    fn setxattr(
        &self,
        _: &Request,
        node: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let done = self.xattr_allowed(node).and_then(|path| rustix::fs::setxattr(path, name, value, flags));
        answer!(reply, done, () => reply.ok());
    }

    fn getxattr(&self, _: &Request, node: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let value = self.xattr_allowed(node).and_then(|path| {
            if self.lies.fail_xattr_read
                && self.lies.holds_for(node.0)
                && name.as_bytes().starts_with(b"user.")
            {
                return Err(E::IO);
            }
            let mut value = vec![0; XATTR_MAX];
            let length = rustix::fs::getxattr(path, name, &mut value[..])?;
            value.truncate(length);
            Ok(value)
        });
        send_value(reply, value, size);
    }

    fn listxattr(&self, _: &Request, node: INodeNo, size: u32, reply: ReplyXattr) {
        let names = self.xattr_allowed(node).and_then(|path| {
            if self.lies.fail_xattr_list && self.lies.holds_for(node.0) {
                return Err(E::IO);
            }
            let mut names = vec![0; XATTR_MAX];
            let length = rustix::fs::listxattr(path, &mut names[..])?;
            names.truncate(length);
            Ok(names)
        });
        send_value(reply, names, size);
    }

    fn removexattr(&self, _: &Request, node: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = self.xattr_allowed(node).and_then(|path| rustix::fs::removexattr(path, name));
        answer!(reply, done, () => reply.ok());
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let done = self.files.get(fh).and_then(|open| open.allocate(&self.lies, mode, offset, length));
        answer!(reply, done, () => reply.ok());
    }

    fn lseek(&self, _: &Request, _: INodeNo, fh: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        if self.lies.no_seek_hole {
            return reply.error(Errno::ENOSYS);
        }
        let found = self.files.get(fh).and_then(|open| open.seek(offset, whence));
        answer!(reply, found, found => reply.offset(found as i64));
    }
}
