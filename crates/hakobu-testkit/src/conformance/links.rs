//! Cases about symbolic links in a path: they are replaced, never followed. Here they lead to another part of the
//! same place. Links that lead out of it are tested in the cases for directories.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::endpoint::Change;
use hakobu_core::entry::{Attributes, EntryKind};
use hakobu_core::pack::RecordHead;

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_reader::reader;
use super::tree_writer::writer;

const SYMLINKS: &[Requirement] = &[Requirement::Symlinks];

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("links keep their text, whatever it is", texts).needs(SYMLINKS),
    ConformanceCase::new("a link to a file is replaced, not written through", link_to_file).needs(SYMLINKS),
    ConformanceCase::new("a link to a directory is not entered", link_to_directory).needs(SYMLINKS),
    ConformanceCase::new("a link to a directory on the way is not entered", link_in_the_middle)
        .needs(SYMLINKS),
    ConformanceCase::new("attributes of what a link leads to are not set", attributes_through_a_link)
        .needs(SYMLINKS),
    ConformanceCase::new("what a link leads to is not listed below it", list_through_a_link).needs(SYMLINKS),
    ConformanceCase::new("what a link leads to is not removed", remove_through_a_link).needs(SYMLINKS),
];

fn texts(bench: &Workplace<'_>) {
    let long = vec![b'x'; 4000];
    let texts: [&[u8]; 6] = [b"../../etc", b"/absolute", b"\xff\n", b".", b"missing", &long];
    let mut pack = pack("in", &[]);
    for (index, text) in texts.iter().enumerate() {
        pack.symlink(&RecordHead::new(index.to_string().as_bytes(), attributes(0o777)), text);
    }
    store_all(&mut *lane(&*bench.target()), pack);
    let mut seen = reader(bench);
    for (index, text) in texts.iter().enumerate() {
        assert_eq!(seen.text(&format!("in/{index}")), *text);
    }
}

/// Creates a file that must not change, in a directory that symbolic links will point to.
fn aside(bench: &Workplace<'_>) -> Attributes {
    let mut preparing = writer(bench);
    preparing.directories(["aside/b"]);
    preparing.file("aside/file", b"untouched")
}

fn untouched(bench: &Workplace<'_>, of_file: &Attributes) {
    let mut seen = reader(bench);
    assert_eq!(seen.names("aside"), [&b"b"[..], b"file"]);
    assert!(seen.names("aside/b").is_empty());
    assert_eq!(seen.content("aside/file"), b"untouched");
    seen.check("aside/file", of_file);
}

/// Returns the kind of the entry that has the name of a link after a directory of that name was written. The link stays
/// where both can have one name.
fn replaced_link(bench: &Workplace<'_>) -> EntryKind {
    if bench.abilities.target.shared_names { EntryKind::Symlink } else { EntryKind::Directory }
}

fn link_to_file(bench: &Workplace<'_>) {
    let of_file = aside(bench);
    let names = ["announced", "not announced", "draft"];
    for name in names {
        writer(bench).symlink(name, b"aside/file");
    }
    let target = bench.target();
    let mut lane = lane(&*target);
    let mut pack = pack("", &[]);
    add_file(&mut pack, b"announced", &attributes(0o600), true, b"new");
    add_file(&mut pack, b"not announced", &attributes(0o600), false, b"new");
    store_all(&mut *lane, pack);
    begin(&mut *lane, 1, "draft", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    finish(&mut *lane, 1, attributes(0o600)).unwrap();
    let mut seen = reader(bench);
    for name in names {
        assert_eq!(seen.content(name), b"new");
        seen.check(name, &attributes(0o600));
    }
    untouched(bench, &of_file);
}

fn link_to_directory(bench: &Workplace<'_>) {
    let of_file = aside(bench);
    let names = ["pack", "draft", "made", "attributes"];
    for name in names {
        writer(bench).symlink(name, b"aside");
    }
    let target = bench.target();
    let mut lane = lane(&*target);
    store_all(&mut *lane, pack("pack", &[(b"file", b"new")]));
    begin(&mut *lane, 1, "draft/file", 3).unwrap();
    write(&mut *lane, 1, 3, 0, b"new").unwrap();
    finish(&mut *lane, 1, attributes(0o644)).unwrap();
    let changes = vec![
        Change::MakeDirectory { path: path("made"), mode: 0o755 },
        Change::Directory { path: path("attributes"), attributes: attributes(0o755), extended: None },
    ];
    assert_eq!(apply(&mut *lane, changes).unwrap(), (Vec::new(), Vec::new()));
    let mut seen = reader(bench);
    for name in names.into_iter().filter(|name| *name != "made") {
        assert_eq!(seen.kind(name), replaced_link(bench), "{name}");
    }
    // Where a directory exists only because something is in it, its place is free.
    let is_made = seen.inspect("made").map(|made| made.kind);
    assert!(matches!(is_made, None | Some(EntryKind::Directory)), "{is_made:?}");
    assert_eq!(is_made.is_none(), bench.abilities.target.shared_names);
    assert_eq!((seen.content("pack/file"), seen.content("draft/file")), (b"new".to_vec(), b"new".to_vec()));
    untouched(bench, &of_file);
}

fn link_in_the_middle(bench: &Workplace<'_>) {
    let of_file = aside(bench);
    writer(bench).symlink("a", b"aside");
    store_all(&mut *lane(&*bench.target()), pack("a/b/c", &[(b"file", b"new")]));
    let mut seen = reader(bench);
    assert_eq!(seen.kind("a"), replaced_link(bench));
    assert_eq!(seen.content("a/b/c/file"), b"new");
    untouched(bench, &of_file);
}

fn attributes_through_a_link(bench: &Workplace<'_>) {
    let of_file = aside(bench);
    let mut preparing = writer(bench);
    preparing.symlink("link", b"aside/file");
    preparing.symlink("way", b"aside");
    drop(preparing);
    let changes = ["link", "way/file"].map(|at| Change::Attributes {
        path: path(at),
        attributes: attributes(0o4777),
        extended: None,
    });
    let (failures, _) = apply(&mut *lane(&*bench.target()), changes.to_vec()).unwrap();
    assert_eq!(failures.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [1]);
    let mut seen = reader(bench);
    assert_eq!((seen.text("link"), seen.text("way")), (b"aside/file".to_vec(), b"aside".to_vec()));
    untouched(bench, &of_file);
}

fn list_through_a_link(bench: &Workplace<'_>) {
    fn all_fail<L: EntryLane + ?Sized>(lane: &mut L) {
        assert!(list(lane, "way").is_err());
        assert!(list(lane, "way/b").is_err());
        assert_eq!(inspect(lane, "way/file").unwrap(), None);
        assert_eq!(inspect(lane, "way").unwrap().unwrap().kind, EntryKind::Symlink);
    }
    aside(bench);
    writer(bench).symlink("way", b"aside");
    all_fail(&mut *lane(&*bench.target()));
    all_fail(&mut *lane(&*bench.source()));
}

fn remove_through_a_link(bench: &Workplace<'_>) {
    let of_file = aside(bench);
    writer(bench).symlink("way", b"aside");
    let target = bench.target();
    let mut lane = lane(&*target);
    // An entry behind the symbolic link is not below it, so it does not exist.
    remove(&mut *lane, "way/file", false, 0).unwrap();
    remove(&mut *lane, "way/b", true, 0).unwrap();
    untouched(bench, &of_file);
    let of_directory = remove(&mut *lane, "way", true, 0);
    assert_eq!(of_directory.is_ok(), bench.abilities.target.shared_names, "each kind by its own name only");
    assert_eq!(reader(bench).kind("way"), EntryKind::Symlink);
    remove(&mut *lane, "way", false, 0).unwrap();
    assert_eq!(reader(bench).names(""), [b"aside"]);
    untouched(bench, &of_file);
}
