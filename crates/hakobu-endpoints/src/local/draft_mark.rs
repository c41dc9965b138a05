//! The attribute that marks a large draft until it has its final name.

use std::ffi::CStr;

use rustix::fd::OwnedFd;
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// The attribute of a large draft, from its beginning until it gets its name.
pub(super) const MARK: &CStr = c"user.hakobu.draft";

/// Marks a new large draft as one. Where the file system has no such attributes, other things prove it.
pub(crate) fn mark(file: &OwnedFd) {
    let _other_proof = fsetxattr(file, MARK, b"1", XattrFlags::empty());
}

/// Removes the mark, which is no attribute of the file that the draft becomes.
pub(crate) fn unmark(file: &OwnedFd) -> Result<(), Errno> {
    match fremovexattr(file, MARK) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        // What has no such attributes may say so in several ways; what has one has to lose it.
        Err(errno) => match fgetxattr(file, MARK, &mut [0u8; 8][..]) {
            Ok(_) => Err(errno),
            Err(_) => Ok(()),
        },
    }
}
