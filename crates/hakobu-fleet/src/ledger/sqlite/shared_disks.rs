//! File systems on which SQLite's log does not work: it is memory that all processes of one machine share.

use std::fs;
use std::path::Path;

use hakobu_core::error::{Error, ErrorKind, Result};

/// The types of file systems that other machines may write to as well, from the kernel's `linux/magic.h` and from drivers.
const SHARED: [(u32, &str); 14] = [
    (0x6969, "NFS"),
    (0xff53_4d42, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0x517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x00c3_6400, "Ceph"),
    (0x0102_1997, "9P"),
    (0x5346_414f, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
    (0x7375_7245, "Coda"),
];

/// Checks that a ledger can be at a path, whose folder exists.
///
/// # Errors
/// `Unsupported` on a file system that may be shared with other machines. Where the folder or its file system is not known, others
/// say so.
pub(super) fn check_disk(ledger: &Path) -> Result<()> {
    // The file may be a symbolic link to another file system.
    let file = fs::canonicalize(ledger).unwrap_or_else(|_| ledger.to_owned());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(found) = rustix::fs::statfs(folder) else { return Ok(()) };
    let Some((_, name)) = SHARED.iter().find(|(number, _)| *number == found.f_type as u32) else {
        return Ok(());
    };
    let detail = format!("its file system is {name}, which may be shared with other machines");
    Err(Error::new(ErrorKind::Unsupported, "opening the ledger", detail)
        .at(ledger.as_os_str().as_encoded_bytes())
        .hint("use a directory on a disk of this machine, or PostgreSQL with a postgres:// URL"))
}
