//! Listings: complete, in order, or an error.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, symlink};

use hakobu_core::endpoint::{Detail, TargetOp, TargetOutcome};
use hakobu_core::entry::{Kind, Metadata, Time};
use hakobu_core::error::ErrorKind;
use hakobu_core::listing::Listing;

use super::bench::*;
use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("ten thousand entries are all listed, in order", ten_thousand),
    Case::new("an entry is described as it is", described),
    Case::new("several directories are answered in the order they were asked for", several),
    Case::new("descendants come complete and within the budget", budget),
    Case::new("a listing that is asked for comes whatever the budget", small_budget),
    Case::not_root("a directory that cannot be read is an error, and the others are listed", unreadable),
];

fn ten_thousand(bench: &Bench<'_>) {
    let root = bench.directory("target");
    let mut expected = Vec::new();
    for number in 0..10_000u32 {
        // Every seventh is no UTF-8, every hundredth a directory.
        let mut name = format!("{:x}-{number}", number.wrapping_mul(2_654_435_761)).into_bytes();
        if number.is_multiple_of(7) {
            name.insert(0, 0xff);
        }
        let at = root.join(OsStr::from_bytes(&name));
        if number.is_multiple_of(100) {
            fs::create_dir(at).unwrap();
            name.push(b'/');
        } else {
            fs::write(at, []).unwrap();
        }
        expected.push(name);
    }
    expected.sort();
    let check = |listing: Listing| {
        assert!(listing.is_sorted());
        let found: Vec<_> = (0..listing.len())
            .map(|index| {
                let slash: &[u8] = if listing.metadata(index).kind == Kind::Directory { b"/" } else { b"" };
                [listing.name(index), slash].concat()
            })
            .collect();
        assert!(found == expected, "{} of {} entries, or in another order", found.len(), expected.len());
    };
    check(list(&mut *lane(&bench.target()), "").unwrap());
    fs::rename(&root, root.with_file_name("source")).unwrap();
    if let Some(source) = bench.source() {
        check(list(&mut *lane(&source), "").unwrap());
    }
}

fn described(bench: &Bench<'_>) {
    let target = bench.target();
    fs::write(target.root.join("file"), "12345").unwrap();
    fs::hard_link(target.root.join("file"), target.root.join("again")).unwrap();
    fs::create_dir(target.root.join("directory")).unwrap();
    symlink("twelve bytes", target.root.join("link")).unwrap();
    fs::File::create(target.root.join("sparse")).unwrap().set_len(1 << 20).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        target.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let mut lane = lane(&target);
    let listing = list(&mut *lane, "").unwrap();
    assert_eq!(listing.len(), 6);
    for index in 0..listing.len() {
        let name = str::from_utf8(listing.name(index)).unwrap();
        let (found, real) = (*listing.metadata(index), fs::symlink_metadata(target.root.join(name)).unwrap());
        let kind = match name {
            "directory" => Kind::Directory,
            "link" => Kind::Symlink,
            "pipe" => Kind::Fifo,
            _ => Kind::File,
        };
        let time = |seconds, nanoseconds: i64| Time { seconds, nanoseconds: nanoseconds as u32 };
        assert_eq!(
            (found.kind, found.mode, found.size_bytes),
            (kind, real.mode() & 0o7777, real.size()),
            "{name}"
        );
        // Of directories nobody wants to know how many there are in them.
        let links = if real.is_dir() { 1 } else { real.nlink() };
        assert_eq!((found.uid, found.gid), (real.uid(), real.gid()), "{name}");
        assert_eq!(found.mtime, target.kept(time(real.mtime(), real.mtime_nsec())), "{name}");
        if !target.capabilities().inodes {
            let seen = inspect(&mut *lane, name).unwrap().unwrap();
            assert_eq!(Metadata { links: found.links, ..seen }, found, "{name}");
            continue;
        }
        assert_eq!(u64::from(found.links), links, "{name}");
        assert_eq!(found.ctime, time(real.ctime(), real.ctime_nsec()), "{name}");
        assert!(found.sparse == (name == "sparse") || name == "file" || name == "again", "{name}");
        assert_eq!(inspect(&mut *lane, name).unwrap(), Some(found), "{name}");
    }
    assert_eq!(inspect(&mut *lane, "missing").unwrap(), None);
    assert_eq!(inspect(&mut *lane, "file/below").unwrap(), None);
    assert_eq!(inspect(&mut *lane, "").unwrap().unwrap().kind, Kind::Directory);
}

fn several(bench: &Bench<'_>) {
    let target = bench.target();
    fs::create_dir_all(target.root.join("b/inside")).unwrap();
    fs::write(target.root.join("file"), "").unwrap();
    let asked = ["b", "missing", "", "file", "b/inside"].map(path);
    let listed = ask(
        &mut *lane(&target),
        TargetOp::List { directories: asked.to_vec(), budget: 0, detail: Detail::default() },
    );
    let Ok(TargetOutcome::Listed(listed)) = listed else { panic!("not the answer to a list: {listed:?}") };
    assert_eq!(listed.iter().map(|listing| listing.path.clone()).collect::<Vec<_>>(), asked);
    let results: Vec<_> = listed.iter().map(|listing| listing.result.as_ref()).collect();
    let kinds = results.iter().map(|result| result.map(|listing| listing.len()).map_err(|error| error.kind));
    let expected = [Ok(1), Err(ErrorKind::NotFound), Ok(2), Err(ErrorKind::Conflict), Ok(0)];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    assert_eq!(results[1].unwrap_err().at, b"missing");
}

fn budget(bench: &Bench<'_>) {
    let target = bench.target();
    for directory in 0..10 {
        for below in 0..10 {
            fs::create_dir_all(target.root.join(format!("{directory}/{below}"))).unwrap();
            for file in 0..3 {
                fs::write(target.root.join(format!("{directory}/{below}/{file}")), "").unwrap();
            }
        }
    }
    for budget in [5, 12, 50, 115, 100_000] {
        let list = TargetOp::List { directories: vec![path("")], budget, detail: Detail::default() };
        let listed = ask(&mut *lane(&target), list);
        let Ok(TargetOutcome::Listed(listed)) = listed else {
            panic!("not the answer to a list: {listed:?}")
        };
        let mut seen = BTreeMap::new();
        for (index, listing) in listed.into_iter().enumerate() {
            let entries = listing.result.unwrap();
            let depth = listing.path.names().count();
            assert_eq!(entries.len(), if depth < 2 { 10 } else { 3 }, "a listing is complete");
            assert!(entries.is_sorted());
            assert!(
                index == 0 || seen.contains_key(&listing.path.split_last().unwrap().0),
                "parents come first"
            );
            assert!(seen.insert(listing.path, entries.len()).is_none(), "each directory once");
        }
        let total: usize = seen.values().sum();
        assert!(seen.len() == 1 || total <= budget as usize, "{total} entries with a budget of {budget}");
    }
}

fn small_budget(bench: &Bench<'_>) {
    let target = bench.target();
    (0..50).for_each(|number| fs::create_dir(target.root.join(number.to_string())).unwrap());
    let list = TargetOp::List { directories: vec![path("")], budget: 7, detail: Detail::default() };
    let listed = ask(&mut *lane(&target), list);
    let Ok(TargetOutcome::Listed(listed)) = listed else { panic!("not the answer to a list: {listed:?}") };
    assert_eq!(listed[0].result.as_ref().unwrap().len(), 50);
}

fn unreadable(bench: &Bench<'_>) {
    use std::os::unix::fs::PermissionsExt;
    let target = bench.target();
    fs::create_dir(target.root.join("closed")).unwrap();
    fs::create_dir(target.root.join("open")).unwrap();
    fs::set_permissions(target.root.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let mut lane = lane(&target);
    assert_eq!(kind(list(&mut *lane, "closed")), ErrorKind::PermissionDenied);
    assert!(list(&mut *lane, "open").is_ok());
    assert_eq!(kind(begin(&mut *lane, 1, "closed/x", 1)), ErrorKind::PermissionDenied);
    // So that it can be cleared away.
    fs::set_permissions(target.root.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
}
