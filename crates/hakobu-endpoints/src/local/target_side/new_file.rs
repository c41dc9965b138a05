//! Creates files, symbolic links and special files, which are complete before their names become visible.

use hakobu_core::content::ContentSum;
use hakobu_core::entry::EntryKind;
use hakobu_core::pack::{FileContent, RecordHead};
use hakobu_core::zeros::stretches;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Dev, FileType, Mode, OFlags, fstat, ftruncate, linkat, makedev, mknodat, openat, symlinkat,
    unlinkat,
};
use rustix::io::Errno;

use super::attributes::{EntryLosses, NewFile};
use super::directories::Directory;
use super::shared::LocalTargetState;
use super::stable::{WaitingFile, close, flush};
use crate::local::draft_file::{create_draft, hold, make_draft, rename_at};
use crate::local::draft_name::DraftName;
use crate::local::errno::{creation_fault, fault, write_fault};
use crate::local::file_system::Stability;
use crate::local::metadata;
use crate::local::positioned::write_at;
use crate::local::proc_path::proc_path;

/// The method of naming an open file that has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By its descriptor, which older kernels allow only to privileged processes.
    Descriptor,
    /// By its path below `/proc`.
    Proc,
}

/// The reusable state of creating entries.
#[derive(Debug)]
pub(crate) struct EntryMaker {
    /// The number of the lane.
    lane: u32,
    naming: Naming,
    /// The losses of the current entry.
    pub(crate) lost: EntryLosses,
    /// The record index of the current entry in its pack.
    pub(crate) index: u32,
    /// Files that get their names when their content is on the medium.
    pub(crate) waiting: Vec<WaitingFile>,
}

impl EntryMaker {
    /// Creates the state of the lane of that number.
    pub(crate) fn new(lane: u32) -> Self {
        Self { lane, naming: Naming::Descriptor, lost: Vec::new(), index: 0, waiting: Vec::new() }
    }

    /// Creates a file with its content and attributes, then gives it its final name.
    pub(crate) fn file(
        &mut self,
        shared: &LocalTargetState,
        directory: &mut Directory,
        head: &RecordHead<'_>,
        content: FileContent<'_>,
    ) -> Result<()> {
        let RecordHead { name, attributes, replaces, .. } = *head;
        let must_flush = shared.before_naming();
        // A nameless file is as cheap as a draft, and none is left behind if the process is killed. But if errors are
        // reported on closing, the file needs a name before that.
        if directory.nameless && directory.stability != Stability::ToldByFile {
            let mode = attributes.mode & 0o777;
            let created = if shared.policy.keeps_mode(mode) { mode } else { 0o600 };
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match openat(&directory.fd, c".", flags, Mode::from_raw_mode(created)) {
                Ok(file) => {
                    self.fill(shared, directory, (&file, created), head, content)?;
                    return self.name_file(shared, directory, file, head, must_flush);
                }
                Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                    directory.nameless = false;
                }
                Err(errno) => return Err(creation_fault("making the file", errno, &directory.fd)),
            }
        }
        let draft = self.draft_name(shared, directory, name);
        let file = create_draft(directory.fd.as_fd(), &draft)?;
        hold(&file);
        let filled = self.fill(shared, directory, (&file, 0o600), head, content);
        if filled.is_ok() && waits(directory, replaces, must_flush) {
            self.wait(directory, draft, name, file);
            return Ok(());
        }
        let flushed = filled
            .and_then(|()| flush(&file, directory.stability, must_flush, shared.options.durable))
            .and_then(|()| close(file, directory.stability));
        publish(shared, directory, (&draft, name), flushed)
    }

    /// Queues a file that gets its name once its content is on the medium.
    fn wait(&mut self, directory: &Directory, draft: DraftName, name: &[u8], file: OwnedFd) {
        let content_bytes = fstat(&file).map_or(0, |found| u64::try_from(found.st_size).unwrap_or(0));
        self.waiting.push(WaitingFile::begin((self.index, content_bytes), directory, draft, name, file));
    }

    /// Returns the name of a draft of this lane. Two lanes with the same path must not write into one file.
    fn draft_name(&self, shared: &LocalTargetState, directory: &Directory, name: &[u8]) -> DraftName {
        shared.draft_name(self.lane, &directory.path, name)
    }

    /// Writes and verifies the content, then sets the attributes.
    fn fill(
        &mut self,
        shared: &LocalTargetState,
        directory: &mut Directory,
        (file, created): (&OwnedFd, u32),
        RecordHead { attributes, sparse, extended, .. }: &RecordHead<'_>,
        content: FileContent<'_>,
    ) -> Result<()> {
        let mut sum = ContentSum::default();
        let written = match *sparse {
            true => write_around_zeros(file, content.bytes, &mut sum),
            false => write_at(file, 0, content.bytes, &mut sum),
        };
        written.map_err(write_fault)?;
        content.check(sum)?;
        let failed = |errno| fault("setting the attributes", errno);
        let owner = directory.owner_of_new(file, created).map_err(failed)?;
        let has_mode = directory.keeps_modes && created == attributes.mode & 0o7777;
        let new = NewFile { is: owner, has_mode, is_bare: directory.is_bare };
        let settled = shared.policy.settle_file(file.as_fd(), new, attributes, *extended, &mut self.lost);
        settled.map_err(failed)
    }

    /// Gives a nameless file its final name, replacing an existing entry.
    fn name_file(
        &mut self,
        shared: &LocalTargetState,
        directory: &Directory,
        file: OwnedFd,
        RecordHead { name, replaces, .. }: &RecordHead<'_>,
        must_flush: bool,
    ) -> Result<()> {
        let failed = |errno| creation_fault("making the file", errno, &directory.fd);
        let mut replaces = *replaces;
        if !replaces {
            flush(&file, directory.stability, must_flush, shared.options.durable)?;
            shared.grant.check_time()?;
            match self.link(directory, &file, name) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => replaces = true,
                Err(errno) => return Err(failed(errno)),
            }
        }
        let draft = self.draft_name(shared, directory, name);
        hold(&file);
        let mut linked = self.link(directory, &file, draft.as_bytes());
        if linked == Err(Errno::EXIST) {
            let _ = unlinkat(&directory.fd, draft.as_bytes(), AtFlags::empty());
            linked = self.link(directory, &file, draft.as_bytes());
        }
        linked.map_err(failed)?;
        if waits(directory, replaces, must_flush) {
            self.wait(directory, draft, name, file);
            return Ok(());
        }
        let flushed = flush(&file, directory.stability, must_flush, shared.options.durable);
        publish(shared, directory, (&draft, name), flushed)
    }

    fn link(&mut self, directory: &Directory, file: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
        let mut by_descriptor = None;
        if self.naming == Naming::Descriptor {
            match linkat(file, c"", &directory.fd, name, AtFlags::EMPTY_PATH) {
                // This user is not allowed to do this, or the directory no longer exists.
                Err(errno @ (Errno::NOENT | Errno::PERM)) => by_descriptor = Some(errno),
                other => return other,
            }
        }
        let linked = linkat(CWD, proc_path(file), &directory.fd, name, AtFlags::SYMLINK_FOLLOW);
        match (linked, by_descriptor) {
            (Ok(()) | Err(Errno::EXIST), _) => self.naming = Naming::Proc,
            (Err(_), Some(errno)) => return Err(errno),
            (Err(_), None) => {}
        }
        linked
    }

    /// Creates a symbolic link with its attributes.
    pub(crate) fn symlink(
        &mut self,
        shared: &LocalTargetState,
        directory: &mut Directory,
        head: &RecordHead<'_>,
        text: &[u8],
    ) -> Result<()> {
        let name = head.name;
        shared.grant.check_time()?;
        if !head.replaces {
            match symlinkat(text, &directory.fd, name) {
                Ok(()) => return self.settle_link(shared, directory, name, head),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(link_fault(errno, directory)),
            }
        }
        let draft = self.draft_name(shared, directory, name);
        let made = make_draft(&directory.fd, &draft, |name| symlinkat(text, &directory.fd, name));
        made.map_err(|errno| link_fault(errno, directory))?;
        let settled = self.settle_link(shared, directory, draft.as_bytes(), head);
        publish(shared, directory, (&draft, name), settled)
    }

    /// Creates a named pipe or device node with its attributes.
    pub(crate) fn special(
        &mut self,
        shared: &LocalTargetState,
        directory: &mut Directory,
        head: &RecordHead<'_>,
        node: SpecialFile,
    ) -> Result<()> {
        let name = head.name;
        if node.kind != EntryKind::Fifo && !shared.grant.may_make_devices {
            let words = "the job does not allow device nodes; --allow devices does";
            return Err(Error::new(ErrorKind::Unsupported, "making the device node", words));
        }
        // A process that opens a device node before it has its owner and mode keeps it open. So even a new node is
        // created as a draft that no other user can open.
        let draft = self.draft_name(shared, directory, name);
        let made = make_draft(&directory.fd, &draft, |name| {
            mknodat(&directory.fd, name, node.file_type(), Mode::from_raw_mode(0), node.number())
        });
        made.map_err(|errno| node_fault(errno, directory))?;
        let settled = self.settle_special(shared, directory, draft.as_bytes(), head);
        publish(shared, directory, (&draft, name), settled)
    }

    fn settle_special(
        &mut self,
        shared: &LocalTargetState,
        directory: &Directory,
        name: &[u8],
        head: &RecordHead<'_>,
    ) -> Result<()> {
        let failed = |errno| fault("setting the attributes", errno);
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let entry = openat(&directory.fd, name, flags, Mode::empty()).map_err(failed)?;
        let is = metadata::of_path(&entry).map_err(failed)?;
        let settled =
            shared.policy.settle_entry(entry.as_fd(), &is, &head.attributes, head.extended, &mut self.lost);
        settled.map_err(failed)
    }

    fn settle_link(
        &mut self,
        shared: &LocalTargetState,
        directory: &mut Directory,
        name: &[u8],
        head: &RecordHead<'_>,
    ) -> Result<()> {
        let failed = |errno| fault("setting the attributes", errno);
        let owner = match directory.new_owner {
            Some(owner) => owner,
            None => {
                let found = metadata::of_name(&directory.fd, name).map_err(failed)?;
                super::attributes::Owner { uid: found.uid, gid: found.gid }
            }
        };
        let fd = directory.fd.as_fd();
        let wanted = (&head.attributes, head.extended);
        shared.policy.settle_link(fd, name, owner, wanted, &mut self.lost).map_err(failed)
    }
}

/// A named pipe, or a device node with its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpecialFile {
    pub(crate) kind: EntryKind,
    pub(crate) device: u32,
}

impl SpecialFile {
    fn file_type(self) -> FileType {
        match self.kind {
            EntryKind::BlockDevice => FileType::BlockDevice,
            EntryKind::CharDevice => FileType::CharacterDevice,
            _ => FileType::Fifo,
        }
    }

    fn number(self) -> Dev {
        makedev(self.device >> 20, self.device & 0xf_ffff)
    }
}

/// Renames a draft to its final name if it is complete, and removes it on failure.
fn publish(
    shared: &LocalTargetState,
    directory: &Directory,
    (draft, name): (&DraftName, &[u8]),
    complete: Result<()>,
) -> Result<()> {
    let done = complete
        .and_then(|()| shared.grant.check_time())
        .and_then(|()| rename_at(&directory.fd, draft, name));
    if done.is_err() {
        let _ = unlinkat(&directory.fd, draft.as_bytes(), AtFlags::empty());
    }
    done
}

/// Returns true if a file waits for the medium together with others: the entry that it replaces must stay until the new
/// content is on the medium, and this file system needs nothing but a wait for that.
fn waits(directory: &Directory, replaces: bool, must_flush: bool) -> bool {
    directory.stability == Stability::InOrder && (replaces || must_flush)
}

fn link_fault(errno: Errno, directory: &Directory) -> Error {
    match errno {
        Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS => {
            Error::new(ErrorKind::Unsupported, "making the link", "the file system has no symbolic links")
        }
        _ => creation_fault("making the link", errno, &directory.fd),
    }
}

fn node_fault(errno: Errno, directory: &Directory) -> Error {
    match errno {
        Errno::PERM => {
            let words = "only root may make device nodes, and not on every file system";
            Error::new(ErrorKind::PermissionDenied, "making the device node", words)
        }
        Errno::OPNOTSUPP => {
            let words = "the file system has no named pipes or device nodes";
            Error::new(ErrorKind::Unsupported, "making it", words)
        }
        _ => creation_fault("making it", errno, &directory.fd),
    }
}

/// Writes the content except blocks of zeros, which become holes if the file system supports them.
fn write_around_zeros(file: &OwnedFd, content: &[u8], sum: &mut ContentSum) -> Result<(), Errno> {
    for stretch in stretches(0, content).filter(|stretch| !stretch.is_zero) {
        write_at(file, stretch.offset, stretch.bytes, sum)?;
    }
    ftruncate(file, content.len() as u64)
}
