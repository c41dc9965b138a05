//! Cases about sources whose files are changed without the traits: in place, by symbolic and hard links, and with
//! features that only file systems have.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a case that panics has failed")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use hakobu_core::error::ErrorKind;
use hakobu_core::extent::PIECE_BYTES;
use hakobu_core::losses::LossKind;
use hakobu_core::pack::{PackReader, PackRecord};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::direct_access::tick;
use crate::conformance::bench::*;
use crate::conformance::case::{ConformanceCase, Requirement};
use crate::conformance::sources::{are_packed, confirm, fetch, file, listed, read, results, results_now};

pub(super) const CASES: &[ConformanceCase] = &[
    ConformanceCase::new("files, links and pipes that others made go into a pack as they are", packed),
    ConformanceCase::new("what was changed in place after the list is taken as it is", changed),
    ConformanceCase::new("no link out of the root is followed at the source", planted),
    ConformanceCase::new("a big file that is changed in place is found out", big_change),
    ConformanceCase::new("what cannot be kept is counted", losses),
    ConformanceCase::new("a file that may not be read is named and the rest is packed", unreadable)
        .needs(&[Requirement::NotRoot]),
];

fn packed(bench: &Workplace<'_>) {
    let directory = bench.root().join("d");
    fs::create_dir(&directory).unwrap();
    let expected: [(&str, Vec<u8>); 5] = [
        ("0 empty", vec![]),
        ("1 small", content(10)),
        ("2 large", content(PIECE_BYTES)),
        ("3 link", b"../x".to_vec()),
        ("4 pipe", b"Fifo 0x0".to_vec()),
    ];
    for (name, bytes) in &expected[..3] {
        fs::write(directory.join(name), bytes).unwrap();
    }
    symlink("../x", directory.join("3 link")).unwrap();
    mknodat(CWD, directory.join("4 pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    are_packed(bench, &expected);
}

fn changed(bench: &Workplace<'_>) {
    let at = |name: &str| bench.root().join(name);
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
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "");
    tick(bench);
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
    fs::hard_link(at("k with another name"), at("other name")).unwrap();
    fs::write(at("new"), "the new one").unwrap();
    fs::rename(at("new"), at("l replaced")).unwrap();
    fs::write(at("m too large"), vec![b'x'; 300_000]).unwrap();
    let fetched = fetch(&mut *lane, "", &listing, None);
    let (changed, gone) = (Err(ErrorKind::SourceChanged), Err(ErrorKind::SourceVanished));
    // A file that is still a file with the same number of hard links is accepted as it is. Not every source can count
    // hard links.
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

fn planted(bench: &Workplace<'_>) {
    let (at, outside) = (bench.root().join("d"), tempfile::tempdir().unwrap());
    let outside = outside.path();
    fs::write(outside.join("file"), "secret").unwrap();
    fs::create_dir(&at).unwrap();
    fs::write(at.join("file"), "public").unwrap();
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "d");
    let file = file(&mut *lane, "d/file");
    fs::remove_dir_all(&at).unwrap();
    symlink(outside, &at).unwrap();
    assert!(list(&mut *lane, "d").is_err());
    assert_eq!(inspect(&mut *lane, "d/file").unwrap(), None);
    let fetched = fetch(&mut *lane, "d", &listing, None);
    assert_eq!(fetched.failures.len(), 1);
    assert!(fetched.failures[0].1.is_source_change());
    assert!(read(&mut *lane, &file, 0, 6).unwrap_err().is_source_change());
}

fn big_change(bench: &Workplace<'_>) {
    let bytes = content(2 * PIECE_BYTES);
    let at = bench.root().join("big");
    fs::write(&at, &bytes).unwrap();
    let source = bench.source();
    let mut lane = lane(&*source);
    let file = file(&mut *lane, "big");
    tick(bench);
    // The file changes before it is opened, while it is open, and after it was read.
    read(&mut *lane, &file, 0, PIECE_BYTES).unwrap();
    fs::OpenOptions::new().write(true).open(&at).unwrap().set_len(PIECE_BYTES + 1).unwrap();
    match read(&mut *lane, &file, PIECE_BYTES, PIECE_BYTES) {
        // A remote source may have read it by then, since it reads ahead.
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

fn losses(bench: &Workplace<'_>) {
    let at = |name: &str| bench.root().join(name);
    fs::write(at("linked"), "x").unwrap();
    fs::hard_link(at("linked"), at("linked too")).unwrap();
    let holes = fs::File::create(at("holes")).unwrap();
    holes.set_len(64 * 1024).unwrap();
    fs::write(at("tagged"), "x").unwrap();
    let tag = rustix::fs::setxattr(at("tagged"), c"user.tag", b"1", rustix::fs::XattrFlags::empty());
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    assert!(fetched.failures.is_empty());
    let count = |what| fetched.losses.iter().find(|loss| loss.what == what).map_or(0, |loss| loss.count);
    assert_eq!(count(LossKind::HardLinks), 0);
    assert_eq!(count(LossKind::Xattr), 0);
    assert_eq!(fetched.content_bytes, 64 * 1024 + 3);
    let mut reader = PackReader::new(&fetched.pack);
    while let Some(record) = reader.read().unwrap() {
        let PackRecord::Entry(head, _) = record else { continue };
        if source.capabilities().extended.is_empty() {
            assert!(head.extended.is_none());
            continue;
        }
        assert_eq!(head.sparse, head.name == b"holes");
        // Not every file system supports extended attributes.
        let extended = head.extended.unwrap();
        let kept: Vec<_> = extended.iter().collect();
        let expected = (head.name == b"tagged" && tag.is_ok()).then_some((&b"user.tag"[..], &b"1"[..]));
        assert_eq!(kept, Vec::from_iter(expected));
    }
}

fn unreadable(bench: &Workplace<'_>) {
    let at = |name: &str| bench.root().join(name);
    fs::write(at("closed"), "1").unwrap();
    fs::write(at("open"), "2").unwrap();
    fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o0)).unwrap();
    let source = bench.source();
    let mut lane = lane(&*source);
    let listing = listed(&mut *lane, "");
    let fetched = fetch(&mut *lane, "", &listing, None);
    let expected =
        [(b"closed".to_vec(), Err(ErrorKind::PermissionDenied)), (b"open".to_vec(), Ok(b"2".to_vec()))];
    assert_eq!(results(&listing, &fetched), expected);
}
