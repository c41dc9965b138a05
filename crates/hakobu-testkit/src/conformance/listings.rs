//! Cases about listings: complete, in order, or an error.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::collections::BTreeMap;

use hakobu_core::Result;
use hakobu_core::endpoint::{ListingPage, SourceOp, SourceOutcome, TargetOp, TargetOutcome};
use hakobu_core::entry::{Attributes, EntryKind, EntryMetadata};
use hakobu_core::error::ErrorKind;
use hakobu_core::handle::Cursor;
use hakobu_core::listed::ListedAttributes;
use hakobu_core::listing::{Detail, Listing};

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_reader::reader;
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("ten thousand entries are all listed, in order", ten_thousand),
    ConformanceCase::new("an entry is described as it was made", described)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("names of one file are told to be that", names_of_one_file)
        .needs(&[Requirement::HardLinks, Requirement::Inodes]),
    ConformanceCase::new("several directories are answered in the order they were asked for", several)
        .needs(&[Requirement::Directories]),
    ConformanceCase::new("descendants come complete and within the budget", budget),
    ConformanceCase::new("portions come in order, one behind the other, and are all of it", in_order)
        .needs(&[Requirement::Order]),
    ConformanceCase::new("a listing that is asked for comes whatever the budget", small_budget)
        .needs(&[Requirement::Directories]),
];

fn ten_thousand(bench: &Workplace<'_>) {
    let (mut files, mut directories, mut expected) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..10_000u32 {
        // Every seventh name is invalid UTF-8, and every hundredth entry is a directory.
        let mut name = format!("{:x}-{number}", number.wrapping_mul(2_654_435_761)).into_bytes();
        if number.is_multiple_of(7) && !bench.abilities.target.names.text {
            name.insert(0, 0xff);
        }
        if number.is_multiple_of(100) {
            directories.push(name.clone());
            name.push(b'/');
        } else {
            files.push(name.clone());
        }
        expected.push(name);
    }
    expected.sort();
    let mut preparing = writer(bench);
    preparing.files("", &files.iter().map(|name| (&name[..], &b""[..])).collect::<Vec<_>>());
    preparing.directories(&directories);
    drop(preparing);
    let check = |listing: Listing| {
        assert!(listing.is_sorted());
        let found: Vec<_> = (0..listing.len())
            .map(|index| {
                let slash: &[u8] =
                    if listing.metadata(index).kind == EntryKind::Directory { b"/" } else { b"" };
                [listing.name(index), slash].concat()
            })
            .collect();
        assert!(found == expected, "{} of {} entries, or in another order", found.len(), expected.len());
    };
    check(list(&mut *lane(&*bench.target()), "").unwrap());
    check(list(&mut *lane(&*bench.source()), "").unwrap());
}

fn in_order(bench: &Workplace<'_>) {
    let names: Vec<_> = (0..500).map(|number| format!("{number:x}").into_bytes()).collect();
    let mut preparing = writer(bench);
    preparing.files("d", &names.iter().map(|name| (&name[..], &b""[..])).collect::<Vec<_>>());
    // `d/a/` sorts after names that begin with `a` and a byte that is less than a slash.
    preparing.files("d/a", &[(b"x", b"")]);
    preparing.files("d", &[(b"a-b", b"")]);
    drop(preparing);
    let (mut of_target, mut of_source) = (lane(&*bench.target()), lane(&*bench.source()));
    let by_target = |from: Option<Cursor>, directory: &str| {
        let (directory, detail) = (path(directory), Detail::default());
        match ask(&mut *of_target, TargetOp::Page { directory, from, entries: 7, detail })? {
            TargetOutcome::Page(ListingPage { listing, rest, .. }) => Ok((listing, rest)),
            other => panic!("not the answer to a portion: {other:?}"),
        }
    };
    let by_source = |from: Option<Cursor>, directory: &str| {
        let (directory, detail) = (path(directory), Detail::default());
        match ask(&mut *of_source, SourceOp::Page { root: 0, directory, from, entries: 7, detail })? {
            SourceOutcome::Page(ListingPage { listing, rest, .. }) => Ok((listing, rest)),
            other => panic!("not the answer to a portion: {other:?}"),
        }
    };
    let is_missing = [ErrorKind::NotFound, ErrorKind::SourceVanished];
    let whole = list(&mut *lane(&*bench.source()), "d").unwrap();
    // If directories are separate entries, the directory `a` takes the place of the file `a`; otherwise it is an
    // additional entry.
    assert!(whole.len() > 500);
    all_portions(&whole, by_target, &is_missing);
    all_portions(&whole, by_source, &is_missing);
}

/// Lists a directory in pages, and compares them with the complete listing.
fn all_portions(
    whole: &Listing,
    mut portion: impl FnMut(Option<Cursor>, &str) -> Result<(Listing, Option<Cursor>)>,
    is_missing: &[ErrorKind],
) {
    let (mut from, mut found) = (None, 0);
    loop {
        let (listing, rest) = portion(from, "d").unwrap();
        assert!(listing.len() <= 7, "a portion of {}", listing.len());
        for index in 0..listing.len() {
            assert_eq!(listing.place(index), whole.place(found));
            found += 1;
        }
        from = rest;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(found, whole.len());
    assert!(is_missing.contains(&portion(None, "missing").unwrap_err().kind));
}

fn described(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    let abilities = &bench.abilities.target;
    let mut expected: BTreeMap<&str, (EntryKind, u64, Attributes)> = BTreeMap::new();
    expected.insert("file", (EntryKind::File, 5, preparing.file("file", b"12345")));
    if abilities.symlinks {
        expected.insert("link", (EntryKind::Symlink, 12, preparing.symlink("link", b"twelve bytes")));
    }
    if abilities.special_files {
        expected.insert("pipe", (EntryKind::Fifo, 0, preparing.pipe("pipe")));
    }
    let of_directory = bench.next_version(0o750);
    preparing.directory_attributes("directory", of_directory);
    expected.insert("directory", (EntryKind::Directory, 0, of_directory));
    preparing.hole("sparse", 1 << 17);
    drop(preparing);
    let of_target = described_by(bench, &mut *lane(&*bench.target()), &expected);
    let of_source = described_by(bench, &mut *lane(&*bench.source()), &expected);
    for ((name, target), (other, source)) in of_target.iter().zip(&of_source) {
        // Only the target sets `doubted`, so it is not compared.
        let seen = |it: &EntryMetadata| (it.kind, it.attributes(), it.size_bytes);
        assert_eq!((name, seen(target)), (other, seen(source)));
        let inodes = abilities.inodes && bench.abilities.source.inodes;
        assert!(!inodes || (target.ctime, target.sparse) == (source.ctime, source.sparse), "{name:?}");
    }
}

fn described_by<L: EntryLane + ?Sized>(
    bench: &Workplace<'_>,
    lane: &mut L,
    expected: &BTreeMap<&str, (EntryKind, u64, Attributes)>,
) -> Vec<(Vec<u8>, EntryMetadata)> {
    let listing = list(lane, "").unwrap();
    assert_eq!(listing.len(), expected.len() + 1);
    let shows_all = bench.abilities.target.listed == ListedAttributes::ALL;
    let mut all = Vec::new();
    for index in 0..listing.len() {
        let name = str::from_utf8(listing.name(index)).unwrap();
        let shown = *listing.metadata(index);
        let inspected = inspect(lane, name).unwrap().unwrap();
        let found = if shows_all { shown } else { inspected };
        if !shows_all {
            let is_shown = bench.abilities.target.listed.may_be(shown.kind, found.kind);
            assert!(is_shown && shown.size_bytes == found.size_bytes, "{name}: {shown:?}");
        } else if bench.abilities.target.inodes {
            assert_eq!(inspected, found, "{name}");
            let tells_holes = bench.abilities.in_directory;
            assert!(!tells_holes || found.sparse == (name == "sparse") || name == "file", "{name}");
            assert_eq!(found.links, 1, "{name}");
        } else {
            let (links, content_mark) = (found.links, found.content_mark);
            assert_eq!(EntryMetadata { links, content_mark, ..inspected }, found, "{name}");
        }
        all.push((name.as_bytes().to_vec(), found));
        let Some((kind, size_bytes, attributes)) = expected.get(name) else {
            assert_eq!((name, found.kind, found.size_bytes), ("sparse", EntryKind::File, 1 << 17));
            continue;
        };
        assert_eq!(found.kind, *kind, "{name}");
        assert!(found.size_bytes == *size_bytes || *kind == EntryKind::Directory, "{name}");
        match kind {
            // The permissions of symbolic links have no meaning, and their times cannot be set everywhere.
            EntryKind::Symlink if bench.abilities.target.sets_links => {
                assert_eq!(found.mtime, bench.abilities.kept_time(attributes.mtime));
            }
            EntryKind::Symlink => {}
            _ => bench.abilities.check(name, &found, attributes),
        }
    }
    assert_eq!(inspect(lane, "missing").unwrap(), None);
    assert_eq!(inspect(lane, "file/below").unwrap(), None);
    assert_eq!(inspect(lane, "").unwrap().unwrap().kind, EntryKind::Directory);
    all
}

fn names_of_one_file(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.files("", &[(b"alone", b"x"), (b"first", b"x")]);
    preparing.hard_link("second", "first");
    drop(preparing);
    for listing in
        [list(&mut *lane(&*bench.target()), "").unwrap(), list(&mut *lane(&*bench.source()), "").unwrap()]
    {
        let found = |name: &[u8]| *listing.metadata(listing.find(name, false).unwrap());
        let [alone, first, second] = [b"alone".as_slice(), b"first", b"second"].map(found);
        assert_eq!((alone.links, first.links, second.links), (1, 2, 2));
        assert!(first.inode.is_some() && first.inode == second.inode && first.inode != alone.inode);
    }
}

fn several(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.directories(["b/inside"]);
    preparing.file("file", b"");
    drop(preparing);
    let asked = ["b", "missing", "", "file", "b/inside"].map(path);
    let lengths = |listed: Result<Vec<hakobu_core::listing::DirectoryListing>>| {
        let listed = listed.unwrap();
        assert_eq!(listed.iter().map(|listing| listing.path.clone()).collect::<Vec<_>>(), asked);
        assert_eq!(listed[1].result.as_ref().unwrap_err().at, b"missing");
        let length = |listing: Listing| listing.len();
        let results =
            listed.into_iter().map(|listing| listing.result.map(length).map_err(|error| error.kind));
        results.collect::<Vec<_>>()
    };
    let found = lengths(lane(&*bench.target()).list(asked.to_vec(), 0));
    // Where a directory can have the name of a file, there is none.
    let no_directory =
        if bench.abilities.target.shared_names { ErrorKind::NotFound } else { ErrorKind::Conflict };
    assert_eq!(found, [Ok(1), Err(ErrorKind::NotFound), Ok(2), Err(no_directory), Ok(0)]);
    let found = lengths(lane(&*bench.source()).list(asked.to_vec(), 0));
    let changed = found[3].expect_err("a file is no directory");
    assert!(matches!(changed, ErrorKind::SourceVanished | ErrorKind::SourceChanged), "{changed:?}");
    assert_eq!(found, [Ok(1), Err(ErrorKind::SourceVanished), Ok(2), Err(changed), Ok(0)]);
}

fn budget(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    for directory in 0..10 {
        for below in 0..10 {
            preparing.files(&format!("{directory}/{below}"), &[(b"0", b""), (b"1", b""), (b"2", b"")]);
        }
    }
    drop(preparing);
    within_budgets(&mut *lane(&*bench.target()));
    within_budgets(&mut *lane(&*bench.source()));
}

fn within_budgets<L: EntryLane + ?Sized>(lane: &mut L) {
    for budget in [5, 12, 50, 115, 100_000] {
        let mut seen = BTreeMap::new();
        for (index, listing) in lane.list(vec![path("")], budget).unwrap().into_iter().enumerate() {
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

fn small_budget(bench: &Workplace<'_>) {
    writer(bench).directories((0..50).map(|number| number.to_string()));
    for listed in [
        lane(&*bench.target()).list(vec![path("")], 7).unwrap(),
        lane(&*bench.source()).list(vec![path("")], 7).unwrap(),
    ] {
        assert_eq!(listed[0].result.as_ref().unwrap().len(), 50);
    }
    assert_eq!(reader(bench).names("").len(), 50);
}
