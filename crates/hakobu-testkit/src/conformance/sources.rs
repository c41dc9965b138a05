//! Sources: what was listed is what is read, or it is said that it is not.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use hakobu_core::extended::{Classes, ExtendedAsk};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;

use hakobu_core::Result;
use hakobu_core::content::content_sum;
use hakobu_core::endpoint::{
    Detail, Fetched, Pick, Picks, PieceBuffer, SourceFile, SourceLane, SourceOp, SourceOutcome,
};
use hakobu_core::error::ErrorKind;
use hakobu_core::extent::{Extent, PIECE_BYTES};
use hakobu_core::listing::Listing;
use hakobu_core::losses::LossKind;
use hakobu_core::pack::{Content, PackReader, Record};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::bench::*;
use super::case::Case;

pub(super) const CASES: &[Case] = &[
    Case::new("files, links and pipes go into a pack as they are", packed),
    Case::new("the portions of a directory are all of it", portions),
    Case::new("a pack of one entry may have another name", renamed),
    Case::new(
        "what changed after the list is taken as it is, what vanished or is another kind is named",
        changed,
    ),
    Case::new("a directory that vanished is named for each entry", vanished_directory),
    Case::new("no link is followed at the source", planted),
    Case::new("pieces of a big file are read as they are", pieces),
    Case::new("a big file that changes is found out", big_change),
    Case::new("what cannot be kept is counted", losses),
    Case::not_root("a file that may not be read is named and the rest is packed", unreadable),
];

fn fetch(
    lane: &mut dyn SourceLane,
    directory: &str,
    listing: &Arc<Listing>,
    target_name: Option<&[u8]>,
) -> Fetched {
    let entries = (0..listing.len() as u32).map(|index| Pick { index, replaces: index == 1 }).collect();
    let picks = Picks { listing: Arc::clone(listing), entries, target_name: target_name.map(<[u8]>::to_vec) };
    let buffer = Vec::new();
    let (directory, target, picks) = (path(directory), path("to/here"), Arc::new(picks));
    let ask_for = ExtendedAsk { keep: Classes::USER, miss: Classes::ACL, readable: false };
    let fetch = SourceOp::Fetch { root: 0, directory, target, picks, from: 0, ask: ask_for, buffer };
    match ask(lane, fetch).unwrap() {
        SourceOutcome::Fetched(fetched) => fetched,
        other => panic!("not the answer to a fetch: {other:?}"),
    }
}

fn listed(lane: &mut dyn SourceLane, directory: &str) -> Arc<Listing> {
    Arc::new(list(lane, directory).unwrap())
}

/// An entry by its name, with its content or why that is missing.
type Named = (Vec<u8>, Result<Vec<u8>, ErrorKind>);

/// What became of each entry.
fn results(listing: &Listing, fetched: &Fetched) -> Vec<Named> {
    results_now(listing, listing, fetched)
}

/// The same where entries have changed since they were listed: their attributes are those of another listing.
fn results_now(listing: &Listing, now: &Listing, fetched: &Fetched) -> Vec<Named> {
    let mut results = Vec::new();
    let mut reader = PackReader::new(&fetched.pack);
    let mut packed = fetched.packed.iter();
    while let Some(record) = reader.read().unwrap() {
        match record {
            Record::Directory { path: to } => assert_eq!(to, path("to/here")),
            Record::Entry(head, content) => {
                let index = *packed.next().unwrap() as usize;
                let found = (0..now.len()).find(|&found| now.name(found) == listing.name(index)).unwrap();
                assert_eq!(head.attributes, now.metadata(found).attributes());
                assert_eq!(head.replaces, index == 1);
                let content = match content {
                    Content::File(content) => {
                        assert_eq!(content.sum, content_sum(content.bytes), "the sum of what was read");
                        content.bytes.to_vec()
                    }
                    Content::Symlink(text) => text.to_vec(),
                    Content::Special(kind, device) => format!("{kind:?} {device:#x}").into_bytes(),
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

fn packed(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    fs::create_dir(source.root.join("d")).unwrap();
    let expected: [(&str, Vec<u8>); 5] = [
        ("0 empty", vec![]),
        ("1 small", content(10)),
        ("2 large", content(PIECE_BYTES)),
        ("3 link", b"../x".to_vec()),
        ("4 pipe", b"Fifo 0x0".to_vec()),
    ];
    for (name, bytes) in &expected[..3] {
        fs::write(source.root.join("d").join(name), bytes).unwrap();
    }
    symlink("../x", source.root.join("d/3 link")).unwrap();
    mknodat(CWD, source.root.join("d/4 pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "d");
    let fetched = fetch(&mut *lane, "d", &listing, None);
    let expected = expected.map(|(name, bytes)| (name.as_bytes().to_vec(), Ok(bytes)));
    assert!(results(&listing, &fetched) == expected);
    assert_eq!(fetched.content_bytes, PIECE_BYTES + 10);
    assert!(fetched.losses.is_empty(), "{:?}", fetched.losses);
}

fn portions(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    let directory = source.root.join("d");
    fs::create_dir(&directory).unwrap();
    (0..5000).for_each(|number| fs::write(directory.join(format!("file {number}")), "").unwrap());
    fs::create_dir(directory.join("below")).unwrap();
    let mut lane = lane(&source);
    let whole = listed(&mut *lane, "d");
    let (mut from, mut found) = (None, Vec::new());
    loop {
        let directory = path("d");
        let portion = SourceOp::Portion { root: 0, directory, from, entries: 100, detail: Detail::default() };
        let SourceOutcome::Portion(listing, rest) = ask(&mut *lane, portion).unwrap() else {
            panic!("no portion")
        };
        assert!(listing.is_sorted());
        assert!(rest.is_none() || listing.len() >= 100, "a portion of {}", listing.len());
        found
            .extend((0..listing.len()).map(|index| (listing.name(index).to_vec(), *listing.metadata(index))));
        // Others may be listed between two portions.
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
        SourceOp::Portion { root: 0, directory: path(name), from: None, entries: 100, detail }
    };
    assert_eq!(ask(&mut *lane, portion("missing")).unwrap_err().kind, ErrorKind::SourceVanished);
}

fn renamed(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    fs::write(source.root.join("here"), "x").unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, Some(b"there"));
    assert_eq!(results(&listing, &fetched), [(b"there".to_vec(), Ok(b"x".to_vec()))]);
}

fn changed(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    let at = |name: &str| source.root.join(name);
    for name in [
        "a same",
        "b longer",
        "c shorter",
        "d gone",
        "e rewritten",
        "f mode",
        "g now a link",
        "h now a directory",
        "k with another name",
        "l replaced",
        "m too large",
    ] {
        fs::write(at(name), "content").unwrap();
    }
    symlink("a", at("i link")).unwrap();
    symlink("a", at("j gone")).unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "");
    source.tick();
    fs::write(at("b longer"), "content and more").unwrap();
    fs::write(at("c shorter"), "cont").unwrap();
    fs::write(at("e rewritten"), "CONTENT").unwrap();
    fs::set_permissions(at("f mode"), fs::Permissions::from_mode(0o600)).unwrap();
    for name in ["d gone", "g now a link", "h now a directory", "i link", "j gone"] {
        fs::remove_file(at(name)).unwrap();
    }
    symlink("a same", at("g now a link")).unwrap();
    fs::create_dir(at("h now a directory")).unwrap();
    symlink("b", at("i link")).unwrap();
    fs::hard_link(at("k with another name"), source.root.join("other name")).unwrap();
    fs::write(at("new"), "the new one").unwrap();
    fs::rename(at("new"), at("l replaced")).unwrap();
    fs::write(at("m too large"), vec![b'x'; 300_000]).unwrap();
    let fetched = fetch(&mut *lane, "", &listing, None);
    let (changed, gone) = (Err(ErrorKind::SourceChanged), Err(ErrorKind::SourceVanished));
    // What is still a file of the same names is taken as it is. Not everywhere can names be counted.
    let seen = source.capabilities().inodes;
    let expected: [(&str, Result<Vec<u8>, ErrorKind>); 13] = [
        ("a same", Ok(b"content".to_vec())),
        ("b longer", Ok(b"content and more".to_vec())),
        ("c shorter", Ok(b"cont".to_vec())),
        ("d gone", gone.clone()),
        ("e rewritten", Ok(b"CONTENT".to_vec())),
        ("f mode", Ok(b"content".to_vec())),
        ("g now a link", changed.clone()),
        ("h now a directory", changed.clone()),
        ("i link", changed.clone()),
        ("j gone", gone),
        ("k with another name", if seen { changed.clone() } else { Ok(b"content".to_vec()) }),
        ("l replaced", Ok(b"the new one".to_vec())),
        ("m too large", changed),
    ];
    let expected = expected.map(|(name, result)| (name.as_bytes().to_vec(), result));
    let now = listed(&mut *lane, "");
    assert_eq!(results_now(&listing, &now, &fetched), expected);
}

fn vanished_directory(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    fs::create_dir(source.root.join("d")).unwrap();
    fs::write(source.root.join("d/a"), "1").unwrap();
    fs::write(source.root.join("d/b"), "2").unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "d");
    fs::remove_dir_all(source.root.join("d")).unwrap();
    let fetched = fetch(&mut *lane, "d", &listing, None);
    assert!(fetched.pack.is_empty() && fetched.packed.is_empty());
    let kinds: Vec<_> = fetched.failures.iter().map(|(index, error)| (*index, error.kind)).collect();
    assert_eq!(kinds, [(0, ErrorKind::SourceVanished), (1, ErrorKind::SourceVanished)]);
    assert_eq!(kind(list(&mut *lane, "d")), ErrorKind::SourceVanished);
}

fn planted(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    let outside = bench.directory("outside");
    fs::write(outside.join("file"), "secret").unwrap();
    fs::create_dir(source.root.join("d")).unwrap();
    fs::write(source.root.join("d/file"), "public").unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "d");
    fs::remove_dir_all(source.root.join("d")).unwrap();
    symlink(&outside, source.root.join("d")).unwrap();
    assert!(list(&mut *lane, "d").is_err());
    assert_eq!(inspect(&mut *lane, "d/file").unwrap(), None);
    let fetched = fetch(&mut *lane, "d", &listing, None);
    assert_eq!(fetched.failures.len(), 1);
    assert!(fetched.failures[0].1.is_source_change());
    let file = Arc::new(SourceFile {
        root: 0,
        path: path("d/file"),
        metadata: *listing.metadata(0),
        tolerant: false,
    });
    assert!(read(&mut *lane, &file, 0, 6).unwrap_err().is_source_change());
}

fn read(lane: &mut dyn SourceLane, file: &Arc<SourceFile>, offset: u64, length: u64) -> Result<Vec<u8>> {
    let buffer = PieceBuffer::default();
    match ask(lane, SourceOp::Read { file: Arc::clone(file), extent: Extent { offset, length }, buffer })? {
        SourceOutcome::Read(buffer) => Ok(buffer.filled().to_vec()),
        other => panic!("not the answer to a read: {other:?}"),
    }
}

fn confirm(lane: &mut dyn SourceLane, file: &Arc<SourceFile>) -> Result<()> {
    let confirm = SourceOp::Confirm { file: Arc::clone(file), ask: ExtendedAsk::default() };
    match ask(lane, confirm)? {
        SourceOutcome::Extended { extended: None, .. } => Ok(()),
        other => panic!("not the answer to a confirmation: {other:?}"),
    }
}

fn big_file(bench: &Bench<'_>, bytes: &[u8]) -> Option<(Source, Box<dyn SourceLane>, Arc<SourceFile>)> {
    let source = bench.source()?;
    fs::write(source.root.join("big"), bytes).unwrap();
    let mut lane = lane(&source);
    let metadata = inspect(&mut *lane, "big").unwrap().unwrap();
    source.tick();
    Some((source, lane, Arc::new(SourceFile { root: 0, path: path("big"), metadata, tolerant: false })))
}

fn pieces(bench: &Bench<'_>) {
    let bytes = content(3 * PIECE_BYTES + 5);
    let Some((_source, mut lane, file)) = big_file(bench, &bytes) else { return };
    for index in [2, 0, 3, 1] {
        let begin = index * PIECE_BYTES as usize;
        let end = bytes.len().min(begin + PIECE_BYTES as usize);
        let found = read(&mut *lane, &file, begin as u64, (end - begin) as u64).unwrap();
        assert!(found == bytes[begin..end], "piece {index}");
    }
    confirm(&mut *lane, &file).unwrap();
    assert!(read(&mut *lane, &file, bytes.len() as u64 - 1, 2).unwrap_err().is_source_change());
}

fn big_change(bench: &Bench<'_>) {
    let bytes = content(2 * PIECE_BYTES);
    let Some((source, mut lane, file)) = big_file(bench, &bytes) else { return };
    let at = source.root.join("big");
    // Before it is opened, while it is open, and after it was read.
    read(&mut *lane, &file, 0, PIECE_BYTES).unwrap();
    fs::OpenOptions::new().write(true).open(&at).unwrap().set_len(PIECE_BYTES + 1).unwrap();
    match read(&mut *lane, &file, PIECE_BYTES, PIECE_BYTES) {
        // Far away it may have been read by then, since what follows is asked for ahead.
        Ok(ahead) => {
            assert!(
                source.capabilities().remote && ahead == bytes[PIECE_BYTES as usize..],
                "not what it was"
            );
        }
        Err(error) => assert_eq!(error.kind, ErrorKind::SourceChanged),
    }
    assert_eq!(kind(confirm(&mut *lane, &file)), ErrorKind::SourceChanged);
    fs::write(&at, &bytes).unwrap();
    assert_eq!(kind(read(&mut *source.open_source_lane(1).unwrap(), &file, 0, 1)), ErrorKind::SourceChanged);
    fs::remove_file(&at).unwrap();
    assert_eq!(kind(read(&mut *source.open_source_lane(2).unwrap(), &file, 0, 1)), ErrorKind::SourceVanished);
}

fn losses(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    let at = |name: &str| source.root.join(name);
    fs::write(at("linked"), "x").unwrap();
    fs::hard_link(at("linked"), at("linked too")).unwrap();
    let holes = fs::File::create(at("holes")).unwrap();
    holes.set_len(64 * 1024).unwrap();
    fs::write(at("tagged"), "x").unwrap();
    let tag = rustix::fs::setxattr(at("tagged"), c"user.tag", b"1", rustix::fs::XattrFlags::empty());
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    assert!(fetched.failures.is_empty());
    let count = |what| fetched.losses.iter().find(|loss| loss.what == what).map_or(0, |loss| loss.count);
    assert_eq!(count(LossKind::HardLinks), 0);
    assert_eq!(count(LossKind::Xattr), 0);
    assert_eq!(fetched.content_bytes, 64 * 1024 + 3);
    let mut reader = PackReader::new(&fetched.pack);
    while let Some(record) = reader.read().unwrap() {
        let Record::Entry(head, _) = record else { continue };
        if source.capabilities().extended.is_empty() {
            assert!(head.extended.is_none());
            continue;
        }
        assert_eq!(head.sparse, head.name == b"holes");
        // Not every file system has them.
        let extended = head.extended.unwrap();
        let kept: Vec<_> = extended.iter().collect();
        let expected = (head.name == b"tagged" && tag.is_ok()).then_some((&b"user.tag"[..], &b"1"[..]));
        assert_eq!(kept, Vec::from_iter(expected));
    }
}

fn unreadable(bench: &Bench<'_>) {
    let Some(source) = bench.source() else { return };
    fs::write(source.root.join("closed"), "1").unwrap();
    fs::write(source.root.join("open"), "2").unwrap();
    fs::set_permissions(source.root.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let mut lane = lane(&source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    let expected =
        [(b"closed".to_vec(), Err(ErrorKind::PermissionDenied)), (b"open".to_vec(), Ok(b"2".to_vec()))];
    assert_eq!(results(&listing, &fetched), expected);
}
