//! Cases about attributes: modes, times and owners are set as far as the capabilities promise.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::endpoint::{Change, CompletionWait, TargetOp};
use hakobu_core::entry::{Attributes, EntryKind, FileTime};
use hakobu_core::pack::RecordHead;

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_reader::reader;
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("mode and time are kept, as finely as the endpoint says", kept)
        .needs(&[Requirement::Times]),
    ConformanceCase::new("the times of links are kept", link_times).needs(&[Requirement::LinkAttributes]),
    ConformanceCase::new("attributes of directories and files change", changed)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("attributes of links are set or left, and never fail", changed_link)
        .needs(&[Requirement::Symlinks]),
    ConformanceCase::new(
        "directories are given their attributes in the order of the operations",
        directories_in_order,
    )
    .needs(&[Requirement::Directories, Requirement::Times]),
    ConformanceCase::new("owners are kept by number, and set-ID bits with them", owners).needs(&[
        Requirement::Root,
        Requirement::Owners,
        Requirement::SetId,
    ]),
    ConformanceCase::new("owners of links are kept by number", link_owners).needs(&[
        Requirement::Root,
        Requirement::Owners,
        Requirement::LinkAttributes,
    ]),
    ConformanceCase::new(
        "what is made in a set-group-ID directory gets the group that it should have",
        given_group,
    )
    .needs(&[Requirement::Root, Requirement::Owners, Requirement::SetId]),
    ConformanceCase::new("a directory can be made with ordinary permissions", make_directory)
        .needs(&[Requirement::EmptyDirectories]),
];

/// A variety of modes and times.
fn all_sorts() -> [(&'static str, Attributes); 5] {
    [
        ("usual", 0o644, 1_700_000_000, 1),
        ("shared", 0o666, 1_700_000_000, 999_999_999),
        ("open", 0o1777, 4_000_000_000, 0),
        ("closed", 0, 0, 0),
        ("read only", 0o444, -1, 500_000_000),
    ]
    .map(|(name, mode, seconds, nanoseconds)| {
        (name, Attributes { mtime: FileTime { seconds, nanoseconds }, ..attributes(mode) })
    })
}

fn kept(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut pack = pack("", &[]);
    for (name, wanted) in all_sorts() {
        add_file(&mut pack, name.as_bytes(), &wanted, false, name.as_bytes());
    }
    store_all(&mut *lane(&*target), pack);
    let mut seen = reader(bench);
    all_sorts().iter().for_each(|(name, wanted)| seen.check(name, wanted));
}

fn link_times(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut pack = pack("", &[]);
    for (name, wanted) in all_sorts() {
        pack.symlink(&RecordHead::new(name.as_bytes(), wanted), name.as_bytes());
    }
    store_all(&mut *lane(&*target), pack);
    let mut seen = reader(bench);
    for (name, wanted) in all_sorts() {
        assert_eq!(seen.text(name), name.as_bytes());
        assert_eq!(seen.metadata(name).mtime, bench.abilities.kept_time(wanted.mtime), "{name}");
    }
}

/// Attributes with an unusual time.
fn late(mode: u32) -> Attributes {
    Attributes { mtime: FileTime { seconds: 5, nanoseconds: 7 }, ..attributes(mode) }
}

fn changed(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.directories(["there"]);
    preparing.file("file", b"x");
    drop(preparing);
    let target = bench.target();
    let changes = vec![
        Change::Attributes { path: path("file"), attributes: attributes(0o604), extended: None },
        Change::Directory { path: path("new/below"), attributes: attributes(0o2750), extended: None },
        Change::Directory { path: path("new"), attributes: late(0o711), extended: None },
        Change::Directory { path: path("there"), attributes: attributes(0o555), extended: None },
    ];
    assert_eq!(apply(&mut *lane(&*target), changes).unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    seen.check("file", &attributes(0o604));
    seen.check("new/below", &attributes(0o2750));
    seen.check("new", &late(0o711));
    seen.check("there", &attributes(0o555));
    assert_eq!(seen.content("file"), b"x");
}

fn changed_link(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    let of_file = preparing.file("file", b"x");
    preparing.symlink("link", b"file");
    drop(preparing);
    let change = Change::Attributes { path: path("link"), attributes: late(0o700), extended: None };
    let applied = apply(&mut *lane(&*bench.target()), vec![change]);
    assert_eq!(applied.unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    seen.check("file", &of_file);
    assert_eq!(seen.text("link"), b"file");
    if bench.abilities.target.sets_links {
        assert_eq!(seen.metadata("link").mtime, bench.abilities.kept_time(late(0).mtime));
    }
}

/// Checks that the entries of a directory are processed before the directory, even if the operations are in flight at
/// the same time.
fn directories_in_order(bench: &Workplace<'_>) {
    writer(bench).directories(["in"]);
    let target = bench.target();
    let mut lane = lane(&*target);
    let directory = |name: &str| Change::Directory {
        path: path(name),
        attributes: Attributes { mtime: FileTime { seconds: 6, nanoseconds: 0 }, ..attributes(0o755) },
        extended: None,
    };
    // The directory is now known, which makes the second operation on it short.
    ask(&mut *lane, TargetOp::Apply { changes: vec![directory("in")] }).unwrap();
    for (ticket, name) in [(1, "in/new/below"), (2, "in/new"), (3, "in")] {
        assert!(lane.submit(ticket, TargetOp::Apply { changes: vec![directory(name)] }).is_ok(), "{name}");
    }
    lane.flush();
    let mut answers = 0;
    while answers < 3 {
        if let Some(completion) = lane.reap(CompletionWait::For(PATIENCE)) {
            assert!(completion.result.is_ok(), "{completion:?}");
            answers += 1;
        }
    }
    let mut seen = reader(bench);
    for name in ["in/new/below", "in/new", "in"] {
        assert_eq!(seen.metadata(name).mtime.seconds, 6, "{name}");
    }
}

/// Attributes with an owner that no user of the machine has.
fn others() -> Attributes {
    Attributes { uid: 4711, gid: 815, ..attributes(0o6755) }
}

fn owners(bench: &Workplace<'_>) {
    writer(bench).file("late", b"x");
    let target = bench.target();
    let mut lane = lane(&*target);
    let mut pack = pack("", &[(b"own", b"")]);
    add_file(&mut pack, b"packed", &others(), false, b"x");
    store_all(&mut *lane, pack);
    begin(&mut *lane, 1, "draft", 0).unwrap();
    finish(&mut *lane, 1, others()).unwrap();
    let changes = vec![
        Change::Directory { path: path("directory"), attributes: others(), extended: None },
        Change::Attributes { path: path("late"), attributes: others(), extended: None },
    ];
    assert_eq!(apply(&mut *lane, changes).unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    ["packed", "draft", "directory", "late"].iter().for_each(|name| seen.check(name, &others()));
    seen.check("own", &attributes(0o644));
}

fn link_owners(bench: &Workplace<'_>) {
    let target = bench.target();
    let mut pack = pack("", &[]);
    pack.symlink(&RecordHead::new(b"link", others()), b"x");
    store_all(&mut *lane(&*target), pack);
    let link = reader(bench).metadata("link");
    assert_eq!((link.uid, link.gid), (4711, 815));
}

fn given_group(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.directory_attributes("directory", Attributes { mode: 0o2777, ..others() });
    drop(preparing);
    let target = bench.target();
    let mut inside = pack("directory", &[(b"a", b"1")]);
    if bench.abilities.target.sets_links {
        inside.symlink(&RecordHead::new(b"l", attributes(0o777)), b"x");
    }
    let mut lane = lane(&*target);
    store_all(&mut *lane, inside);
    begin(&mut *lane, 1, "directory/draft", 0).unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    let mut seen = reader(bench);
    seen.check("directory/a", &attributes(0o644));
    seen.check("directory/draft", &attributes(0o644));
    if bench.abilities.target.sets_links {
        assert_eq!(seen.metadata("directory/l").gid, attributes(0).gid);
    }
}

fn make_directory(bench: &Workplace<'_>) {
    let target = bench.target();
    let make = |mode| Change::MakeDirectory { path: path("made/deeper"), mode };
    let made = apply(&mut *lane(&*target), vec![make(0o755), make(0o700)]);
    assert_eq!(made.unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    let mode = seen.metadata("made/deeper").mode & 0o777;
    let kept = mode & !0o055 == 0o700 || !bench.abilities.keeps_modes();
    assert!(kept, "made once, with the first mode as far as the umask lets it, and not {mode:o}");
    assert_eq!((seen.kind("made"), seen.kind("made/deeper")), (EntryKind::Directory, EntryKind::Directory));
}
