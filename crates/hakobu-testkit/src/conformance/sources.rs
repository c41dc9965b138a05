//! Cases about sources: the listed version is read.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{
    CompletionWait, Detail, FetchedPack, ListingPage, Pick, Picks, PieceBuffer, SourceFile, SourceLane,
    SourceOp, SourceOutcome,
};
use hakobu_core::error::ErrorKind;
use hakobu_core::extended::{Classes, Extended, ExtendedAsk};
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::listed::ListedAttributes;
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::pack::{PackContent, PackReader, PackRecord, RecordHead};

use super::bench::*;
use super::case::{ConformanceCase, Requirement};
use super::tree_writer::writer;

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("files, links and pipes go into a pack as they are", packed),
    ConformanceCase::new("the portions of a directory are all of it", portions),
    ConformanceCase::new("a pack of one entry may have another name", renamed),
    ConformanceCase::new("pieces of a big file are read as they are", pieces),
    ConformanceCase::new("pieces of several files may be read at a time", at_a_time),
    ConformanceCase::new("the names of one file are no loss", further_names).needs(&[Requirement::HardLinks]),
    ConformanceCase::new("holes and extended attributes go along with files", extended)
        .needs(&[Requirement::UserAttributes, Requirement::Inodes]),
];

/// Reads all entries of a listing in one pack.
pub(super) fn fetch(
    lane: &mut dyn SourceLane,
    directory: &str,
    listing: &Arc<Listing>,
    target_name: Option<&[u8]>,
) -> FetchedPack {
    let entries = (0..listing.len() as u32).map(|index| Pick { index, replaces: index == 1 }).collect();
    let picks = Picks { listing: Arc::clone(listing), entries, target_name: target_name.map(<[u8]>::to_vec) };
    let buffer = Vec::new();
    let (directory, target, picks) = (path(directory), path("to/here"), Arc::new(picks));
    let ask_for = ExtendedAsk { keep: Classes::USER, miss: Classes::ACL, readable: false };
    let fetch = SourceOp::ReadPack { root: 0, directory, target, picks, from: 0, ask: ask_for, buffer };
    match ask(lane, fetch).unwrap() {
        SourceOutcome::Pack(fetched) => fetched,
        other => panic!("not the answer to a fetch: {other:?}"),
    }
}

/// Lists a directory whose entries are then read.
pub(super) fn listed(lane: &mut dyn SourceLane, directory: &str) -> Arc<Listing> {
    Arc::new(list(lane, directory).unwrap())
}

/// Lists a directory whose entries are then read. What the listing does not show is asked for.
pub(super) fn examined(bench: &Workplace<'_>, lane: &mut dyn SourceLane, directory: &str) -> Arc<Listing> {
    let mut listing = list(lane, directory).unwrap();
    if bench.abilities.source.listed != ListedAttributes::ALL {
        for index in 0..listing.len() {
            let at = path(directory).join(listing.name(index)).unwrap();
            *listing.metadata_mut(index).unwrap() = lane.inspect(at).unwrap().unwrap();
        }
    }
    Arc::new(listing)
}

/// The name of an entry, with its content or the reason why it is missing.
pub(super) type NamedContent = (Vec<u8>, Result<Vec<u8>, ErrorKind>);

/// Returns the result of each entry.
pub(super) fn results(listing: &Listing, fetched: &FetchedPack) -> Vec<NamedContent> {
    results_now(listing, listing, fetched)
}

/// Returns the results of entries that have changed since they were listed. Their attributes are those of a later
/// listing.
pub(super) fn results_now(listing: &Listing, now: &Listing, fetched: &FetchedPack) -> Vec<NamedContent> {
    let mut results = Vec::new();
    let mut reader = PackReader::new(&fetched.pack);
    let mut packed = fetched.packed.iter();
    while let Some(record) = reader.read().unwrap() {
        match record {
            PackRecord::Directory { path: to } => assert_eq!(to, path("to/here")),
            PackRecord::Entry(head, content) => {
                let index = *packed.next().unwrap() as usize;
                let found = (0..now.len()).find(|&found| now.name(found) == listing.name(index)).unwrap();
                assert_eq!(head.attributes, now.metadata(found).attributes());
                assert_eq!(head.replaces, index == 1);
                let content = match content {
                    PackContent::File(content) => {
                        assert_eq!(content.sum, content_sum(content.bytes), "the sum of what was read");
                        content.bytes.to_vec()
                    }
                    PackContent::Symlink(text) => text.to_vec(),
                    PackContent::Special(kind, device) => format!("{kind:?} {device:#x}").into_bytes(),
                };
                results.push((head.name.to_vec(), Ok(content)));
            }
        }
    }
    assert!(packed.next().is_none(), "an entry that is said to be in the pack and is not");
    let failures = fetched.failures.iter();
    results.extend(failures.map(|(index, error)| (listing.name(*index as usize).to_vec(), Err(error.kind))));
    results.sort_by(|a, b| a.0.cmp(&b.0));
    results
}

fn packed(bench: &Workplace<'_>) {
    let mut expected = vec![("0 empty", vec![]), ("1 small", content(10)), ("2 large", content(PIECE_BYTES))];
    let mut preparing = writer(bench);
    for (name, bytes) in &expected {
        preparing.file(&format!("d/{name}"), bytes);
    }
    if bench.abilities.target.symlinks {
        preparing.symlink("d/3 link", b"../x");
        expected.push(("3 link", b"../x".to_vec()));
    }
    if bench.abilities.target.special_files {
        preparing.pipe("d/4 pipe");
        expected.push(("4 pipe", b"Fifo 0x0".to_vec()));
    }
    drop(preparing);
    are_packed(bench, &expected);
}

/// Checks that all entries of `d` are put into a pack.
pub(super) fn are_packed(bench: &Workplace<'_>, expected: &[(&str, Vec<u8>)]) {
    let mut lane = lane(&*bench.source());
    let listing = examined(bench, &mut *lane, "d");
    let fetched = fetch(&mut *lane, "d", &listing, None);
    let expected: Vec<NamedContent> =
        expected.iter().map(|(name, bytes)| (name.as_bytes().to_vec(), Ok(bytes.clone()))).collect();
    assert!(results(&listing, &fetched) == expected);
    assert_eq!(fetched.content_bytes, PIECE_BYTES + 10);
    assert!(fetched.losses.is_empty(), "{:?}", fetched.losses);
}

fn portions(bench: &Workplace<'_>) {
    let names: Vec<_> = (0..5000).map(|number| format!("file {number}").into_bytes()).collect();
    let mut preparing = writer(bench);
    preparing.files("d", &names.iter().map(|name| (&name[..], &b""[..])).collect::<Vec<_>>());
    preparing.directories(["d/below"]);
    drop(preparing);
    let source = bench.source();
    let mut lane = lane(&*source);
    let whole = listed(&mut *lane, "d");
    let (mut from, mut found) = (None, Vec::new());
    loop {
        let directory = path("d");
        let portion = SourceOp::Page { root: 0, directory, from, entries: 100, detail: Detail::default() };
        let SourceOutcome::Page(ListingPage { listing, rest, .. }) = ask(&mut *lane, portion).unwrap() else {
            panic!("no portion")
        };
        assert!(listing.is_sorted());
        assert!(rest.is_none() || listing.len() >= 100, "a portion of {}", listing.len());
        found
            .extend((0..listing.len()).map(|index| (listing.name(index).to_vec(), *listing.metadata(index))));
        // Other directories may be listed between two pages.
        assert_eq!(listed(&mut *lane, "d").len(), 5001);
        from = rest;
        if from.is_none() {
            break;
        }
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let mut expected: Vec<_> =
        (0..whole.len()).map(|index| (whole.name(index).to_vec(), *whole.metadata(index))).collect();
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(found == expected, "{} entries in portions, {} as a whole", found.len(), expected.len());
    let portion = |name| {
        let detail = Detail::default();
        SourceOp::Page { root: 0, directory: path(name), from: None, entries: 100, detail }
    };
    assert_eq!(ask(&mut *lane, portion("missing")).unwrap_err().kind, ErrorKind::SourceVanished);
}

fn renamed(bench: &Workplace<'_>) {
    writer(bench).file("here", b"x");
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = examined(bench, &mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, Some(b"there"));
    assert_eq!(results(&listing, &fetched), [(b"there".to_vec(), Ok(b"x".to_vec()))]);
}

/// Reads one piece.
pub(super) fn read(
    lane: &mut dyn SourceLane,
    file: &Arc<SourceFile>,
    offset: u64,
    length: u64,
) -> Result<Vec<u8>> {
    let buffer = PieceBuffer::default();
    match ask(lane, SourceOp::Read { file: Arc::clone(file), extent: Extent { offset, length }, buffer })? {
        SourceOutcome::Read(buffer) => Ok(buffer.filled().to_vec()),
        other => panic!("not the answer to a read: {other:?}"),
    }
}

/// Returns a file from the current listing.
pub(super) fn file(lane: &mut dyn SourceLane, at: &str) -> Arc<SourceFile> {
    let metadata = inspect(lane, at).unwrap().unwrap();
    Arc::new(SourceFile { root: 0, path: path(at), metadata, tolerant: false })
}

/// Checks whether a file is still the listed version.
pub(super) fn confirm(lane: &mut dyn SourceLane, file: &Arc<SourceFile>) -> Result<()> {
    let confirm = SourceOp::Revalidate { file: Arc::clone(file), ask: ExtendedAsk::default() };
    match ask(lane, confirm)? {
        SourceOutcome::Extended { extended: None, .. } => Ok(()),
        other => panic!("not the answer to a confirmation: {other:?}"),
    }
}

fn pieces(bench: &Workplace<'_>) {
    let bytes = content(3 * PIECE_BYTES + 5);
    writer(bench).file("big", &bytes);
    let source = bench.source();
    let mut lane = lane(&*source);
    let file = file(&mut *lane, "big");
    for index in [2, 0, 3, 1] {
        let begin = index * PIECE_BYTES as usize;
        let end = bytes.len().min(begin + PIECE_BYTES as usize);
        let found = read(&mut *lane, &file, begin as u64, (end - begin) as u64).unwrap();
        assert!(found == bytes[begin..end], "piece {index}");
    }
    confirm(&mut *lane, &file).unwrap();
    assert!(read(&mut *lane, &file, bytes.len() as u64 - 1, 2).unwrap_err().is_source_change());
}

fn at_a_time(bench: &Workplace<'_>) {
    const COUNT: u64 = 6;
    let bytes = content(COUNT * PIECE_BYTES);
    let turned: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
    let mut preparing = writer(bench);
    preparing.file("one", &bytes);
    preparing.file("other", &turned);
    drop(preparing);
    let source = bench.source();
    let mut lane = lane(&*source);
    let files = ["one", "other", "one"].map(|name| file(&mut *lane, name));
    let gone =
        Arc::new(SourceFile { path: path("gone"), root: 0, metadata: files[0].metadata, tolerant: false });
    // A ticket identifies the file and the piece.
    let asked: Vec<u64> =
        (0..4 * COUNT).map(|number| number % 4 * COUNT + (number / 4 * 5) % COUNT).collect();
    for ticket in asked.iter().copied() {
        let file = files.get((ticket / COUNT) as usize).unwrap_or(&gone);
        let extent = Extent { offset: ticket % COUNT * PIECE_BYTES, length: PIECE_BYTES };
        let buffer = PieceBuffer::default();
        assert!(lane.submit(ticket, SourceOp::Read { file: Arc::clone(file), extent, buffer }).is_ok());
    }
    lane.flush();
    let mut answered = Vec::new();
    for _ in &asked {
        let completion = lane.reap(CompletionWait::For(PATIENCE)).expect("an answer for each");
        answered.push(completion.ticket);
        let (file, at) = (completion.ticket / COUNT, completion.ticket % COUNT * PIECE_BYTES);
        match completion.result {
            Err(error) => assert!(file == 3 && error.is_source_change(), "{error}"),
            Ok(SourceOutcome::Read(buffer)) => {
                let expected = if file == 1 { &turned } else { &bytes };
                let expected = &expected[at as usize..(at + PIECE_BYTES) as usize];
                assert!(file < 3 && buffer.filled() == expected, "piece {}", completion.ticket);
            }
            Ok(other) => panic!("not the answer to a read: {other:?}"),
        }
    }
    answered.sort_unstable();
    assert_eq!(answered, (0..4 * COUNT).collect::<Vec<_>>());
    confirm(&mut *lane, &files[0]).unwrap();
}

fn further_names(bench: &Workplace<'_>) {
    let mut preparing = writer(bench);
    preparing.file("linked", b"x");
    preparing.hard_link("linked too", "linked");
    drop(preparing);
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = examined(bench, &mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    let both = ["linked", "linked too"].map(|name| (name.as_bytes().to_vec(), Ok(b"x".to_vec())));
    assert_eq!(results(&listing, &fetched), both);
    assert!(fetched.losses.is_empty(), "{:?}", fetched.losses);
}

fn extended(bench: &Workplace<'_>) {
    let target = bench.target();
    let tag = Extended::new(Classes::USER, &mut [(b"user.tag".to_vec(), b"1".to_vec())]).unwrap();
    let mut pack = pack("", &[(b"plain", b"x")]);
    let head = RecordHead::new(b"tagged", attributes(0o644));
    pack.whole_file(&RecordHead { extended: Some(tag.as_ref()), ..head }, b"x", content_sum(b"x"));
    store_all(&mut *lane(&*target), pack);
    writer(bench).hole("holes", 64 * 1024);
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    assert!(fetched.failures.is_empty());
    let count = |what| fetched.losses.iter().find(|loss| loss.what == what).map_or(0, |loss| loss.count);
    assert_eq!((count(LossKind::Holes), count(LossKind::Xattr)), (0, 0));
    assert_eq!(fetched.content_bytes, 64 * 1024 + 2);
    let (mut reader, mut names) = (PackReader::new(&fetched.pack), Vec::new());
    while let Some(record) = reader.read().unwrap() {
        let PackRecord::Entry(head, _) = record else { continue };
        let tells_holes = bench.abilities.source.inodes;
        assert_eq!(head.sparse, tells_holes && head.name == b"holes");
        let extended = head.extended.unwrap();
        let expected = (head.name == b"tagged").then_some((&b"user.tag"[..], &b"1"[..]));
        assert_eq!(extended.iter().collect::<Vec<_>>(), Vec::from_iter(expected));
        names.push(head.name.to_vec());
    }
    assert_eq!(names, [&b"holes"[..], b"plain", b"tagged"]);
}
