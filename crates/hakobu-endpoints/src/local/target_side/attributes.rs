//! Owner, mode and times: what may be set, in which order, and what is lost.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::entry::{Attributes, Kind, Metadata, SET_ID, Time};
use hakobu_core::extended::{Classes, ExtendedRef};
use hakobu_core::grant::Grant;
use hakobu_core::losses::LossKind;
use hakobu_sys::mode::set_mode_of;
use rustix::fd::BorrowedFd;
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timestamps, Uid, chmodat, chownat, fchmod, fchown, futimens, openat,
    utimensat,
};
use rustix::io::Errno;

use crate::local::extended::{Place, capabilities, set_capabilities, settle};
use crate::local::proc_path::proc_path;
use crate::local::times::modified;

/// Who an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The user's number.
    pub(crate) uid: u32,
    /// The group's number.
    pub(crate) gid: u32,
}

/// What is known of a file just made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile {
    /// Its owner now.
    pub(crate) is: Owner,
    /// Whether it was created with its mode.
    pub(crate) has_mode: bool,
    /// Whether it has no extended attributes, as where none are inherited.
    pub(crate) is_bare: bool,
}

/// What this process may set, by its grant and by who it is.
#[derive(Debug)]
pub(crate) struct Policy {
    /// Owner and group can be set.
    pub(crate) may_chown: bool,
    pub(crate) may_set_id: bool,
    /// The extended attributes that can be set.
    pub(crate) extended: Classes,
    /// Which times can be kept.
    pub(crate) times: Capabilities,
    /// Whether the time of the last change is set only together with that of the last access.
    pub(crate) times_together: bool,
    /// The bits that the process's umask removes from new entries.
    umask: u32,
}

/// Losses of one entry.
pub(crate) type Lost = Vec<LossKind>;

impl Policy {
    /// The policy of a grant in this process.
    pub(crate) fn new(grant: &Grant, extended: Classes) -> Self {
        Self {
            may_chown: grant.may_chown && rustix::process::geteuid().is_root(),
            may_set_id: grant.may_set_id,
            extended,
            times: Capabilities::posix(false),
            times_together: false,
            umask: umask(),
        }
    }

    /// Whether a new file that is created with `mode` really has it: set-ID and sticky bits come
    /// after the owner, and the umask may take others away.
    pub(crate) fn keeps_mode(&self, mode: u32) -> bool {
        mode & (0o7000 | self.umask) == 0
    }

    /// Sets the attributes of a new file that is open for writing.
    pub(crate) fn settle_file(
        &self,
        file: BorrowedFd<'_>,
        NewFile { is, has_mode, is_bare }: NewFile,
        wanted: &Attributes,
        extended: Option<ExtendedRef<'_>>,
        lost: &mut Lost,
    ) -> Result<(), Errno> {
        let owned = self.settle_owner(is, wanted, lost, |uid, gid| fchown(file, uid, gid))?;
        // Changing the owner takes capabilities away, and an access list changes the mode.
        let mode_mask = match extended {
            Some(extended) => settle(Place::Open(file), extended, is_bare, self.extended, lost)?,
            None => !0,
        };
        // Changing the owner, and the writing before, take set-ID bits away: the mode comes after.
        let mode = self.mode(wanted.mode, owned, lost) & mode_mask;
        if !has_mode || mode & 0o777 != wanted.mode & 0o777 {
            set_bits(mode, lost, |mode| fchmod(file, Mode::from_raw_mode(mode)))?;
        }
        futimens(file, &self.modified(wanted.mtime))
    }

    /// Sets the attributes of a link just made.
    pub(crate) fn settle_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        is: Owner,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut Lost,
    ) -> Result<(), Errno> {
        let (wanted, extended) = wanted;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        self.settle_owner(is, wanted, lost, |uid, gid| chownat(directory, name, uid, gid, flags))?;
        // A link inherits no access list.
        if let Some(extended) = extended.filter(|extended| !extended.is_empty()) {
            let open = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let link = openat(directory, name, open, Mode::empty())?;
            settle(Place::Proc(&proc_path(&link)), extended, true, self.extended, lost)?;
        }
        utimensat(directory, name, &self.modified(wanted.mtime), flags)
    }

    /// Sets the attributes of an entry that is there, open with `O_PATH`. Only what differs is
    /// touched, except for the time, which comes last and is always set.
    pub(crate) fn settle_entry(
        &self,
        entry: BorrowedFd<'_>,
        is: &Metadata,
        wanted: &Attributes,
        extended: Option<ExtendedRef<'_>>,
        lost: &mut Lost,
    ) -> Result<(), Errno> {
        let owner = Owner { uid: is.uid, gid: is.gid };
        let chmod = |mode| set_mode(entry, mode);
        let is_link = is.kind == Kind::Symlink;
        let changes_owner = owner != Owner { uid: wanted.uid, gid: wanted.gid };
        // Meanwhile nobody may do what the source does not allow: neither a new owner or group, nor a group that an
        // access list has restrained. Without an owner to be changed the system keeps set-ID bits.
        let narrow = is.mode & (wanted.mode | if changes_owner { 0 } else { SET_ID });
        let mut mode_is = is.mode;
        if !is_link && narrow != is.mode && (changes_owner || extended.is_some()) {
            chmod(narrow)?;
            mode_is = narrow;
        }
        // Changing the owner takes capabilities away. Where no attributes come with it, those that it has are right.
        let stays = changes_owner && extended.is_none() && self.extended.contains(Classes::CAPABILITY);
        let capabilities = if stays { capabilities(Place::Proc(&proc_path(entry)))? } else { None };
        let owned = self.settle_owner(owner, wanted, lost, |uid, gid| {
            chownat(entry, c"", uid, gid, AtFlags::EMPTY_PATH)
        })?;
        let mode_mask = match extended {
            Some(extended) => settle(Place::Proc(&proc_path(entry)), extended, false, self.extended, lost)?,
            None => !0,
        };
        if let Some(value) = capabilities {
            set_capabilities(Place::Proc(&proc_path(entry)), &value)?;
        }
        if !is_link {
            // Set-ID bits mean no privilege on a directory.
            let mode = self.mode(wanted.mode, owned || is.kind == Kind::Directory, lost) & mode_mask;
            let chowned = owned && changes_owner;
            if mode != mode_is || extended.is_some() || (chowned && mode & SET_ID != 0) {
                set_bits(mode, lost, chmod)?;
            }
        }
        let modified = self.modified(wanted.mtime);
        match utimensat(entry, c"", &modified, AtFlags::EMPTY_PATH) {
            // Before Linux 5.8.
            Err(Errno::INVAL) => utimensat(CWD, proc_path(entry), &modified, AtFlags::empty()),
            other => other,
        }
    }

    /// The modification time, or the nearest one that can be kept.
    fn modified(&self, mtime: Time) -> Timestamps {
        modified(self.times.time_to_set(mtime), self.times_together)
    }

    /// Changes the owner where that is wanted and allowed, and says whether it is as wanted.
    fn settle_owner(
        &self,
        is: Owner,
        wanted: &Attributes,
        lost: &mut Lost,
        chown: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        if is.uid == wanted.uid && is.gid == wanted.gid {
            return Ok(true);
        }
        // The highest number means "leave it" to the system, so nobody can have it.
        if self.may_chown && wanted.uid != u32::MAX && wanted.gid != u32::MAX {
            match chown(Some(Uid::from_raw(wanted.uid)), Some(Gid::from_raw(wanted.gid))) {
                Ok(()) => return Ok(true),
                // Not on this file system, or not in this user namespace.
                Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        lost.push(LossKind::Owner);
        Ok(false)
    }

    /// The mode to set. A set-ID bit would lend the rights of the wrong user where the owner is
    /// not the wanted one.
    fn mode(&self, wanted: u32, owned: bool, lost: &mut Lost) -> u32 {
        if wanted & SET_ID != 0 && !(owned && self.may_set_id) {
            lost.push(LossKind::SetId);
            return wanted & 0o7777 & !SET_ID;
        }
        wanted & 0o7777
    }
}

/// Sets a mode. A file system that has no set-ID and sticky bits, such as exFAT by FUSE, refuses a mode with any of them:
/// they are lost then, and the entry gets the others.
fn set_bits(mode: u32, lost: &mut Lost, chmod: impl Fn(u32) -> Result<(), Errno>) -> Result<(), Errno> {
    match chmod(mode) {
        Err(Errno::PERM | Errno::OPNOTSUPP) if mode & 0o7000 != 0 => {
            chmod(mode & 0o777)?;
            if !lost.contains(&LossKind::SetId) {
                lost.push(LossKind::SetId);
            }
            Ok(())
        }
        done => done,
    }
}

/// Sets the mode of what is open with `O_PATH`: by the descriptor, and before Linux 6.6 by its way below `/proc`, which
/// leads to the same thing whatever has its name by now.
fn set_mode(entry: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    match set_mode_of(entry, mode) {
        Err(Errno::NOSYS) => chmodat(CWD, proc_path(entry), Mode::from_raw_mode(mode), AtFlags::empty()),
        other => other,
    }
}

/// The process's umask, read without changing it, as `umask(2)` could only do for all threads.
/// Where it cannot be read, every bit is taken as masked, so every mode is set explicitly.
fn umask() -> u32 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0o777 };
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    field.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0o777)
}
