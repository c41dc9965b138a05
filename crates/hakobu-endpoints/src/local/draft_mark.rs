//! The extended attribute that marks a large draft until it has its final name.

use std::ffi::CStr;

use rustix::fd::OwnedFd;
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr};
use rustix::io::Errno;

/// The attribute of a large draft, from its creation until it gets its final name.
pub(super) const MARK: &CStr = c"user.hakobu.draft";

/// Marks a new large draft. On file systems without such attributes, other properties prove that it is a draft.
pub(crate) fn mark(file: &OwnedFd) {
    let _other_proof = fsetxattr(file, MARK, b"1", XattrFlags::empty());
}

/// Removes the mark, which must not become an attribute of the final file.
pub(crate) fn unmark(file: &OwnedFd) -> Result<(), Errno> {
    match fremovexattr(file, MARK) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        // File systems without such attributes report this with various errors. Only a mark that remains is an error.
        Err(errno) => match fgetxattr(file, MARK, &mut [0u8; 8][..]) {
            Ok(_) => Err(errno),
            Err(_) => Ok(()),
        },
    }
}
