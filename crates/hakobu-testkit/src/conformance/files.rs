//! Cases about files and names: they are stored unchanged, and replace what may be replaced.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::endpoint::{Change, TargetOp};
use hakobu_core::entry::EntryKind;
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::grant::Grant;
use hakobu_core::pack::RecordHead;

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_reader::{names_of, reader, settles_to};
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("files of all sizes around a piece arrive as drafts", drafts_of_all_sizes),
    ConformanceCase::new("small files arrive in packs", packs_of_all_sizes),
    ConformanceCase::new("nasty names arrive byte for byte", nasty_names),
    ConformanceCase::new("a file that is there is replaced, announced or not", replaces),
    ConformanceCase::new("a link takes the place of a file, announced or not", replaced_by_link)
        .needs(&[Requirement::Symlinks]),
    ConformanceCase::new("what has another name keeps its content under that", replaces_one_name)
        .needs(&[Requirement::HardLinks]),
    ConformanceCase::new("missing directories above a file are made, private", parents),
    ConformanceCase::new("a directory in the place of a file is a conflict", directory_conflict)
        .needs(&[Requirement::Directories, Requirement::DistinctNames]),
    ConformanceCase::new("a directory in the place of a link is a conflict", directory_for_link)
        .needs(&[Requirement::Symlinks, Requirement::DistinctNames]),
    ConformanceCase::new(
        "a file in the place of a directory is a conflict where nothing may be removed",
        file_conflict,
    )
    .needs(&[Requirement::Directories, Requirement::DistinctNames]),
    ConformanceCase::new(
        "a directory takes the place of a file where something may be removed",
        file_gives_way,
    )
    .needs(&[Requirement::Directories, Requirement::DistinctNames]),
    ConformanceCase::new("a change that fails is named and the rest is made", failed_change)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("a file is given a further name", further_name).needs(&[Requirement::HardLinks]),
    ConformanceCase::new("named pipes arrive as named pipes", pipes).needs(&[Requirement::SpecialFiles]),
    ConformanceCase::new("a barrier is answered", barrier),
];

fn drafts_of_all_sizes(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    let sizes = [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES + 17];
    for (draft, size_bytes) in (1..).zip(sizes) {
        let bytes = content(size_bytes);
        let name = format!("of {size_bytes}");
        begin(&mut *lane, draft, &name, size_bytes).unwrap();
        for (index, piece) in bytes.chunks(PIECE_BYTES as usize).enumerate() {
            write(&mut *lane, draft, size_bytes, index as u64 * PIECE_BYTES, piece).unwrap();
        }
        finish(&mut *lane, draft, attributes(0o640)).unwrap();
        let mut seen = reader(bench);
        assert!(seen.content(&name) == bytes, "{size_bytes} bytes");
        seen.check(&name, &attributes(0o640));
    }
    assert_eq!(reader(bench).names("").len(), sizes.len());
}

fn packs_of_all_sizes(bench: &Workplace<'_>) {
    let target = bench.target();
    let (one, page, large) = (content(1), content(4096), content(200_000));
    let pack = pack("some/where", &[(b"0", b""), (b"1", &one), (b"4096", &page), (b"200000", &large)]);
    store_all(&mut *lane(&*target), pack);
    let mut seen = reader(bench);
    for bytes in [&[][..], &one, &page, &large] {
        let file = format!("some/where/{}", bytes.len());
        assert!(seen.content(&file) == bytes, "{} bytes", bytes.len());
        seen.check(&file, &attributes(0o644));
    }
    settles_to(bench, "some/where", &[b"0", b"1", b"200000", b"4096"]);
}

fn nasty_names(bench: &Workplace<'_>) {
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
    nasty.retain(|name| bench.abilities.target.names.check(name).is_ok());
    nasty.sort();
    let files: Vec<_> = nasty.iter().map(|name| (*name, *name)).collect();
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("", &files));
    let mut seen = reader(bench);
    let found = seen.contents("");
    assert_eq!(found.keys().collect::<Vec<_>>(), nasty);
    for (name, bytes) in found {
        assert_eq!(bytes, name);
    }
    assert_eq!(names_of(&seen.listing("")), nasty);
    assert_eq!(names_of(&list(&mut *lane, "").unwrap()), nasty);
}

fn replaces(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    for replaces in [true, false] {
        writer(bench).file("file", b"old and longer");
        let mut pack = pack("", &[]);
        add_file(&mut pack, b"file", &attributes(0o600), replaces, b"new");
        store_all(&mut *lane, pack);
        let mut seen = reader(bench);
        assert_eq!(seen.content("file"), b"new");
        seen.check("file", &attributes(0o600));
        assert_eq!(seen.names(""), [b"file"]);
    }
    // The pack announces that the name exists, which is not true.
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"gone", &attributes(0o600), true, b"new");
    store_all(&mut *lane, pack);
    assert_eq!(reader(bench).content("gone"), b"new");
}

fn replaced_by_link(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    for replaces in [true, false] {
        writer(bench).files("", &[(b"file", b"kept"), (b"other", b"old")]);
        let mut pack = pack("", &[]);
        pack.symlink(&RecordHead::new(b"other", attributes(0o777)).replacing(replaces), b"file");
        store_all(&mut *lane, pack);
        let mut seen = reader(bench);
        assert_eq!((seen.text("other"), seen.content("file")), (b"file".to_vec(), b"kept".to_vec()));
        assert_eq!(seen.names(""), [&b"file"[..], b"other"]);
    }
}

/// Checks that the file is replaced, not written into.
fn replaces_one_name(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    for (round, replaces) in [true, false].into_iter().enumerate() {
        let names = ["file", "file2", "draft", "draft2"].map(|name| format!("{name} {round}"));
        let [file, file2, draft, draft2] = names.each_ref().map(String::as_str);
        let mut preparing = writer(bench);
        for (name, other) in [(file, file2), (draft, draft2)] {
            preparing.file(name, b"old and longer");
            preparing.hard_link(other, name);
        }
        let mut pack = pack("", &[]);
        add_file(&mut pack, file.as_bytes(), &attributes(0o600), replaces, b"new");
        store_all(&mut *lane, pack);
        begin(&mut *lane, 1, draft, 3).unwrap();
        write(&mut *lane, 1, 3, 0, b"new").unwrap();
        finish(&mut *lane, 1, attributes(0o600)).unwrap();
        let mut seen = reader(bench);
        for (name, other) in [(file, file2), (draft, draft2)] {
            assert_eq!(seen.content(name), b"new", "{name}");
            assert_eq!(seen.content(other), b"old and longer", "{other}");
        }
    }
}

fn parents(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("a/b/c", &[(b"file", b"x")]));
    begin(&mut *lane, 1, "d/e/file", 0).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    let mut seen = reader(bench);
    for made in ["a", "a/b", "a/b/c", "d", "d/e"] {
        let metadata = seen.metadata(made);
        assert_eq!(metadata.kind, EntryKind::Directory, "{made}");
        let private = metadata.mode & !0o2000 == 0o700;
        let has_no_mode = !bench.abilities.keeps_modes() || bench.abilities.implies_directories();
        assert!(private || has_no_mode, "{made}: {:o}", metadata.mode);
    }
    assert_eq!((seen.content("a/b/c/file"), seen.content("d/e/file")), (b"x".to_vec(), Vec::new()));
}

fn directory_conflict(bench: &Workplace<'_>) {
    writer(bench).directories(["taken/inside"]);
    let target = bench.target();
    let mut lane = lane(&*target);
    for replaces in [false, true] {
        let mut pack = pack("", &[(b"first", b"1")]);
        add_file(&mut pack, b"taken", &attributes(0o644), replaces, b"x");
        add_file(&mut pack, b"last", &attributes(0o644), false, b"2");
        let (failures, _) = store(&mut *lane, pack).unwrap();
        assert_eq!(failures, [(1, ErrorKind::Conflict)]);
    }
    // It is a conflict whether it is detected at the beginning or at the end.
    let begun = begin(&mut *lane, 1, "taken", 1).and_then(|()| {
        write(&mut *lane, 1, 1, 0, b"x")?;
        finish(&mut *lane, 1, attributes(0o644))
    });
    assert_eq!(kind(begun), ErrorKind::Conflict);
    let _ = ask(&mut *lane, TargetOp::Abandon { draft: 1, keep: false });
    settles_to(bench, "", &[b"first", b"last", b"taken"]);
    assert_eq!(reader(bench).kind("taken/inside"), EntryKind::Directory);
}

fn directory_for_link(bench: &Workplace<'_>) {
    writer(bench).directories(["taken/inside"]);
    let target = bench.target();
    for replaces in [false, true] {
        let mut pack = pack("", &[]);
        pack.symlink(&RecordHead::new(b"taken", attributes(0o777)).replacing(replaces), b"x");
        add_file(&mut pack, b"last", &attributes(0o644), false, b"2");
        let (failures, _) = store(&mut *lane(&*target), pack).unwrap();
        assert_eq!(failures, [(0, ErrorKind::Conflict)]);
    }
    settles_to(bench, "", &[b"last", b"taken"]);
    assert_eq!(reader(bench).kind("taken/inside"), EntryKind::Directory);
}

/// A grant for everything except removal.
fn removes_nothing() -> Grant {
    Grant { may_remove: false, ..Grant::everything() }
}

fn file_conflict(bench: &Workplace<'_>) {
    writer(bench).file("taken", b"keep");
    let target = bench.target_with(removes_nothing());
    let mut pack = pack("taken", &[(b"a", b"1"), (b"b", b"2")]);
    pack.directory(&path("taken/deeper"));
    add_file(&mut pack, b"c", &attributes(0o644), false, b"3");
    pack.directory(&path("free"));
    add_file(&mut pack, b"d", &attributes(0o644), false, b"4");
    let mut lane = lane(&*target);
    let (failures, _) = store(&mut *lane, pack).unwrap();
    assert_eq!(failures, [(0, ErrorKind::Conflict), (1, ErrorKind::Conflict), (2, ErrorKind::Conflict)]);
    assert_eq!(kind(begin(&mut *lane, 1, "taken/x", 1)), ErrorKind::Conflict);
    let mut seen = reader(bench);
    assert_eq!((seen.content("taken"), seen.content("free/d")), (b"keep".to_vec(), b"4".to_vec()));
}

fn file_gives_way(bench: &Workplace<'_>) {
    for may_remove in [false, true] {
        writer(bench).file("place", b"old");
        let target = bench.target_with(Grant { may_remove, ..Grant::everything() });
        let stored = store(&mut *lane(&*target), pack("place", &[(b"x", b"1")])).unwrap();
        if may_remove {
            assert_eq!(stored, (Vec::new(), Vec::new()));
            assert_eq!(reader(bench).content("place/x"), b"1");
        } else {
            assert_eq!(stored.0, [(0, ErrorKind::Conflict)]);
            assert_eq!(reader(bench).content("place"), b"old");
        }
    }
}

fn failed_change(bench: &Workplace<'_>) {
    writer(bench).file("file", b"x");
    let target = bench.target_with(removes_nothing());
    let changes = vec![
        Change::Directory { path: path("file"), attributes: attributes(0o700), extended: None },
        Change::Attributes { path: path("missing"), attributes: attributes(0o600), extended: None },
        Change::Directory { path: path("fine"), attributes: attributes(0o750), extended: None },
    ];
    let mut lane = lane(&*target);
    let (failures, _) = apply(&mut *lane, changes).unwrap();
    let conflict = (!bench.abilities.target.shared_names).then_some((0, ErrorKind::Conflict));
    assert_eq!(failures, Vec::from_iter(conflict.into_iter().chain([(1, ErrorKind::NotFound)])));
    let mut seen = reader(bench);
    seen.check("fine", &attributes(0o750));
    assert_eq!(seen.content("file"), b"x");
    let missing = Change::Attributes { path: path("missing"), attributes: attributes(0o600), extended: None };
    assert_eq!(change(&mut *lane, missing).unwrap_err().at, b"missing");
}

fn further_name(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    let wanted = preparing.file("d/file", b"content");
    preparing.file("taken", b"old");
    drop(preparing);
    let target = bench.target();
    let mut lane = lane(&*target);
    let link = |at, replaces| Change::Link { path: path(at), to: path("d/file"), replaces };
    let changes = vec![link("name", false), link("e/name", false), link("taken", true)];
    assert_eq!(apply(&mut *lane, changes).unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    let first = seen.metadata("d/file");
    for name in ["name", "e/name", "taken"] {
        assert_eq!(seen.content(name), b"content", "{name}");
        seen.check(name, &wanted);
        if bench.abilities.source.inodes {
            let found = seen.metadata(name);
            assert!(found.inode.is_some());
            assert_eq!((found.inode, found.links), (first.inode, 4), "{name}");
        }
        if bench.abilities.source.tells_links {
            let found = seen.metadata(name);
            assert!(found.inode.is_some() && found.links > 1);
            assert_eq!(found.inode, first.inode, "{name}");
        }
    }
    let nothing = Change::Link { path: path("other"), to: path("missing"), replaces: false };
    assert!(change(&mut *lane, nothing).is_err());
    assert_eq!(reader(bench).inspect("other"), None);
}

fn pipes(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    let wanted = preparing.pipe("d/pipe");
    let mut seen = reader(bench);
    assert_eq!(seen.kind("d/pipe"), EntryKind::Fifo);
    seen.check("d/pipe", &wanted);
}

fn barrier(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("a", &[(b"b", b"c")]));
    done(&ask(&mut *lane, TargetOp::Barrier { durable: true, whole: true }).unwrap()).unwrap();
    assert_eq!(reader(bench).content("a/b"), b"c");
}
