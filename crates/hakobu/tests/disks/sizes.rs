//! Sizes around all limits, and the file systems that hold images.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use hakobu_core::extent::CHUNK_BYTES;
use hakobu_testkit::sshd::no_root;

use crate::bench::*;
use crate::program::*;

/// Sizes around sectors, pages, pieces, chunks, and the limit up to which one lane handles a file alone.
const SIZES: [u64; 21] = [
    0,
    1,
    511,
    512,
    513,
    4095,
    4096,
    4097,
    PIECE - 1,
    PIECE,
    PIECE + 1,
    CHUNK_BYTES - PIECE,
    CHUNK_BYTES - 1,
    CHUNK_BYTES,
    CHUNK_BYTES + 1,
    CHUNK_BYTES + PIECE,
    CHUNK_BYTES + PIECE + 513,
    2 * CHUNK_BYTES,
    2 * CHUNK_BYTES + 1,
    3 * CHUNK_BYTES - 1,
    3 * CHUNK_BYTES + 4097,
];

#[test]
fn images_of_all_sizes_onto_a_disk() {
    if no_root() {
        return;
    }
    for sector_bytes in [512, 4096] {
        let place = place();
        let image = place.path().join("disk.img");
        let target = Disk::empty(place.path(), "target", 4 * CHUNK_BYTES, sector_bytes);
        for size_bytes in SIZES {
            let content = content(size_bytes, size_bytes);
            fs::write(&image, &content).unwrap();
            target.write_at(0, &vec![0xaa; 4 * CHUNK_BYTES as usize]);
            let ran = Copy::new().arg(&image).arg(&target.path).run_to(0);
            assert_eq!(ran.report["digest_blake3"], b3sum(&content), "{size_bytes}: {:#}", ran.report);
            let found = target.bytes();
            assert_bytes(&found[..content.len()], &content);
            assert!(
                found[content.len()..].iter().all(|byte| *byte == 0xaa),
                "{size_bytes}: what lies behind"
            );
        }
    }
}

/// Zeros overwrite other data, for all sizes.
#[test]
fn zeros_onto_a_disk_are_zeros() {
    if no_root() {
        return;
    }
    for sector_bytes in [512, 4096] {
        let place = place();
        let image = place.path().join("disk.img");
        let target = Disk::empty(place.path(), "target", 4 * CHUNK_BYTES, sector_bytes);
        for (size_bytes, holes) in SIZES.into_iter().zip([false, true].into_iter().cycle()) {
            if holes {
                File::create(&image).unwrap().set_len(size_bytes).unwrap();
            } else {
                fs::write(&image, vec![0; size_bytes as usize]).unwrap();
            }
            target.write_at(0, &vec![0xaa; 4 * CHUNK_BYTES as usize]);
            let ran = Copy::new().arg(&image).arg(&target.path).run_to(0);
            ran.assert_copied(&vec![0; size_bytes as usize]);
            let found = target.bytes();
            assert!(found[..size_bytes as usize].iter().all(|byte| *byte == 0), "{size_bytes}");
            assert!(found[size_bytes as usize..].iter().all(|byte| *byte == 0xaa), "{size_bytes}: behind");
        }
    }
}

#[test]
fn disks_of_odd_sizes_into_images() {
    if no_root() {
        return;
    }
    let place = place();
    for (sector_bytes, size_bytes) in [
        (512, 512),
        (4096, 4096),
        (512, CHUNK_BYTES - 512),
        (512, CHUNK_BYTES + 512),
        (4096, CHUNK_BYTES + 4096),
        (512, 2 * CHUNK_BYTES + PIECE + 1536),
        (512, 3 * CHUNK_BYTES + 2560),
    ] {
        let content = content(size_bytes, size_bytes);
        let source = Disk::with(place.path(), "source", &content, sector_bytes);
        let target = Disk::full_of(place.path(), "target", 0xaa, size_bytes, sector_bytes);
        let image = place.path().join("disk.img");
        for to in [&image, &target.path] {
            let ran = Copy::new().options("--verify wire").arg(&source.path).arg(to).run_to(0);
            ran.assert_copied(&content);
        }
        assert_bytes(&fs::read(&image).unwrap(), &content);
        assert_bytes(&target.bytes(), &content);
    }
}

#[test]
fn content_into_nothing() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let content = content_with_zeros(17 * MIB + 777, 5);
    let image = place.path().join("disk.img");
    write_sparse(&image, &content);
    let disk = Disk::with(place.path(), "disk", &content[..17 * MIB as usize], 512);
    let null = Path::new("/dev/null");
    for way in [Way::Here, Way::Push] {
        let ran = Copy::new().to(&host).args(way.typed(&host, &image, null)).run_to(0);
        ran.assert_copied(&content);
        let ran = Copy::new().to(&host).args(way.typed(&host, &disk.path, null)).run_to(0);
        ran.assert_copied(&content[..17 * MIB as usize]);
    }
}

/// A zram disk, which has sectors of 4096 bytes and another driver than loop devices.
struct Zram(Disk, String);

impl Zram {
    fn new(size_bytes: u64) -> Self {
        let number =
            fs::read_to_string("/sys/class/zram-control/hot_add").expect("zram is needed: modprobe zram");
        let number = number.trim().to_owned();
        fs::write(format!("/sys/block/zram{number}/disksize"), size_bytes.to_string()).unwrap();
        let path = format!("/dev/zram{number}").into();
        Self(Disk::of_another_kind(path), number)
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let _ = fs::write("/sys/class/zram-control/hot_remove", &self.1);
    }
}

#[test]
fn a_disk_in_memory() {
    if no_root() {
        return;
    }
    let place = place();
    let content = content_with_zeros(24 * MIB, 6);
    let source = Disk::with(place.path(), "source", &content, 512);
    let zram = Zram::new(32 * MIB);
    zram.0.write_at(0, &vec![0xaa; 32 * MIB as usize]);
    Copy::new().arg(&source.path).arg(&zram.0.path).run_to(0).assert_copied(&content);
    let found = zram.0.bytes();
    assert_bytes(&found[..content.len()], &content);
    assert!(found[content.len()..].iter().all(|byte| *byte == 0xaa));
    let image = place.path().join("disk.img");
    Copy::new().arg(&zram.0.path).arg(&image).run_to(0);
    assert_bytes(&fs::read(&image).unwrap(), &found);
    Copy::verify().arg(&image).arg(&zram.0.path).run_to(0);
}

/// Images are created, updated, compared and read on each kind of file system.
#[test]
fn images_on_file_systems() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        for kind in ["ext4", "xfs", "btrfs", "tmpfs"] {
            scope.spawn(move || image_on(kind));
        }
    });
}

fn image_on(kind: &str) {
    let place = place();
    let mounted = Mounted::new(place.path(), kind);
    let mut content = content_with_zeros(70 * MIB, 7);
    let source = Disk::with(place.path(), "source", &content, 512);
    let image = mounted.at.join("disk.img");
    for options in ["", "--verify medium", "--verify wire"] {
        let ran = Copy::new().options(options).arg(&source.path).arg(&image).run_to(0);
        ran.assert_copied(&content);
        assert_eq!(fs::metadata(&image).unwrap().len(), content.len() as u64);
        let blocks = fs::metadata(&image).unwrap().blocks() * 512;
        let data = content.len() as u64 - zeros_in(&content);
        // XFS allocates some space in advance.
        assert!(blocks <= data + 3 * MIB, "{kind} {options}: {blocks} for {data}");
        assert_eq!(b3sum_of(&image, u64::MAX), b3sum(&content), "{kind} {options}");
        assert!(drafts(&mounted.at).is_empty());
    }
    // Data replaces a hole, and a hole replaces data.
    let change = |content: &mut [u8], at: u64, byte| content[at as usize..(at + PIECE) as usize].fill(byte);
    change(&mut content, 30 * PIECE, 1);
    change(&mut content, 100 * PIECE, 0);
    source.write_at(30 * PIECE, &vec![1; PIECE as usize]);
    source.write_at(100 * PIECE, &vec![0; PIECE as usize]);
    Copy::verify().arg(&source.path).arg(&image).run_to(4);
    for options in ["", "--verify medium"] {
        let ran = Copy::sync().options(options).arg(&source.path).arg(&image).run_to(0);
        let written = if options.is_empty() { PIECE } else { 0 };
        assert_eq!(ran.bytes("target_written"), written, "{kind} {options} {:#}", ran.report);
        assert_eq!(b3sum_of(&image, u64::MAX), b3sum(&content), "{kind} {options}");
    }
    Copy::verify().arg(&source.path).arg(&image).run_to(0);
    let target = Disk::full_of(place.path(), "target", 0xaa, 70 * MIB, 512);
    Copy::new().arg(&image).arg(&target.path).run_to(0);
    assert_eq!(b3sum_of(&target.path, u64::MAX), b3sum(&content), "{kind}");
}
