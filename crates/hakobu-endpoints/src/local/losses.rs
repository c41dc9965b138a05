//! What a copy does not keep, counted by kind with one example each.

use hakobu_core::endpoint::LossKind;
use hakobu_core::{Error, ErrorKind, Result};
use rustix::fd::AsFd;
use rustix::fs::{SeekFrom, flistxattr, flistxattr_query, seek};
use rustix::io::Errno;

/// Fails if one of the kinds that are lost is among those that must not be.
pub(crate) fn check_required(require: &[LossKind], lost: &[LossKind]) -> Result<()> {
    let Some(kind) = lost.iter().find(|kind| require.contains(kind)) else { return Ok(()) };
    let words = format!("--require {} cannot be met: this version does not keep it", kind.name());
    Err(Error::new(ErrorKind::Requirement, "copying", words))
}

/// The kinds of extended attributes that an open file has and a copy loses.
pub(crate) fn lost_attributes(file: impl AsFd, lost: &mut Vec<LossKind>) {
    let (lists, others) = extended_attributes(file);
    if lists {
        lost.push(LossKind::Acl);
    }
    if others {
        lost.push(LossKind::Xattr);
    }
}

/// Whether an open file has access control lists, and whether it has other extended attributes.
/// SELinux labels do not count: they belong to the system that the file is on.
fn extended_attributes(file: impl AsFd) -> (bool, bool) {
    let mut near = [0; 512];
    let length = match flistxattr(&file, &mut near) {
        Ok(0) => return (false, false),
        Ok(length) => length,
        Err(Errno::RANGE) => return many_extended_attributes(file),
        Err(_) => return (false, false),
    };
    sort_names(&near[..length])
}

fn many_extended_attributes(file: impl AsFd) -> (bool, bool) {
    let length = flistxattr_query(&file).unwrap_or(0);
    let mut names = vec![0; length + 512];
    match flistxattr(&file, &mut names[..]) {
        Ok(length) => sort_names(&names[..length]),
        Err(_) => (false, true),
    }
}

fn sort_names(list: &[u8]) -> (bool, bool) {
    let (mut lists, mut others) = (false, false);
    for name in list.split(|&byte| byte == 0) {
        if name.starts_with(b"system.posix_acl_") {
            lists = true;
        } else if !name.is_empty() && name != b"security.selinux" {
            others = true;
        }
    }
    (lists, others)
}

/// Whether an open file really has a hole. Fewer blocks than its size needs can also come from
/// compression.
pub(crate) fn has_hole(file: impl AsFd, size_bytes: u64) -> bool {
    matches!(seek(file, SeekFrom::Hole(0)), Ok(offset) if offset < size_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_the_system_are_no_loss() {
        assert_eq!(sort_names(b"security.selinux\0"), (false, false));
        assert_eq!(sort_names(b"system.posix_acl_access\0security.selinux\0"), (true, false));
        assert_eq!(sort_names(b"user.a\0security.capability\0"), (false, true));
    }
}
