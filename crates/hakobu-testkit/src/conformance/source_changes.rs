//! Cases about sources that change: the listed version is read, or the change is reported. The changes are made
//! through a target.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::time::Duration;

use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::sources::{NamedContent, confirm, examined, fetch, file, listed, read, results_now};
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new(
        "what changed after the list is taken as it is, what vanished or is another kind is named",
        changed,
    )
    .needs(&[Requirement::Directories]),
    ConformanceCase::new("links that changed after the list are named", changed_links)
        .needs(&[Requirement::Symlinks]),
    ConformanceCase::new(
        "a file that has another name since the list is named where names are counted",
        new_name,
    )
    .needs(&[Requirement::HardLinks, Requirement::Inodes]),
    ConformanceCase::new("a directory that vanished is named for each entry", vanished_directory),
    ConformanceCase::new("a directory that became a link is not entered", directory_became_link)
        .needs(&[Requirement::Symlinks]),
    ConformanceCase::new("a big file that changes is found out", big_change),
];

const CHANGED: Result<Vec<u8>, ErrorKind> = Err(ErrorKind::SourceChanged);
const VANISHED: Result<Vec<u8>, ErrorKind> = Err(ErrorKind::SourceVanished);

/// Returns the expected results of entries.
fn entries<const N: usize>(all: [(&str, Result<Vec<u8>, ErrorKind>); N]) -> [NamedContent; N] {
    all.map(|(name, result)| (name.as_bytes().to_vec(), result))
}

fn changed(bench: &Workplace<'_>) {
    let mut changing = writer(bench);
    for name in
        ["a same", "b longer", "c shorter", "d gone", "e rewritten", "f mode", "h directory", "m large"]
    {
        changing.file(name, b"content");
    }
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = examined(bench, &mut *lane, "");
    changing.file("b longer", b"content and more");
    changing.file("c shorter", b"cont");
    changing.file("e rewritten", b"CONTENT");
    changing.attributes("f mode", bench.next_version(0o600));
    changing.remove(&["d gone", "h directory"]);
    changing.directories(["h directory"]);
    changing.file("m large", &vec![b'x'; 300_000]);
    let fetched = fetch(&mut *lane, "", &listing, None);
    let content = |bytes: &[u8]| Ok(bytes.to_vec());
    // A file that is still a file with the same number of hard links is accepted as it is.
    let expected = entries([
        ("a same", content(b"content")),
        ("b longer", content(b"content and more")),
        ("c shorter", content(b"cont")),
        ("d gone", VANISHED),
        ("e rewritten", content(b"CONTENT")),
        ("f mode", content(b"content")),
        // A directory of the same name is another entry where both can exist.
        ("h directory", if bench.abilities.source.shared_names { VANISHED } else { CHANGED }),
        ("m large", CHANGED),
    ]);
    let now = examined(bench, &mut *lane, "");
    assert_eq!(results_now(&listing, &now, &fetched), expected);
}

fn changed_links(bench: &Workplace<'_>) {
    let mut changing = writer(bench);
    changing.file("a same", b"content");
    changing.file("b now a link", b"content");
    for name in ["c link", "d gone", "e now a file", "f same"] {
        changing.symlink(name, b"a");
    }
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = examined(bench, &mut *lane, "");
    changing.symlink("b now a link", b"a same");
    // If the time of a symbolic link cannot be set, only a different length reveals a change within one step of the
    // clock.
    changing.symlink("c link", if bench.abilities.target.sets_links { b"b" } else { b"bb" });
    changing.remove(&["d gone"]);
    changing.file("e now a file", b"content");
    let fetched = fetch(&mut *lane, "", &listing, None);
    // Where listings show no kinds, text and attributes arrive together, so a link is accepted as it is.
    let shows_kinds = bench.abilities.source.listed.kinds;
    let text = |text: &[u8]| if shows_kinds { CHANGED } else { Ok(text.to_vec()) };
    let expected = entries([
        ("a same", Ok(b"content".to_vec())),
        ("b now a link", text(b"a same")),
        ("c link", text(b"b")),
        ("d gone", VANISHED),
        ("e now a file", CHANGED),
        ("f same", Ok(b"a".to_vec())),
    ]);
    let now = examined(bench, &mut *lane, "");
    assert_eq!(results_now(&listing, &now, &fetched), expected);
}

fn new_name(bench: &Workplace<'_>) {
    let mut changing = writer(bench);
    changing.file("file", b"content");
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "");
    changing.hard_link("other name", "file");
    let fetched = fetch(&mut *lane, "", &listing, None);
    let result = if source.capabilities().inodes { CHANGED } else { Ok(b"content".to_vec()) };
    let now = listed(&mut *lane, "");
    assert_eq!(results_now(&listing, &now, &fetched), entries([("file", result)]));
}

fn vanished_directory(bench: &Workplace<'_>) {
    let mut changing = writer(bench);
    changing.files("d", &[(b"a", b"1"), (b"b", b"2")]);
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "d");
    changing.remove(&["d/a", "d/b"]);
    changing.remove_directory("d");
    let fetched = fetch(&mut *lane, "d", &listing, None);
    assert!(fetched.pack.is_empty() && fetched.packed.is_empty());
    let kinds: Vec<_> = fetched.failures.iter().map(|(index, error)| (*index, error.kind)).collect();
    assert_eq!(kinds, [(0, ErrorKind::SourceVanished), (1, ErrorKind::SourceVanished)]);
    assert_eq!(kind(list(&mut *lane, "d")), ErrorKind::SourceVanished);
}

fn directory_became_link(bench: &Workplace<'_>) {
    let mut changing = writer(bench);
    changing.file("aside/file", b"secret");
    changing.file("d/file", b"public");
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "d");
    let file = file(&mut *lane, "d/file");
    changing.remove(&["d/file"]);
    changing.remove_directory("d");
    changing.symlink("d", b"aside");
    assert!(list(&mut *lane, "d").is_err());
    assert_eq!(inspect(&mut *lane, "d/file").unwrap(), None);
    let fetched = fetch(&mut *lane, "d", &listing, None);
    assert!(fetched.packed.is_empty());
    assert_eq!(fetched.failures.len(), 1);
    assert!(fetched.failures[0].1.is_source_change());
    assert!(read(&mut *lane, &file, 0, 6).unwrap_err().is_source_change());
}

fn big_change(bench: &Workplace<'_>) {
    let bytes = content(2 * PIECE_BYTES);
    let mut changing = writer(bench);
    changing.file("big", &bytes);
    let source = bench.source();
    let mut lane = lane(&*source);
    let file = file(&mut *lane, "big");
    assert!(read(&mut *lane, &file, 0, PIECE_BYTES).unwrap() == bytes[..PIECE_BYTES as usize]);
    if !bench.abilities.source.listed.times {
        // Times of uploads have whole seconds. Within one, two objects of one size look the same in listings.
        std::thread::sleep(Duration::from_millis(1100));
    }
    let other = vec![b'x'; bytes.len()];
    changing.file("big", &other);
    // An open file may be read further, but must not be mistaken for its replacement.
    match read(&mut *lane, &file, PIECE_BYTES, PIECE_BYTES) {
        Ok(rest) => assert!(rest == bytes[PIECE_BYTES as usize..], "not what it was"),
        Err(error) => assert_eq!(error.kind, ErrorKind::SourceChanged),
    }
    assert_eq!(kind(confirm(&mut *lane, &file)), ErrorKind::SourceChanged);
    assert_eq!(kind(read(&mut *source.open_source_lane(1).unwrap(), &file, 0, 1)), ErrorKind::SourceChanged);
    changing.remove(&["big"]);
    assert_eq!(kind(read(&mut *source.open_source_lane(2).unwrap(), &file, 0, 1)), ErrorKind::SourceVanished);
}
