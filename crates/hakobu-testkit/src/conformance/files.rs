//! Files, names and attributes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::pack::Head;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use hakobu_core::endpoint::{Change, TargetOp, TargetOutcome, Wait};
use hakobu_core::entry::{Attributes, Time};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;

use super::bench::*;
use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("files of all sizes around a piece arrive as drafts", drafts_of_all_sizes),
    Case::new("small files arrive in packs", packs_of_all_sizes),
    Case::new("nasty names arrive byte for byte", nasty_names),
    Case::new("a file that is there is replaced, announced or not", replaces),
    Case::new("missing directories above a file are made, private", parents),
    Case::new("a directory in the place of a file is a conflict", directory_conflict),
    Case::new("a file in the place of a directory is a conflict where nothing may be removed", file_conflict),
    Case::new("mode and time are kept, as finely as the endpoint says", attributes_kept),
    Case::new("attributes of directories, files and links change", attributes_apply),
    Case::new("directories are given their attributes in the order of the operations", directories_in_order),
    Case::new("a change that fails is named and the rest is made", failed_change),
    Case::root("owners are kept by number, and set-ID bits with them", owners),
    Case::new("a directory can be made with ordinary permissions", make_directory),
    Case::new("a barrier is answered", barrier),
];

fn drafts_of_all_sizes(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    let sizes = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 17];
    for (draft, size_bytes) in (1..).zip(sizes) {
        let bytes = content(size_bytes);
        let name = format!("of {size_bytes}");
        begin(&mut *lane, draft, &name, size_bytes).unwrap();
        for (index, piece) in bytes.chunks(PIECE_BYTES as usize).enumerate() {
            write(&mut *lane, draft, size_bytes, index as u64 * PIECE_BYTES, piece).unwrap();
        }
        finish(&mut *lane, draft, attributes(0o640)).unwrap();
        assert!(fs::read(target.root.join(&name)).unwrap() == bytes, "{size_bytes} bytes");
        target.check(name, &attributes(0o640));
    }
    assert_eq!(names(&target.root).len(), sizes.len());
}

fn packs_of_all_sizes(bench: &Bench<'_>) {
    let target = bench.target();
    let (one, page, large) = (content(1), content(4096), content(200_000));
    let pack = pack("some/where", &[(b"0", b""), (b"1", &one), (b"4096", &page), (b"200000", &large)]);
    store_all(&mut *lane(&target), pack);
    for bytes in [&[][..], &one, &page, &large] {
        let file = target.root.join("some/where").join(bytes.len().to_string());
        assert!(fs::read(&file).unwrap() == bytes, "{} bytes", bytes.len());
        target.check(&file, &attributes(0o644));
    }
    settles_to(&target.root.join("some/where"), &[b"0", b"1", b"200000", b"4096"]);
}

fn nasty_names(bench: &Bench<'_>) {
    let target = bench.target();
    let long = [b'n'; 255];
    let mut nasty: Vec<&[u8]> = vec![
        b" ",
        b"-rf",
        b"...",
        b".hakobu",
        b".hakobu.short",
        b"a\nb",
        b"a'b\"c",
        b"\x1b[2J",
        b"*",
        b"\\",
        b"\x01",
        b"\xff\xfe",
        b"\xe9\x81",
        "名前".as_bytes(),
        &long,
    ];
    nasty.sort();
    let files: Vec<_> = nasty.iter().map(|name| (*name, *name)).collect();
    let mut lane = lane(&target);
    store_all(&mut *lane, pack("", &files));
    assert_eq!(names(&target.root), nasty);
    for name in &nasty {
        assert_eq!(fs::read(target.root.join(OsStr::from_bytes(name))).unwrap(), *name);
    }
    let listing = list(&mut *lane, "").unwrap();
    assert_eq!((0..listing.len()).map(|index| listing.name(index)).collect::<Vec<_>>(), nasty);
}

fn replaces(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    for replaces in [true, false] {
        for name in ["file", "other"] {
            fs::write(target.root.join(name), "old and longer").unwrap();
            fs::hard_link(target.root.join(name), target.root.join(format!("{name}2"))).unwrap();
        }
        let mut pack = pack("", &[]);
        add_file(&mut pack, b"file", &attributes(0o600), replaces, b"new");
        pack.symlink(&Head::new(b"other", attributes(0o777)).replacing(replaces), b"file");
        store_all(&mut *lane, pack);
        assert_eq!(fs::read(target.root.join("file")).unwrap(), b"new");
        target.check("file", &attributes(0o600));
        assert_eq!(fs::read_link(target.root.join("other")).unwrap(), Path::new("file"));
        // The other name of the old file kept the old content: it was replaced, not written into.
        assert_eq!(fs::read(target.root.join("file2")).unwrap(), b"old and longer");
        assert_eq!(names(&target.root), [&b"file"[..], b"file2", b"other", b"other2"]);
        names(&target.root)
            .iter()
            .for_each(|name| fs::remove_file(target.root.join(OsStr::from_bytes(name))).unwrap());
    }
    // A name that is announced as being there and is not.
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"gone", &attributes(0o600), true, b"new");
    store_all(&mut *lane, pack);
    assert_eq!(fs::read(target.root.join("gone")).unwrap(), b"new");
}

fn parents(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    store_all(&mut *lane, pack("a/b/c", &[(b"file", b"x")]));
    begin(&mut *lane, 1, "d/e/file", 0).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    for made in ["a", "a/b", "a/b/c", "d", "d/e"] {
        let mode = fs::metadata(target.root.join(made)).unwrap().mode() & 0o7777;
        assert_eq!(mode & !0o2000, 0o700, "{made}");
    }
    assert!(target.root.join("a/b/c/file").exists() && target.root.join("d/e/file").exists());
}

fn directory_conflict(bench: &Bench<'_>) {
    let target = bench.target();
    fs::create_dir_all(target.root.join("taken/inside")).unwrap();
    let mut lane = lane(&target);
    for replaces in [false, true] {
        let mut pack = pack("", &[(b"first", b"1")]);
        add_file(&mut pack, b"taken", &attributes(0o644), replaces, b"x");
        pack.symlink(&Head::new(b"taken", attributes(0o777)).replacing(replaces), b"x");
        add_file(&mut pack, b"last", &attributes(0o644), false, b"2");
        let (failures, _) = store(&mut *lane, pack).unwrap();
        assert_eq!(failures, [(1, ErrorKind::Conflict), (2, ErrorKind::Conflict)]);
    }
    // Whether it is found at the beginning or in the end, it is a conflict.
    let begun = begin(&mut *lane, 1, "taken", 1).and_then(|()| {
        write(&mut *lane, 1, 1, 0, b"x")?;
        finish(&mut *lane, 1, attributes(0o644))
    });
    assert_eq!(kind(begun), ErrorKind::Conflict);
    let _ = ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: false });
    settles_to(&target.root, &[b"first", b"last", b"taken"]);
    assert!(target.root.join("taken/inside").is_dir());
}

/// May do everything but remove.
fn removes_nothing() -> Grant {
    Grant { may_remove: false, ..Grant::everything() }
}

fn file_conflict(bench: &Bench<'_>) {
    let target = bench.target_with(removes_nothing());
    fs::write(target.root.join("taken"), "keep").unwrap();
    let mut pack = pack("taken", &[(b"a", b"1"), (b"b", b"2")]);
    pack.directory(&path("taken/deeper"));
    add_file(&mut pack, b"c", &attributes(0o644), false, b"3");
    pack.directory(&path("free"));
    add_file(&mut pack, b"d", &attributes(0o644), false, b"4");
    let mut lane = lane(&target);
    let (failures, _) = store(&mut *lane, pack).unwrap();
    assert_eq!(failures, [(0, ErrorKind::Conflict), (1, ErrorKind::Conflict), (2, ErrorKind::Conflict)]);
    assert_eq!(kind(begin(&mut *lane, 1, "taken/x", 1)), ErrorKind::Conflict);
    assert_eq!(fs::read(target.root.join("taken")).unwrap(), b"keep");
    assert_eq!(fs::read(target.root.join("free/d")).unwrap(), b"4");
}

fn attributes_kept(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    let mut pack = pack("", &[]);
    let mut expected = Vec::new();
    for (name, mode, seconds, nanoseconds) in [
        ("usual", 0o644, 1_700_000_000, 1),
        ("shared", 0o666, 1_700_000_000, 999_999_999),
        ("open", 0o1777, 4_000_000_000, 0),
        ("closed", 0, 0, 0),
        ("read only", 0o444, -1, 500_000_000),
    ] {
        let wanted = Attributes { mtime: Time { seconds, nanoseconds }, ..attributes(mode) };
        add_file(&mut pack, name.as_bytes(), &wanted, false, name.as_bytes());
        pack.symlink(&Head::new(format!("link {name}").as_bytes(), wanted), name.as_bytes());
        expected.push((name, wanted));
    }
    store_all(&mut *lane, pack);
    for (name, wanted) in expected {
        target.check(name, &wanted);
        if !target.capabilities().sets_links {
            continue;
        }
        let link = fs::symlink_metadata(target.root.join(format!("link {name}"))).unwrap();
        let kept = target.kept(wanted.mtime);
        assert_eq!((link.mtime(), link.mtime_nsec() as u32), (kept.seconds, kept.nanoseconds));
    }
}

fn attributes_apply(bench: &Bench<'_>) {
    let target = bench.target();
    fs::create_dir(target.root.join("there")).unwrap();
    fs::write(target.root.join("file"), "x").unwrap();
    std::os::unix::fs::symlink("file", target.root.join("link")).unwrap();
    let late = |mode| Attributes { mtime: Time { seconds: 5, nanoseconds: 7 }, ..attributes(mode) };
    let changes = vec![
        Change::Attributes { path: path("link"), attributes: late(0o700), extended: None },
        Change::Attributes { path: path("file"), attributes: attributes(0o604), extended: None },
        Change::Directory { path: path("new/below"), attributes: attributes(0o2750), extended: None },
        Change::Directory { path: path("new"), attributes: late(0o711), extended: None },
        Change::Directory { path: path("there"), attributes: attributes(0o555), extended: None },
    ];
    apply_all(bench, changes);
    let link = fs::symlink_metadata(target.root.join("link")).unwrap();
    let kept = target.kept(late(0).mtime);
    if target.capabilities().sets_links {
        assert_eq!((link.mtime(), link.mtime_nsec() as u32), (kept.seconds, kept.nanoseconds));
    }
    target.check("file", &attributes(0o604));
    target.check("new/below", &attributes(0o2750));
    target.check("new", &late(0o711));
    target.check("there", &attributes(0o555));
}

/// What is in a directory comes before it, in operations that are under way at the same time.
fn directories_in_order(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    let directory = |name: &str| Change::Directory {
        path: path(name),
        attributes: Attributes { mtime: Time { seconds: 5, nanoseconds: 0 }, ..attributes(0o755) },
        extended: None,
    };
    fs::create_dir(target.root.join("in")).unwrap();
    // Known as a directory from here on, so that there is little to be done for the second.
    ask(&mut *lane, TargetOp::Apply { changes: vec![directory("in")] }).unwrap();
    for (ticket, name) in [(1, "in/new/below"), (2, "in/new"), (3, "in")] {
        assert!(lane.submit(ticket, TargetOp::Apply { changes: vec![directory(name)] }).is_ok(), "{name}");
    }
    lane.flush();
    let mut answers = 0;
    while answers < 3 {
        if let Some(completion) = lane.reap(Wait::For(PATIENCE)) {
            assert!(completion.result.is_ok(), "{completion:?}");
            answers += 1;
        }
    }
    for name in ["in/new/below", "in/new", "in"] {
        assert_eq!(fs::metadata(target.root.join(name)).unwrap().mtime(), 5, "{name}");
    }
}

fn apply_all(bench: &Bench<'_>, changes: Vec<Change>) {
    let outcome = ask(&mut *lane(&bench.target()), TargetOp::Apply { changes }).unwrap();
    let TargetOutcome::Stored { failures, losses } = outcome else {
        panic!("not the answer to changes: {outcome:?}")
    };
    assert!(failures.is_empty() && losses.is_empty(), "{failures:?} {losses:?}");
}

fn failed_change(bench: &Bench<'_>) {
    let target = bench.target_with(removes_nothing());
    fs::write(target.root.join("file"), "x").unwrap();
    let changes = vec![
        Change::Directory { path: path("file"), attributes: attributes(0o700), extended: None },
        Change::Attributes { path: path("missing"), attributes: attributes(0o600), extended: None },
        Change::Directory { path: path("fine"), attributes: attributes(0o750), extended: None },
    ];
    let outcome = ask(&mut *lane(&target), TargetOp::Apply { changes }).unwrap();
    let TargetOutcome::Stored { failures, .. } = outcome else {
        panic!("not the answer to changes: {outcome:?}")
    };
    let kinds: Vec<_> = failures.iter().map(|(index, error)| (*index, error.kind)).collect();
    assert_eq!(kinds, [(0, ErrorKind::Conflict), (1, ErrorKind::NotFound)]);
    assert_eq!(failures[1].1.at, b"missing");
    target.check("fine", &attributes(0o750));
}

fn owners(bench: &Bench<'_>) {
    let target = bench.target();
    if !target.capabilities().owners || !target.capabilities().sets_links {
        return;
    }
    let mut lane = lane(&target);
    let wanted = Attributes { uid: 4711, gid: 815, ..attributes(0o6755) };
    let mut pack = pack("", &[(b"own", b"")]);
    add_file(&mut pack, b"packed", &wanted, false, b"x");
    pack.symlink(&Head::new(b"link", wanted), b"x");
    store_all(&mut *lane, pack);
    begin(&mut *lane, 1, "draft", 0).unwrap();
    finish(&mut *lane, 1, wanted).unwrap();
    fs::write(target.root.join("late"), "x").unwrap();
    let changes = vec![
        Change::Directory { path: path("directory"), attributes: wanted, extended: None },
        Change::Attributes { path: path("late"), attributes: wanted, extended: None },
    ];
    apply_all(bench, changes);
    for name in ["packed", "draft", "directory", "late"] {
        target.check(name, &wanted);
    }
    let link = fs::symlink_metadata(target.root.join("link")).unwrap();
    assert_eq!((link.uid(), link.gid()), (4711, 815));
    // A directory that gives its group to what is made in it.
    fs::set_permissions(target.root.join("directory"), fs::Permissions::from_mode(0o2777)).unwrap();
    let mut inside = super::bench::pack("directory", &[(b"a", b"1")]);
    inside.symlink(&Head::new(b"l", attributes(0o777)), b"x");
    store_all(&mut *lane, inside);
    target.check("directory/a", &attributes(0o644));
    assert_eq!(fs::symlink_metadata(target.root.join("directory/l")).unwrap().gid(), attributes(0).gid);
}

fn make_directory(bench: &Bench<'_>) {
    let target = bench.target();
    let make = |mode| Change::MakeDirectory { path: path("made/deeper"), mode };
    apply_all(bench, vec![make(0o755), make(0o700)]);
    let mode = fs::metadata(target.root.join("made/deeper")).unwrap().mode() & 0o777;
    assert_eq!(mode & !0o055, 0o700, "made once, with the first mode as far as the umask lets it");
    assert!(fs::metadata(target.root.join("made")).unwrap().is_dir());
}

fn barrier(bench: &Bench<'_>) {
    let target = bench.target();
    let mut lane = lane(&target);
    store_all(&mut *lane, pack("a", &[(b"b", b"c")]));
    done(&ask(&mut *lane, TargetOp::Barrier { durable: true, whole: true }).unwrap()).unwrap();
}
