//! Owner, mode and times: which may be set, in which order, and which are lost.

use hakobu_core::capabilities::Capabilities;
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata, FileTime, SET_ID};
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

use crate::local::extended::{AttributeOwner, capabilities, set_capabilities, settle};
use crate::local::proc_path::proc_path;
use crate::local::times::modified;

/// The owner of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The user ID.
    pub(crate) uid: u32,
    /// The group ID.
    pub(crate) gid: u32,
}

/// Facts about a file that was just created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewFile {
    /// Its current owner.
    pub(crate) is: Owner,
    /// True if it was created with its mode.
    pub(crate) has_mode: bool,
    /// True if it has no extended attributes, because none are inherited.
    pub(crate) is_bare: bool,
}

/// The attributes that this process may set, according to its grant and its user.
#[derive(Debug)]
pub(crate) struct Policy {
    /// True if owner and group can be set.
    pub(crate) may_chown: bool,
    pub(crate) may_set_id: bool,
    /// The classes of extended attributes that can be set.
    pub(crate) extended: Classes,
    /// The times that can be kept.
    pub(crate) times: Capabilities,
    /// True if the modification time can be set only together with the access time.
    pub(crate) times_together: bool,
    /// The bits that the process's umask removes from new entries.
    umask: u32,
}

/// The losses of one entry.
pub(crate) type EntryLosses = Vec<LossKind>;

impl Policy {
    /// Creates the policy of a grant in this process.
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

    /// Returns true if a new file that is created with `mode` really gets it. Set-ID and sticky bits are set after the
    /// owner, and the umask may remove others.
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
        lost: &mut EntryLosses,
    ) -> Result<(), Errno> {
        let owned = self.settle_owner(is, wanted, lost, |uid, gid| fchown(file, uid, gid))?;
        // Extended attributes come after the owner, whose change removes capabilities, and before the mode, which an
        // access list changes.
        let mode_mask = match extended {
            Some(extended) => settle(AttributeOwner::Open(file), extended, is_bare, self.extended, lost)?,
            None => !0,
        };
        // The mode comes last, because changing the owner and writing remove set-ID bits.
        let mode = self.mode(wanted.mode, owned, lost) & mode_mask;
        if !has_mode || mode & 0o777 != wanted.mode & 0o777 {
            set_bits(mode, lost, |mode| fchmod(file, Mode::from_raw_mode(mode)))?;
        }
        futimens(file, &self.modified(wanted.mtime))
    }

    /// Sets the attributes of a new symbolic link.
    pub(crate) fn settle_link(
        &self,
        directory: BorrowedFd<'_>,
        name: &[u8],
        is: Owner,
        wanted: (&Attributes, Option<ExtendedRef<'_>>),
        lost: &mut EntryLosses,
    ) -> Result<(), Errno> {
        let (wanted, extended) = wanted;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        self.settle_owner(is, wanted, lost, |uid, gid| chownat(directory, name, uid, gid, flags))?;
        // A symbolic link inherits no access list.
        if let Some(extended) = extended.filter(|extended| !extended.is_empty()) {
            let open = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let link = openat(directory, name, open, Mode::empty())?;
            settle(AttributeOwner::Proc(&proc_path(&link)), extended, true, self.extended, lost)?;
        }
        utimensat(directory, name, &self.modified(wanted.mtime), flags)
    }

    /// Sets the attributes of an existing entry that is open with `O_PATH`. Only differences are changed, except for
    /// the time, which is set always and last.
    pub(crate) fn settle_entry(
        &self,
        entry: BorrowedFd<'_>,
        is: &EntryMetadata,
        wanted: &Attributes,
        extended: Option<ExtendedRef<'_>>,
        lost: &mut EntryLosses,
    ) -> Result<(), Errno> {
        let owner = Owner { uid: is.uid, gid: is.gid };
        let chmod = |mode| set_mode(entry, mode);
        let is_link = is.kind == EntryKind::Symlink;
        let changes_owner = owner != Owner { uid: wanted.uid, gid: wanted.gid };
        // In the meantime nobody may get rights that the source does not give: neither a new owner or group, nor a
        // group that an access list restricts. The system keeps set-ID bits if the owner does not change.
        let narrow = is.mode & (wanted.mode | if changes_owner { 0 } else { SET_ID });
        let mut mode_is = is.mode;
        if !is_link && narrow != is.mode && (changes_owner || extended.is_some()) {
            chmod(narrow)?;
            mode_is = narrow;
        }
        // Changing the owner removes capabilities. If the source supplies no attributes, existing ones are kept.
        let stays = changes_owner && extended.is_none() && self.extended.contains(Classes::CAPABILITY);
        let capabilities = if stays { capabilities(AttributeOwner::Proc(&proc_path(entry)))? } else { None };
        let owned = self.settle_owner(owner, wanted, lost, |uid, gid| {
            chownat(entry, c"", uid, gid, AtFlags::EMPTY_PATH)
        })?;
        let mode_mask = match extended {
            Some(extended) => {
                settle(AttributeOwner::Proc(&proc_path(entry)), extended, false, self.extended, lost)?
            }
            None => !0,
        };
        if let Some(value) = capabilities {
            set_capabilities(AttributeOwner::Proc(&proc_path(entry)), &value)?;
        }
        if !is_link {
            // On a directory, set-ID bits give no privilege.
            let mode = self.mode(wanted.mode, owned || is.kind == EntryKind::Directory, lost) & mode_mask;
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

    /// Returns the modification time, or the nearest time that the file system can keep.
    fn modified(&self, mtime: FileTime) -> Timestamps {
        modified(self.times.time_to_set(mtime), self.times_together)
    }

    /// Changes the owner if that is requested and allowed. Returns true if the owner is as requested.
    fn settle_owner(
        &self,
        is: Owner,
        wanted: &Attributes,
        lost: &mut EntryLosses,
        chown: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> Result<bool, Errno> {
        if is.uid == wanted.uid && is.gid == wanted.gid {
            return Ok(true);
        }
        // The highest number means "do not change" to the system, so it is no valid owner.
        if self.may_chown && wanted.uid != u32::MAX && wanted.gid != u32::MAX {
            match chown(Some(Uid::from_raw(wanted.uid)), Some(Gid::from_raw(wanted.gid))) {
                Ok(()) => return Ok(true),
                // Not possible on this file system, or in this user namespace.
                Err(Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP) => {}
                Err(errno) => return Err(errno),
            }
        }
        lost.push(LossKind::Owner);
        Ok(false)
    }

    /// Returns the mode to set. Set-ID bits are removed if the owner is not the requested one, because they would give
    /// the rights of the wrong user.
    fn mode(&self, wanted: u32, owned: bool, lost: &mut EntryLosses) -> u32 {
        if wanted & SET_ID != 0 && !(owned && self.may_set_id) {
            lost.push(LossKind::SetId);
            return wanted & 0o7777 & !SET_ID;
        }
        wanted & 0o7777
    }
}

/// Sets a mode. A file system without set-ID and sticky bits, such as exFAT by FUSE, refuses a mode with any of them.
/// They are then lost, and the entry gets the other bits.
fn set_bits(
    mode: u32,
    lost: &mut EntryLosses,
    chmod: impl Fn(u32) -> Result<(), Errno>,
) -> Result<(), Errno> {
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

/// Sets the mode of an entry that is open with `O_PATH`: by its descriptor, or before Linux 6.6 by its path below
/// `/proc`, which refers to the same entry whatever now has its name.
fn set_mode(entry: BorrowedFd<'_>, mode: u32) -> Result<(), Errno> {
    match set_mode_of(entry, mode) {
        Err(Errno::NOSYS) => chmodat(CWD, proc_path(entry), Mode::from_raw_mode(mode), AtFlags::empty()),
        other => other,
    }
}

/// Returns the process's umask without changing it, since `umask(2)` would change it for all threads. If it cannot be
/// read, every bit counts as masked, so every mode is set explicitly.
fn umask() -> u32 {
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return 0o777 };
    let field = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    field.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0o777)
}
