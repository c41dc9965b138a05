//! Extended attributes of the system: reading, classification and setting.

use std::ffi::{CStr, CString};

use hakobu_core::entry::EntryMetadata;
use hakobu_core::extended::{
    ACCESS_LIST, ATTRIBUTE_VALUE_BYTES_MAX, Classes, Extended, ExtendedAsk, ExtendedRef, UNREADABLE,
    mode_without_list, says_more_than_mode,
};
use hakobu_core::grant::Grant;
use hakobu_core::losses::LossKind;
use hakobu_core::{Error, ErrorKind, Result};
use hakobu_sys::extended::{get_at, list_at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, fstatvfs, getxattr, listxattr, removexattr,
    setxattr, statvfs,
};
use rustix::io::Errno;

use super::draft_mark::MARK;
use super::errno::source_fault;
use super::free_space::free_bytes;
use super::proc_path::proc_path;

/// The name and value of one attribute.
type NameAndValue = (Vec<u8>, Vec<u8>);

/// The maximum number of bytes of names that the kernel returns for one entry.
const NAMES_BYTES_MAX: usize = 64 * 1024;
/// The attribute with the file capabilities of a program.
const CAPABILITY: &CStr = c"security.capability";
/// The attribute with the access control list of an entry on NFSv4.
const NFS4_LIST: &CStr = c"system.nfs4_acl";
/// The maximum size of a capability value in bytes. The kernel's own structure has 24.
const CAPABILITY_BYTES_MAX: usize = 64;
/// The size of a buffer in bytes that holds the names of most entries.
const NAMES_BYTES: usize = 512;

/// An entry whose extended attributes are accessed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AttributeOwner<'a> {
    /// An open entry.
    Open(BorrowedFd<'a>),
    /// An entry with this name in an open directory. A symbolic link is not followed.
    Named(BorrowedFd<'a>, &'a CStr),
    /// The path below `/proc` of an entry that was opened with `O_PATH`.
    Proc(&'a str),
}

impl AttributeOwner<'_> {
    fn list(self, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            AttributeOwner::Open(fd) => flistxattr(fd, room),
            AttributeOwner::Named(directory, name) => list_at(directory, name, room),
            AttributeOwner::Proc(path) => listxattr(path, room),
        }
    }

    /// Returns true if the file system has space for an attribute.
    fn has_room(self) -> bool {
        let figures = match self {
            AttributeOwner::Open(fd) | AttributeOwner::Named(fd, _) => fstatvfs(fd),
            AttributeOwner::Proc(path) => statvfs(path),
        };
        let free_bytes = figures.ok().and_then(|figures| free_bytes(&figures));
        free_bytes.is_none_or(|free_bytes| free_bytes > 4 * ATTRIBUTE_VALUE_BYTES_MAX as u64)
    }

    fn get(self, attribute: &CStr, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            AttributeOwner::Open(fd) => fgetxattr(fd, attribute, room),
            AttributeOwner::Named(directory, name) => get_at(directory, name, attribute, room),
            AttributeOwner::Proc(path) => getxattr(path, attribute, room),
        }
    }
}

/// Reads extended attributes, with reused buffers.
#[derive(Debug, Default)]
pub(crate) struct ExtendedReader {
    names: Vec<u8>,
    value: Vec<u8>,
    encoded: Vec<u8>,
}

/// The extended attributes that were read of one entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAttributes<'a> {
    /// The attributes to keep, or `None` if none are requested.
    pub(crate) kept: Option<ExtendedRef<'a>>,
    /// The mode bits that may be set if the entry loses its access control list. All bits if it does not.
    pub(crate) mode_mask: u32,
}

/// The summary of one entry's extended attributes in a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttributeMark {
    /// As in [`EntryMetadata::extended`](hakobu_core::entry::EntryMetadata).
    pub(crate) digest: u64,
    /// True if the entry has, or may have, attributes of a class that is reported as missed.
    pub(crate) missed: bool,
    /// As in [`EntryMetadata::bulky`](hakobu_core::entry::EntryMetadata).
    pub(crate) bulky: bool,
    /// As in [`ReadAttributes`].
    pub(crate) mode_mask: u32,
}

impl AttributeMark {
    /// Stores the summary in the entry's metadata.
    pub(crate) fn put(self, metadata: &mut EntryMetadata) {
        (metadata.extended, metadata.missed, metadata.bulky) = (self.digest, self.missed, self.bulky);
        metadata.mode &= self.mode_mask;
    }
}

/// The mask that leaves a mode unchanged.
const WHOLE_MODE: u32 = 0o7777;

impl ExtendedReader {
    /// Reads the attributes that are to be kept, and adds to `lost` what the entry loses.
    ///
    /// # Errors
    /// If they cannot be listed, one of them cannot be read, or they exceed the limit of a transfer. An attribute that
    /// could not be read never counts as missing.
    pub(crate) fn read(
        &mut self,
        place: AttributeOwner<'_>,
        ask: ExtendedAsk,
        lost: &mut Vec<LossKind>,
    ) -> Result<ReadAttributes<'_>> {
        let wanted = ask.keep | ask.miss;
        let mut mode_mask = WHOLE_MODE;
        if wanted.is_empty() {
            return Ok(ReadAttributes { kept: None, mode_mask });
        }
        let mut found = Vec::new();
        let bytes = self.list(place)?;
        let names = std::mem::take(&mut self.names);
        let each = names[..bytes].split_inclusive(|&byte| byte == 0);
        let read = each.map(|name| self.one(place, ask, (name, &mut found), (lost, &mut mode_mask)));
        let read: Result<()> = read.collect();
        self.names = names;
        read?;
        if ask.keep.is_empty() {
            return Ok(ReadAttributes { kept: None, mode_mask });
        }
        self.encoded = Extended::new(ask.keep, &mut found)?.into_bytes();
        Ok(ReadAttributes { kept: Some(ExtendedRef::decode(&self.encoded)?), mode_mask })
    }

    /// Reads one attribute, if it is requested.
    fn one(
        &mut self,
        place: AttributeOwner<'_>,
        ask: ExtendedAsk,
        (name, found): (&[u8], &mut Vec<NameAndValue>),
        (lost, mode_mask): (&mut Vec<LossKind>, &mut u32),
    ) -> Result<()> {
        let Ok(attribute) = CStr::from_bytes_with_nul(name) else { return Ok(()) };
        let name = attribute.to_bytes();
        let wanted = ask.keep | ask.miss;
        let Some(class) = Classes::of(name).filter(|class| wanted.contains(*class)) else { return Ok(()) };
        let is_kept = ask.keep.contains(class);
        if class == Classes::NFS4_ACL && !self.has_nfs4_list(place, attribute) {
            return Ok(());
        }
        if !is_kept {
            if !lost.contains(&class.loss()) {
                lost.push(class.loss());
            }
            // The rights in an access control list show up in the mode, and must not be granted to others.
            if name != ACCESS_LIST {
                return Ok(());
            }
        }
        self.value.resize(ATTRIBUTE_VALUE_BYTES_MAX, 0);
        match place.get(attribute, &mut self.value) {
            Ok(bytes) if is_kept => found.push((name.to_vec(), self.value[..bytes].to_vec())),
            Ok(bytes) => *mode_mask &= mode_without_list(&self.value[..bytes]),
            // It was removed a moment ago, unless it is still listed.
            Err(Errno::NODATA) if !self.lists(place, attribute)? => {}
            Err(errno) => return Err(unread(errno, &format!("reading {}", shown(name)))),
        }
        Ok(())
    }

    /// Returns true if an entry has an NFSv4 access control list that says more than its mode. One that cannot be read
    /// counts as such.
    fn has_nfs4_list(&mut self, place: AttributeOwner<'_>, attribute: &CStr) -> bool {
        self.value.resize(ATTRIBUTE_VALUE_BYTES_MAX, 0);
        match place.get(attribute, &mut self.value) {
            Ok(bytes) => says_more_than_mode(&self.value[..bytes]),
            Err(errno) => errno != Errno::NODATA,
        }
    }

    /// Returns the summary of the attributes of some classes for a listing.
    pub(crate) fn mark(&mut self, place: AttributeOwner<'_>, keep: Classes, miss: Classes) -> AttributeMark {
        let none = AttributeMark { digest: 0, missed: false, bulky: false, mode_mask: WHOLE_MODE };
        self.names.resize(NAMES_BYTES.max(self.names.len()), 0);
        // Fast path: most entries have none.
        if (keep | miss).is_empty() || matches!(place.list(&mut self.names), Ok(0)) {
            return none;
        }
        let mut lost = Vec::new();
        let ask = ExtendedAsk { keep, miss, readable: false };
        match self.read(place, ask, &mut lost) {
            Ok(ReadAttributes { kept, mode_mask }) => AttributeMark {
                digest: kept.map_or(0, ExtendedRef::digest),
                missed: !miss.is_empty() && !lost.is_empty(),
                bulky: kept.is_some_and(ExtendedRef::is_bulky),
                mode_mask,
            },
            // Inspecting the entry by itself reports the cause.
            Err(_) => AttributeMark { digest: UNREADABLE, missed: !miss.is_empty(), ..none },
        }
    }

    /// Lists the names. A failure counts as an empty list only on file systems without extended attributes.
    fn list(&mut self, place: AttributeOwner<'_>) -> Result<usize> {
        self.names.resize(NAMES_BYTES.max(self.names.len()), 0);
        let mut listed = place.list(&mut self.names);
        if listed == Err(Errno::RANGE) {
            self.names.resize(NAMES_BYTES_MAX, 0);
            listed = place.list(&mut self.names);
        }
        match listed {
            Err(Errno::OPNOTSUPP) => Ok(0),
            listed => listed.map_err(|errno| unread(errno, "listing them")),
        }
    }

    /// Returns true if an attribute is listed.
    fn lists(&self, place: AttributeOwner<'_>, attribute: &CStr) -> Result<bool> {
        let names = present(place).map_err(|errno| unread(errno, "listing them"))?;
        Ok(names.iter().any(|name| **name == *attribute))
    }
}

/// Returns the error for extended attributes that could not be read.
fn unread(errno: Errno, step: &str) -> Error {
    let leave_out = "--preserve no-xattr,no-acl leaves all of them out";
    let mut error = source_fault("reading the extended attributes", errno);
    error.detail = match errno {
        Errno::TOOBIG | Errno::RANGE => {
            error.kind = ErrorKind::Unsupported;
            format!(
                "their names take more than {} KiB, which the system does not list; remove some of them",
                NAMES_BYTES_MAX / 1024
            )
        }
        _ if error.is_source_change() => return error,
        _ => format!("{step}: {}", error.detail),
    };
    error.hint(leave_out)
}

fn shown(name: &[u8]) -> String {
    hakobu_core::path::lossy(name).to_string()
}

/// Returns the classes that this user can read in a directory.
pub(crate) fn seen(directory: &OwnedFd) -> Classes {
    let mut classes = held(directory) | Classes::CAPABILITY;
    if has_nfs4_lists(directory) {
        classes = classes | Classes::NFS4_ACL;
    }
    if !rustix::process::geteuid().is_root() {
        classes = classes.without(Classes::TRUSTED);
    }
    classes
}

/// Returns true if a directory has an NFSv4 access control list, as all entries on such a mount do.
fn has_nfs4_lists(directory: &OwnedFd) -> bool {
    let mut room = [0u8; 1];
    // A descriptor opened with `O_PATH` cannot be queried.
    let read = match fgetxattr(directory, NFS4_LIST, &mut room[..]) {
        Err(Errno::BADF) => getxattr(proc_path(directory), NFS4_LIST, &mut room[..]),
        read => read,
    };
    matches!(read, Ok(_) | Err(Errno::RANGE))
}

/// Returns the classes that this user can set on new entries of a directory within a grant.
pub(crate) fn settable(directory: &OwnedFd, grant: &Grant) -> Classes {
    let classes = held(directory);
    let root = rustix::process::geteuid().is_root();
    match (root, grant.may_set_id) {
        (true, true) => classes,
        // A peer must not set attributes that give rights or belong to the system.
        (true, false) => classes.without(Classes::TRUSTED | Classes::CAPABILITY),
        (false, _) => classes.without(Classes::TRUSTED | Classes::CAPABILITY | Classes::SELINUX),
    }
}

/// Returns the classes that the file system of a directory supports.
fn held(directory: &OwnedFd) -> Classes {
    let samples = [
        (Classes::USER, c"user.hakobu"),
        (Classes::ACL, c"system.posix_acl_access"),
        (Classes::TRUSTED, c"trusted.hakobu"),
        (Classes::CAPABILITY, CAPABILITY),
        (Classes::SELINUX, c"security.selinux"),
    ];
    let holds = |name: &CStr| {
        let mut room = [0u8; 1];
        // A descriptor opened with `O_PATH` cannot be queried.
        match fgetxattr(directory, name, &mut room[..]) {
            Err(Errno::BADF) => {
                !matches!(getxattr(proc_path(directory), name, &mut room[..]), Err(Errno::OPNOTSUPP))
            }
            asked => !matches!(asked, Err(Errno::OPNOTSUPP)),
        }
    };
    let found = samples.into_iter().filter(|(_, name)| holds(name));
    found.fold(Classes::NONE, |classes, (class, _)| classes | class)
}

/// Sets exactly these attributes of their classes on an entry. `is_bare` is true for a new entry that inherits nothing
/// and so has none yet. Attributes that cannot be set are added to `lost`. Returns the mode bits that may be set then.
///
/// # Errors
/// The system's, if they concern more than this attribute.
pub(crate) fn settle(
    place: AttributeOwner<'_>,
    wanted: ExtendedRef<'_>,
    is_bare: bool,
    able: Classes,
    lost: &mut Vec<LossKind>,
) -> Result<u32, Errno> {
    let mut mode_mask = WHOLE_MODE;
    if is_bare && wanted.is_empty() {
        return Ok(mode_mask);
    }
    let mut lose = |name: &[u8]| {
        let kind = Classes::of(name).map_or(LossKind::Xattr, Classes::loss);
        if !lost.contains(&kind) {
            lost.push(kind);
        }
    };
    let classes = wanted.classes() & able;
    if !is_bare {
        for name in present(place)? {
            let known = Classes::of(name.to_bytes()).is_some_and(|class| classes.contains(class));
            // The mark of a draft is removed when the draft gets its final name.
            let is_mark = matches!(place, AttributeOwner::Open(_)) && *name == *MARK;
            if known
                && !is_mark
                && wanted.get(name.to_bytes()).is_none()
                && accepted(place, remove(place, &name))?.is_none()
            {
                lose(name.to_bytes());
                if name.to_bytes() == ACCESS_LIST {
                    // The group bits are the mask of the list that stays.
                    mode_mask &= !0o070;
                }
            }
        }
    }
    let mut room = Vec::new();
    for (bytes, value) in wanted.iter() {
        let able = Classes::of(bytes).is_some_and(|class| classes.contains(class));
        let Ok(name) = CString::new(bytes) else { continue };
        if !is_bare {
            room.resize(ATTRIBUTE_VALUE_BYTES_MAX, 0);
            if place.get(&name, &mut room).is_ok_and(|length| room[..length] == *value) {
                continue;
            }
        }
        if !able || accepted(place, set(place, &name, value))?.is_none() {
            lose(bytes);
            if bytes == ACCESS_LIST {
                mode_mask &= mode_without_list(value);
                // A list that exists already or was inherited may grant any rights.
                if !is_bare && !matches!(remove(place, &name), Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP))
                {
                    mode_mask &= !0o070;
                }
            }
        }
    }
    Ok(mode_mask)
}

/// Returns the value of `security.capability`, unless the entry has none.
///
/// # Errors
/// Those of reading it.
pub(crate) fn capabilities(place: AttributeOwner<'_>) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0; CAPABILITY_BYTES_MAX];
    match place.get(CAPABILITY, &mut value) {
        Ok(bytes) => {
            value.truncate(bytes);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Sets `security.capability` to a value returned by [`capabilities`].
///
/// # Errors
/// Those of setting it.
pub(crate) fn set_capabilities(place: AttributeOwner<'_>, value: &[u8]) -> Result<(), Errno> {
    set(place, CAPABILITY, value)
}

/// Converts the errors of attributes that this file system or user cannot set to `None`.
fn accepted(place: AttributeOwner<'_>, done: Result<(), Errno>) -> Result<Option<()>, Errno> {
    match done {
        // File systems also report `ENOSPC` for a value that is too large for an entry, regardless of free space.
        Err(Errno::NOSPC) if !place.has_room() => Err(Errno::NOSPC),
        // Already removed.
        Ok(()) | Err(Errno::NODATA) => Ok(Some(())),
        Err(
            Errno::OPNOTSUPP
            // ntfs-3g returns this for a name that is too long. The entry is open, and no call requires the attribute
            // to be new.
            | Errno::EXIST
            | Errno::NOENT
            | Errno::PERM
            | Errno::ACCESS
            | Errno::INVAL
            | Errno::TOOBIG
            | Errno::FBIG
            | Errno::NAMETOOLONG
            | Errno::ILSEQ
            | Errno::RANGE
            | Errno::NOSPC,
        ) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn present(place: AttributeOwner<'_>) -> Result<Vec<CString>, Errno> {
    let mut names = vec![0; NAMES_BYTES];
    let bytes = match place.list(&mut names) {
        Err(Errno::RANGE) => {
            names.resize(NAMES_BYTES_MAX, 0);
            place.list(&mut names)?
        }
        Err(Errno::OPNOTSUPP) => 0,
        listed => listed?,
    };
    let names = names[..bytes].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Ok(names.filter_map(|name| CString::new(name).ok()).collect())
}

fn set(place: AttributeOwner<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    match place {
        AttributeOwner::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
        AttributeOwner::Proc(path) => setxattr(path, name, value, XattrFlags::empty()),
        AttributeOwner::Named(..) => Err(Errno::OPNOTSUPP),
    }
}

fn remove(place: AttributeOwner<'_>, name: &CStr) -> Result<(), Errno> {
    match place {
        AttributeOwner::Open(fd) => fremovexattr(fd, name),
        AttributeOwner::Proc(path) => removexattr(path, name),
        AttributeOwner::Named(..) => Err(Errno::OPNOTSUPP),
    }
}

/// Returns an open file as a place.
pub(crate) fn open_place(file: &impl AsFd) -> AttributeOwner<'_> {
    AttributeOwner::Open(file.as_fd())
}
