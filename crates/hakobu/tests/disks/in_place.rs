//! `sync` and `verify` of disks and images: content is compared in place, and only differences are written.

use std::fs::{self, File};

use hakobu_core::extent::CHUNK_BYTES;
use hakobu_testkit::sshd::no_root;

use crate::bench::*;
use crate::program::*;

/// Returns content that differs in three pieces: the first, one in the middle, and the last, which is incomplete.
fn changed(content: &[u8]) -> Vec<u8> {
    let mut changed = content.to_vec();
    let last = changed.len() - 1;
    for at in [0, 7 * PIECE as usize + 100, last] {
        changed[at] ^= 0x55;
    }
    changed
}

/// Returns the length of the last piece.
fn rest(content: &[u8]) -> u64 {
    match content.len() as u64 % PIECE {
        0 => PIECE,
        rest => rest,
    }
}

#[test]
fn only_pieces_that_differ_are_written_to_a_disk() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (way, sector_bytes) in Way::ALL.into_iter().zip([512, 4096, 512, 4096]) {
        let place = place();
        let content = content_with_zeros(70 * MIB + 4096, 1);
        let source = Disk::with(place.path(), "source", &content, sector_bytes);
        let mut before = changed(&content);
        before.extend([0xaa; 8192]);
        let target = Disk::with(place.path(), "target", &before, sector_bytes);
        let id = target.id();
        let sync = || Copy::sync().to(&host).args(["--confirm", &id]);
        let sync = || sync().args(way.typed(&host, &source.path, &target.path)).run_to(0);
        let ran = sync();
        // The last piece is zeros at the source, which are not sent. Between machines, only the blocks that differ
        // are written, one in each of the other two pieces.
        let unit = if way == Way::Here { PIECE } else { 4096 };
        assert_eq!(ran.bytes("target_written"), 2 * unit, "{way:?} {:#}", ran.report);
        assert_eq!(ran.bytes("zeros_skipped"), rest(&content));
        assert_eq!(ran.report["digest_blake3"], b3sum(&content));
        assert_eq!(ran.bytes("source_read"), content.len() as u64);
        assert_eq!(ran.bytes("target_read"), content.len() as u64);
        assert_eq!((ran.entries("updated"), ran.entries("unchanged")), (1, 0), "{:#}", ran.report);
        let found = target.bytes();
        assert_bytes(&found[..content.len()], &content);
        assert!(found[content.len()..].iter().all(|byte| *byte == 0xaa), "{way:?}: what lies behind");
        let ran = sync();
        assert_eq!((ran.bytes("target_written"), ran.bytes("zeros_skipped")), (0, 0), "{way:?}");
        assert_eq!((ran.entries("updated"), ran.entries("unchanged")), (0, 1), "{:#}", ran.report);
        assert!(target.remembered().is_empty());
    }
}

#[test]
fn a_piece_that_became_zeros_counts_as_updated() {
    if no_root() {
        return;
    }
    let place = place();
    let mut content = content(20 * MIB, 2);
    let target = Disk::with(place.path(), "target", &content, 512);
    content[9 * PIECE as usize..10 * PIECE as usize].fill(0);
    let source = Disk::with(place.path(), "source", &content, 512);
    let sync = Copy::sync().args(["--confirm", &target.id()]);
    let ran = sync.arg(&source.path).arg(&target.path).run_to(0);
    assert_eq!((ran.bytes("target_written"), ran.bytes("zeros_skipped")), (0, PIECE));
    assert_eq!((ran.entries("updated"), ran.entries("unchanged")), (1, 0), "{:#}", ran.report);
    assert_bytes(&target.bytes(), &content);
}

#[test]
fn an_image_takes_the_size_of_the_source() {
    if no_root() {
        return;
    }
    let host = Host::up();
    let sizes = [1, PIECE, CHUNK_BYTES + 5, 66 * MIB, 70 * MIB + 3];
    let place = place();
    for (index, before) in sizes.into_iter().enumerate() {
        for (other, after) in sizes.into_iter().enumerate() {
            // Some of the combinations are copied from or to another machine.
            let way = if other == (index + 1) % sizes.len() { Way::ALL[index % 4] } else { Way::Here };
            let content = content_with_zeros(after, 3);
            let (source, image) = (place.path().join("source"), place.path().join("disk.img"));
            fs::write(&source, &content).unwrap();
            // The common part is equal. If the image is longer, its rest differs.
            let mut old = content[..before.min(after) as usize].to_vec();
            old.resize(before as usize, 0xaa);
            fs::write(&image, &old).unwrap();
            let ran = Copy::sync().to(&host).args(way.typed(&host, &source, &image)).run_to(0);
            assert_bytes(&fs::read(&image).unwrap(), &content);
            assert_eq!(ran.report["digest_blake3"], b3sum(&content), "{way:?} {before} {after}");
            let most = after.saturating_sub(before) + PIECE;
            assert!(ran.bytes("target_written") < most, "{way:?} {before} {after} {:#}", ran.report);
            let updated = u64::from(before != after);
            assert_eq!(ran.entries("updated"), updated, "{way:?} {before} {after} {:#}", ran.report);
            assert!(drafts(place.path()).is_empty());
        }
    }
}

/// A missing image is created as by `copy`, also one that is large enough for a journal.
#[test]
fn an_image_that_is_not_there_is_made() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (way, size_bytes) in
        Way::ALL.into_iter().flat_map(|way| [(way, 9 * MIB + 512), (way, 66 * MIB + 512)])
    {
        let place = place();
        let content = content_with_zeros(size_bytes, 4);
        let source = Disk::with(place.path(), "source", &content, 512);
        let image = place.path().join("disk.img");
        let more = if way == Way::Here { &["", "--verify medium"][..] } else { &[""] };
        for options in more {
            let typed = way.typed(&host, &source.path, &image);
            let ran = Copy::sync().to(&host).options(options).args(typed).run_to(0);
            ran.assert_copied(&content);
            assert_eq!(ran.entries("created"), 1, "{way:?} {options} {:#}", ran.report);
            assert_bytes(&fs::read(&image).unwrap(), &content);
            fs::remove_file(&image).unwrap();
        }
    }
}

#[test]
fn what_differs_is_listed_in_order() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for way in Way::ALL {
        let place = place();
        let content = content_with_zeros(40 * MIB + 1536, 5);
        let mut other = content.clone();
        // Adjacent pieces, a byte in a piece of zeros, and the last piece.
        let pieces = [0, 1, 5, 77, 78, 79, 80, 81, 160];
        for piece in pieces {
            other[piece * PIECE as usize + 11] ^= 1;
        }
        let source = Disk::with(place.path(), "source", &content, 512);
        let (target, image) =
            (Disk::with(place.path(), "target", &other, 512), place.path().join("disk.img"));
        fs::write(&image, &other).unwrap();
        let places = [&target.path, &image];
        for to in if way == Way::Here { &places[..] } else { &places[..1] } {
            let ran = Copy::verify().to(&host).args(way.typed(&host, &source.path, to)).run_to(4);
            assert_eq!(ran.report["outcome"], "differences");
            let found: Vec<_> = ran.report["differences"].as_array().unwrap().iter().map(range).collect();
            let part = 1536;
            let expected = [(0, 2 * PIECE), (5 * PIECE, PIECE), (77 * PIECE, 5 * PIECE), (160 * PIECE, part)];
            assert_eq!(found, expected, "{way:?} {:#}", ran.report);
            assert_eq!(ran.report["differing_bytes"], 8 * PIECE + part);
            assert_eq!(ran.bytes("target_written"), 0);
            assert_eq!(ran.entries("unchanged"), 0, "{:#}", ran.report);
            ran.says(&["differs: ", "in 4 ranges differ"]);
        }
        assert_bytes(&target.bytes(), &other);
        fs::write(&image, &content).unwrap();
        let ran = Copy::verify().to(&host).args(way.typed(&host, &source.path, &image)).run_to(0);
        assert_eq!(ran.report["digest_blake3"], b3sum(&content));
        assert_eq!((ran.entries("unchanged"), ran.bytes("target_read")), (1, content.len() as u64));
    }
}

fn range(difference: &serde_json::Value) -> (u64, u64) {
    (difference["offset_bytes"].as_u64().unwrap(), difference["length_bytes"].as_u64().unwrap())
}

/// Images of different length are different, even if one is the beginning of the other.
#[test]
fn sizes_that_differ_are_differences() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let (source, image) = (place.path().join("source"), place.path().join("disk.img"));
    let mut ways = [Way::Here, Way::Here, Way::Push, Way::Here, Way::Here, Way::Pull].into_iter().cycle();
    for size_bytes in [0, 1, 4096, PIECE, CHUNK_BYTES, CHUNK_BYTES + 7, 70 * MIB] {
        for (begin, other) in [
            (size_bytes, size_bytes + 1),
            (size_bytes, size_bytes + 9 * MIB),
            (size_bytes / 2, size_bytes / 2),
        ] {
            if other == size_bytes {
                continue;
            }
            let content = content(size_bytes.max(other), 6);
            fs::write(&source, &content[..size_bytes as usize]).unwrap();
            fs::write(&image, &content[..other as usize]).unwrap();
            let way = ways.next().unwrap();
            let ran = Copy::verify().to(&host).args(way.typed(&host, &source, &image)).run_to(4);
            // Their times differ as well.
            let differences = ran.report["differences"].as_array().unwrap().iter();
            let differences: Vec<_> = differences.filter(|one| one["offset_bytes"].is_u64()).collect();
            let (offset, length) = range(differences[0]);
            // The piece in which the shorter one ends differs as a whole.
            assert!(offset <= begin && offset + PIECE > begin, "{size_bytes} {other} {:#}", ran.report);
            assert_eq!(differences.len(), 1, "{size_bytes} {other} {:#}", ran.report);
            assert_eq!(offset + length, size_bytes.max(other), "{size_bytes} {other} {:#}", ran.report);
        }
    }
}

/// A disk may be larger than its image, but not smaller.
#[test]
fn a_disk_and_what_lies_behind() {
    if no_root() {
        return;
    }
    let place = place();
    let content = content(10 * MIB + 100, 7);
    let image = place.path().join("disk.img");
    fs::write(&image, &content).unwrap();
    let mut longer = content.clone();
    longer.resize(11 * MIB as usize, 0xaa);
    let disk = Disk::with(place.path(), "larger", &longer, 512);
    Copy::verify().arg(&image).arg(&disk.path).run_to(0);
    let small = Disk::with(place.path(), "smaller", &content[..9 * MIB as usize], 512);
    let ran = Copy::verify().arg(&image).arg(&small.path).run_to(4);
    let differences = ran.report["differences"].as_array().unwrap();
    assert_eq!(differences.iter().map(range).collect::<Vec<_>>(), [(9 * MIB, MIB + 100)]);
    // In the other direction, the image lacks the rest of the disk.
    let ran = Copy::verify().arg(&disk.path).arg(&image).run_to(4);
    let differences = ran.report["differences"].as_array().unwrap();
    assert_eq!(range(&differences[differences.len() - 1]), (40 * PIECE, 11 * MIB - 40 * PIECE));
}

/// To be compared, a disk may be in use and read-only.
#[test]
fn comparing_touches_nothing() {
    if no_root() {
        return;
    }
    let place = place();
    let content = content(9 * MIB, 8);
    let image = place.path().join("disk.img");
    fs::write(&image, &content).unwrap();
    let before = fs::metadata(&image).unwrap().modified().unwrap();
    let disk = Disk::with(place.path(), "disk", &content, 512);
    let read_only = Disk::attach(&disk.backing, 512, &["--read-only"]);
    Copy::verify().arg(&image).arg(&read_only.path).run_to(0);
    let _open = File::options().write(true).open(&disk.path).unwrap();
    Copy::verify().arg(&image).arg(&disk.path).run_to(0);
    // A file that is open through one loop device is in use for all of them.
    Copy::verify().arg(&read_only.path).arg(&image).run_to(6).says(&["is open for writing", "--live"]);
    Copy::verify().arg("--live").arg(&read_only.path).arg(&image).run_to(0);
    assert_eq!(fs::metadata(&image).unwrap().modified().unwrap(), before);
    assert!(drafts(place.path()).is_empty() && disk.remembered().is_empty());
}

/// A symbolic link as target is not followed to a file: a copy replaces it.
#[test]
fn a_link_is_not_compared() {
    if no_root() {
        return;
    }
    let place = place();
    let (source, image, link) =
        (place.path().join("source"), place.path().join("disk.img"), place.path().join("link"));
    fs::write(&source, "x").unwrap();
    fs::write(&image, "x").unwrap();
    std::os::unix::fs::symlink("disk.img", &link).unwrap();
    let ran = Copy::verify().arg(&source).arg(&link).run_to(2);
    ran.says(&["it is a symbolic link; name the file that it leads to"]);
    Copy::sync().arg(&source).arg(&link).run_to(0);
    assert!(fs::symlink_metadata(&link).unwrap().is_file());
}

/// A file that is in use through a loop device is not written in place.
#[test]
fn an_image_that_is_in_use() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let disk = Disk::full_of(place.path(), "disk.img", 0xaa, 9 * MIB, 512);
    let source = place.path().join("source");
    fs::write(&source, content(9 * MIB, 1)).unwrap();
    for way in [Way::Here, Way::Push] {
        let ran = Copy::sync().to(&host).args(way.typed(&host, &source, &disk.backing)).run_to(6);
        ran.says(&["it is behind the loop device", disk.path.to_str().unwrap(), "losetup -d"]);
    }
    let held = File::open(&source).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let ran = Copy::sync().arg(&disk.path).arg(&source).run_to(6);
    ran.says(&["another program holds its lock"]);
    assert!(disk.bytes().iter().all(|byte| *byte == 0xaa));
    assert_bytes(&fs::read(&source).unwrap(), &content(9 * MIB, 1));
    assert!(drafts(place.path()).is_empty());
}
