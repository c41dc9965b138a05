//! Extended attributes as the system has them: read, told apart by their classes, and set.

use std::ffi::{CStr, CString};

use hakobu_core::endpoint::LossKind;
use hakobu_core::extended::{ATTRIBUTE_VALUE_BYTES_MAX, Classes, Extended, ExtendedAsk, ExtendedRef};
use hakobu_core::grant::Grant;
use hakobu_sys::extended::{get_at, list_at};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, removexattr, setxattr,
};
use rustix::io::Errno;

/// The most bytes of names that the kernel gives for one entry.
const NAMES_BYTES_MAX: usize = 64 * 1024;
/// Most entries have names that fit into this.
const NAMES_BYTES: usize = 512;

/// An entry whose extended attributes are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// It is open.
    Open(BorrowedFd<'a>),
    /// It has this name in an open directory. No link is followed.
    Named(BorrowedFd<'a>, &'a CStr),
    /// The way below `/proc` to what is open as a path only.
    Proc(&'a str),
}

impl Place<'_> {
    fn list(self, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Place::Open(fd) => flistxattr(fd, room),
            Place::Named(directory, name) => list_at(directory, name, room),
            Place::Proc(path) => listxattr(path, room),
        }
    }

    fn get(self, attribute: &CStr, room: &mut [u8]) -> Result<usize, Errno> {
        match self {
            Place::Open(fd) => fgetxattr(fd, attribute, room),
            Place::Named(directory, name) => get_at(directory, name, attribute, room),
            Place::Proc(path) => getxattr(path, attribute, room),
        }
    }
}

/// Reads extended attributes, with room that is reused.
#[derive(Debug, Default)]
pub(crate) struct ExtendedReader {
    names: Vec<u8>,
    value: Vec<u8>,
    encoded: Vec<u8>,
}

impl ExtendedReader {
    /// The attributes that are to be kept, unless none are, and in `lost` what an entry loses.
    pub(crate) fn read(
        &mut self,
        place: Place<'_>,
        ask: ExtendedAsk,
        lost: &mut Vec<LossKind>,
    ) -> Option<ExtendedRef<'_>> {
        let wanted = ask.keep | ask.miss;
        if wanted.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        let bytes = self.list(place);
        for name in self.names[..bytes].split_inclusive(|&byte| byte == 0) {
            let Ok(attribute) = CStr::from_bytes_with_nul(name) else { continue };
            let Some(class) = Classes::of(attribute.to_bytes()).filter(|class| wanted.contains(*class))
            else {
                continue;
            };
            let mut lose = || {
                if !lost.contains(&class.loss()) {
                    lost.push(class.loss());
                }
            };
            if !ask.keep.contains(class) {
                lose();
                continue;
            }
            self.value.resize(ATTRIBUTE_VALUE_BYTES_MAX, 0);
            match place.get(attribute, &mut self.value) {
                Ok(bytes) => found.push((attribute.to_bytes().to_vec(), self.value[..bytes].to_vec())),
                // It has just gone.
                Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
                Err(_) => lose(),
            }
        }
        if ask.keep.is_empty() {
            return None;
        }
        match Extended::new(ask.keep, &mut found) {
            Ok(extended) => {
                self.encoded = extended.into_bytes();
                ExtendedRef::decode(&self.encoded).ok()
            }
            Err(_) => {
                lost.push(LossKind::Xattr);
                None
            }
        }
    }

    /// What stands for the attributes of some classes in a listing, and whether there are any of those that are missed.
    pub(crate) fn digest(&mut self, place: Place<'_>, keep: Classes, miss: Classes) -> (u64, bool) {
        self.names.resize(NAMES_BYTES.max(self.names.len()), 0);
        // Most entries have none, and there are many of them.
        if (keep | miss).is_empty() || matches!(place.list(&mut self.names), Ok(0)) {
            return (0, false);
        }
        let mut lost = Vec::new();
        let ask = ExtendedAsk { keep, miss, readable: false };
        let digest = self.read(place, ask, &mut lost).map_or(0, ExtendedRef::digest);
        (digest, !miss.is_empty() && !lost.is_empty())
    }

    /// Lists the names. What cannot be listed has none.
    fn list(&mut self, place: Place<'_>) -> usize {
        self.names.resize(NAMES_BYTES.max(self.names.len()), 0);
        match place.list(&mut self.names) {
            Err(Errno::RANGE) => {
                self.names.resize(NAMES_BYTES_MAX, 0);
                place.list(&mut self.names).unwrap_or(0)
            }
            listed => listed.unwrap_or(0),
        }
    }
}

/// The classes that can be seen in a directory by this user.
pub(crate) fn seen(directory: &OwnedFd) -> Classes {
    let mut classes = held(directory) | Classes::CAPABILITY;
    if !rustix::process::geteuid().is_root() {
        classes = classes.without(Classes::TRUSTED);
    }
    classes
}

/// The classes that can be set on new entries of a directory by this user within a grant.
pub(crate) fn settable(directory: &OwnedFd, grant: &Grant) -> Classes {
    let classes = held(directory);
    let root = rustix::process::geteuid().is_root();
    match (root, grant.may_set_id) {
        (true, true) => classes,
        // What gives rights, or belongs to the system, is no affair of a peer.
        (true, false) => classes.without(Classes::TRUSTED | Classes::CAPABILITY),
        (false, _) => classes.without(Classes::TRUSTED | Classes::CAPABILITY | Classes::SELINUX),
    }
}

/// The classes that the file system of a directory holds at all.
fn held(directory: &OwnedFd) -> Classes {
    let samples = [
        (Classes::USER, c"user.hakobu"),
        (Classes::ACL, c"system.posix_acl_access"),
        (Classes::TRUSTED, c"trusted.hakobu"),
        (Classes::CAPABILITY, c"security.capability"),
        (Classes::SELINUX, c"security.selinux"),
    ];
    let holds = |name: &CStr| {
        let mut room = [0u8; 1];
        // A descriptor that only stands for a path cannot be asked.
        match fgetxattr(directory, name, &mut room[..]) {
            Err(Errno::BADF) => !matches!(
                getxattr(super::target::proc_path(directory), name, &mut room[..]),
                Err(Errno::OPNOTSUPP)
            ),
            asked => !matches!(asked, Err(Errno::OPNOTSUPP)),
        }
    };
    let found = samples.into_iter().filter(|(_, name)| holds(name));
    found.fold(Classes::NONE, |classes, (class, _)| classes | class)
}

/// Gives an entry exactly these attributes of their classes. A new entry that inherits nothing has none yet, which
/// `is_bare` says. What cannot be set is lost.
///
/// # Errors
/// The system's, where it is about more than this attribute.
pub(crate) fn settle(
    place: Place<'_>,
    wanted: ExtendedRef<'_>,
    is_bare: bool,
    able: Classes,
    lost: &mut Vec<LossKind>,
) -> Result<(), Errno> {
    if is_bare && wanted.is_empty() {
        return Ok(());
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
            if known && wanted.get(name.to_bytes()).is_none() && accepted(remove(place, &name))?.is_none() {
                lose(name.to_bytes());
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
        if !able || accepted(set(place, &name, value))?.is_none() {
            lose(bytes);
        }
    }
    Ok(())
}

/// Tells what this file system, or this user, cannot have from what fails.
fn accepted(done: Result<(), Errno>) -> Result<Option<()>, Errno> {
    match done {
        // Gone already.
        Ok(()) | Err(Errno::NODATA) => Ok(Some(())),
        Err(
            Errno::OPNOTSUPP
            | Errno::PERM
            | Errno::ACCESS
            | Errno::INVAL
            | Errno::TOOBIG
            | Errno::RANGE
            | Errno::NOSPC,
        ) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn present(place: Place<'_>) -> Result<Vec<CString>, Errno> {
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

fn set(place: Place<'_>, name: &CStr, value: &[u8]) -> Result<(), Errno> {
    match place {
        Place::Open(fd) => fsetxattr(fd, name, value, XattrFlags::empty()),
        Place::Proc(path) => setxattr(path, name, value, XattrFlags::empty()),
        Place::Named(..) => Err(Errno::OPNOTSUPP),
    }
}

fn remove(place: Place<'_>, name: &CStr) -> Result<(), Errno> {
    match place {
        Place::Open(fd) => fremovexattr(fd, name),
        Place::Proc(path) => removexattr(path, name),
        Place::Named(..) => Err(Errno::OPNOTSUPP),
    }
}

/// What is open, as a place.
pub(crate) fn open_place(file: &impl AsFd) -> Place<'_> {
    Place::Open(file.as_fd())
}
