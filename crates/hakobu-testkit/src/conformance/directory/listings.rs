//! Cases about listings of entries that others created, compared with the system's own information.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use hakobu_core::entry::{EntryKind, EntryMetadata, FileTime};
use hakobu_core::error::ErrorKind;

use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("an entry is described as it is", described),
    ConformanceCase::new(
        "a directory that cannot be read is an error, and the others are listed",
        unreadable,
    )
    .needs(&[Requirement::NotRoot]),
];

fn described(bench: &Workplace<'_>) {
    let root = bench.root();
    fs::write(root.join("file"), "12345").unwrap();
    fs::hard_link(root.join("file"), root.join("again")).unwrap();
    fs::create_dir(root.join("directory")).unwrap();
    symlink("twelve bytes", root.join("link")).unwrap();
    fs::File::create(root.join("sparse")).unwrap().set_len(1 << 20).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    described_by(bench, &mut *lane(&*bench.target()));
    described_by(bench, &mut *lane(&*bench.source()));
}

fn described_by<L: EntryLane + ?Sized>(bench: &Workplace<'_>, lane: &mut L) {
    let listing = list(lane, "").unwrap();
    assert_eq!(listing.len(), 6);
    for index in 0..listing.len() {
        let name = str::from_utf8(listing.name(index)).unwrap();
        let (found, real) =
            (*listing.metadata(index), fs::symlink_metadata(bench.root().join(name)).unwrap());
        let kind = match name {
            "directory" => EntryKind::Directory,
            "link" => EntryKind::Symlink,
            "pipe" => EntryKind::Fifo,
            _ => EntryKind::File,
        };
        let time = |seconds, nanoseconds: i64| FileTime { seconds, nanoseconds: nanoseconds as u32 };
        assert_eq!(
            (found.kind, found.mode, found.size_bytes),
            (kind, real.mode() & 0o7777, real.size()),
            "{name}"
        );
        // The number of hard links of directories does not matter.
        let links = if real.is_dir() { 1 } else { real.nlink() };
        assert_eq!((found.uid, found.gid), (real.uid(), real.gid()), "{name}");
        assert_eq!(found.mtime, bench.abilities.kept_time(time(real.mtime(), real.mtime_nsec())), "{name}");
        if !bench.abilities.target.inodes {
            let seen = inspect(lane, name).unwrap().unwrap();
            assert_eq!(EntryMetadata { links: found.links, ..seen }, found, "{name}");
            continue;
        }
        assert_eq!(u64::from(found.links), links, "{name}");
        assert_eq!(found.ctime, time(real.ctime(), real.ctime_nsec()), "{name}");
        assert!(found.sparse == (name == "sparse") || name == "file" || name == "again", "{name}");
        assert_eq!(inspect(lane, name).unwrap(), Some(found), "{name}");
    }
    assert_eq!(inspect(lane, "missing").unwrap(), None);
    assert_eq!(inspect(lane, "file/below").unwrap(), None);
    assert_eq!(inspect(lane, "").unwrap().unwrap().kind, EntryKind::Directory);
}

fn unreadable(bench: &Workplace<'_>) {
    let (root, target) = (bench.root(), bench.target());
    fs::create_dir(root.join("closed")).unwrap();
    fs::create_dir(root.join("open")).unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let mut lane = lane(&*target);
    assert_eq!(kind(list(&mut *lane, "closed")), ErrorKind::PermissionDenied);
    assert!(list(&mut *lane, "open").is_ok());
    assert_eq!(kind(begin(&mut *lane, 1, "closed/x", 1)), ErrorKind::PermissionDenied);
    // Allows the cleanup to remove it.
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}
