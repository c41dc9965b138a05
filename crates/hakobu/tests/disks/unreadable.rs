//! Disks that cannot be read, that lose what is written, that become smaller, or that have no space.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_core::extent::CHUNK_BYTES;
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;

use crate::bench::*;
use crate::program::*;

/// Large enough for a journal.
const SIZE_BYTES: u64 = 80 * MIB;
/// The end of the readable part: in the middle of a page, and at the end of a sector. Within a sector, the loop
/// device would return invented data.
const READABLE_BYTES: u64 = 61 * MIB + 3 * 4096 + 1024;

/// A source whose end cannot be read.
struct Damaged {
    place: tempfile::TempDir,
    content: Vec<u8>,
    source: Disk,
    host: Host,
}

impl Damaged {
    fn new() -> Self {
        let (place, host) = (place(), Host::up());
        let content = content(SIZE_BYTES, 1);
        let source = Disk::with(place.path(), "source", &content, 512);
        let backing = File::options().write(true).open(&source.backing).unwrap();
        backing.set_len(READABLE_BYTES).unwrap();
        Self { place, content, source, host }
    }

    fn repair(&self) {
        let backing = File::options().write(true).open(&self.source.backing).unwrap();
        backing.write_all_at(&self.content[READABLE_BYTES as usize..], READABLE_BYTES).unwrap();
    }

    /// Returns the content with zeros in place of the unreadable part.
    fn readable(&self) -> Vec<u8> {
        let mut readable = self.content.clone();
        readable[READABLE_BYTES as usize..].fill(0);
        readable
    }
}

/// Returns the offset of the first unreadable range and the length of all.
fn unreadable(ran: &Ran) -> (u64, u64) {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (_, words) in ran.failures() {
        let numbers: Vec<u64> = words.split(' ').filter_map(|word| word.parse().ok()).collect();
        assert!(words.contains("cannot be read; zeros take their place"), "{words}");
        ranges.push((numbers[1], numbers[0]));
    }
    ranges.sort_unstable();
    for pair in ranges.windows(2) {
        assert_eq!(pair[0].0 + pair[0].1, pair[1].0, "no gap, and nothing twice");
    }
    (ranges[0].0, ranges.iter().map(|range| range.1).sum())
}

#[test]
fn a_source_that_cannot_be_read_ends_the_copy() {
    if no_root() {
        return;
    }
    let damaged = Damaged::new();
    let image = damaged.place.path().join("disk.img");
    let target = Disk::empty(damaged.place.path(), "target", SIZE_BYTES, 512);
    for (to, way) in
        [(&image, Way::Here), (&target.path, Way::Here), (&image, Way::Push), (&target.path, Way::Pull)]
    {
        for verb in ["copy", "sync"] {
            let typed = way.typed(&damaged.host, &damaged.source.path, to);
            let copy = Copy::verb(std::process::Command::new(HAKOBU), verb).to(&damaged.host).args(typed);
            // A run that fails before its first journal record leaves ordinary data on the disk, which needs consent.
            let copy = if *to == target.path { copy.args(["--confirm", &target.id()]) } else { copy };
            let ran = copy.run_to(1);
            assert_eq!(ran.report["outcome"], "failed");
            ran.says(&["input/output error", "--on-read-error skip fills"]);
            assert!(!image.exists());
        }
    }
}

#[test]
fn what_cannot_be_read_is_zeros_and_is_named() {
    if no_root() {
        return;
    }
    let damaged = Damaged::new();
    let readable = damaged.readable();
    let first = READABLE_BYTES;
    for (way, verb, to_disk) in [
        (Way::Here, "copy", false),
        (Way::Push, "copy", true),
        (Way::Pull, "copy", false),
        (Way::Here, "sync", true),
    ] {
        let image = damaged.place.path().join("disk.img");
        let disk = to_disk.then(|| Disk::full_of(damaged.place.path(), "target", 0xaa, SIZE_BYTES, 512));
        let to = disk.as_ref().map_or(image.clone(), |disk| disk.path.clone());
        let copy = || {
            let copy = Copy::verb(std::process::Command::new(HAKOBU), verb).to(&damaged.host);
            copy.options("--on-read-error skip").args(way.typed(&damaged.host, &damaged.source.path, &to))
        };
        let ran = copy().run_to(3);
        assert_eq!(ran.report["outcome"], "partial");
        assert_eq!(unreadable(&ran), (first, SIZE_BYTES - first), "{way:?} {verb}");
        assert_bytes(&fs::read(&to).unwrap(), &readable);
        assert_eq!(ran.report["digest_blake3"], b3sum(&readable));
        let Some(disk) = disk else {
            assert!(drafts(damaged.place.path()).is_empty());
            continue;
        };
        // As long as the source is damaged, a further run tries only the bad chunks.
        let bad_chunks = SIZE_BYTES - READABLE_BYTES / CHUNK_BYTES * CHUNK_BYTES;
        let ran = copy().run_to(3);
        assert_eq!(unreadable(&ran), (first, SIZE_BYTES - first), "{way:?} {verb}");
        assert_eq!(ran.report["resumed"], true, "{way:?} {verb} {:#}", ran.report);
        assert!(!disk.remembered().is_empty());
        damaged.repair();
        let ran = copy().run_to(0);
        assert_eq!(ran.report["resumed"], true, "{way:?} {verb} {:#}", ran.report);
        let done = ran.report["bytes_done"].as_u64().unwrap();
        assert!(done <= bad_chunks, "{way:?} {verb} {done} {bad_chunks}");
        assert_bytes(&disk.bytes(), &damaged.content);
        assert_eq!(ran.report["digest_blake3"], b3sum(&damaged.content));
        assert!(disk.remembered().is_empty());
        File::options().write(true).open(&damaged.source.backing).unwrap().set_len(READABLE_BYTES).unwrap();
    }
}

/// A disk whose file has the same block at two offsets, so that data written at one appears at the other as well.
/// Direct I/O keeps the system from noticing.
struct Forgetful {
    disk: Option<Disk>,
    mounted: Option<Mounted>,
}

impl Forgetful {
    fn new(place: &Path, size_bytes: u64) -> Self {
        let disk = Disk::empty(place, "below", 2 * size_bytes, 512);
        let options = ["-q", "-F", "-b", "4096", "-O", "^extent,^metadata_csum,^has_journal,^64bit,^flex_bg"];
        tool("mkfs.ext4", options.iter().map(AsRef::as_ref).chain([disk.path.as_os_str()]));
        let mounted = Mounted::mount(place.join("forgetful"), disk);
        let backing = mounted.at.join("disk");
        fs::write(&backing, vec![0xaa; size_bytes as usize]).unwrap();
        let (at, disk) = mounted.unmount();
        let debugfs = |request: &str| tool("debugfs", ["-w", "-R", request, disk.path.to_str().unwrap()]);
        let block = debugfs("bmap disk 0");
        debugfs(&format!("sif disk block[1] {block}"));
        assert_eq!(debugfs("bmap disk 1"), block);
        let mounted = Mounted::mount(at, disk);
        let disk = Disk::attach(&backing, 512, &["--direct-io=on"]);
        Self { disk: Some(disk), mounted: Some(mounted) }
    }

    fn path(&self) -> &Path {
        &self.disk.as_ref().unwrap().path
    }
}

impl Drop for Forgetful {
    fn drop(&mut self) {
        drop(self.disk.take());
        drop(self.mounted.take());
    }
}

#[test]
fn a_medium_that_does_not_keep_what_is_written() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let content = content(12 * MIB, 2);
    let image = place.path().join("disk.img");
    fs::write(&image, &content).unwrap();
    let target = Forgetful::new(place.path(), 12 * MIB);
    // Without `--verify medium` the copy succeeds.
    let ran = Copy::new().arg(&image).arg(target.path()).run_to(0);
    assert_eq!(ran.report["verified"], "wire");
    Copy::verify().arg(&image).arg(target.path()).run_to(4);
    for way in [Way::Here, Way::Push] {
        for verb in ["copy", "sync"] {
            let copy = Copy::verb(std::process::Command::new(HAKOBU), verb).to(&host);
            let copy =
                copy.options("--verify medium").args(["--confirm", &target.disk.as_ref().unwrap().id()]);
            let ran = copy.args(way.typed(&host, &image, target.path())).run_to(1);
            ran.says(&[
                "the medium did not keep 4194304 bytes from offset 0; writing them again",
                "the medium returned other data than was written",
            ]);
            assert_eq!(ran.err.matches("writing them again").count(), 2, "{}", ran.err);
        }
    }
}

#[test]
fn a_medium_that_keeps_it() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    for (way, sector_bytes) in [(Way::Here, 512), (Way::Push, 4096), (Way::Pull, 512)] {
        let content = content_with_zeros(33 * MIB + 1234, 3);
        let image = place.path().join("source");
        write_sparse(&image, &content);
        let target = Disk::full_of(place.path(), "target", 0xaa, 34 * MIB, sector_bytes);
        let copy = Copy::new().to(&host).options("--verify medium");
        let ran = copy.args(way.typed(&host, &image, &target.path)).run_to(0);
        ran.assert_copied(&content);
        assert_eq!(ran.report["verified"], "medium");
        assert_bytes(&target.bytes()[..content.len()], &content);
    }
}

/// A push during which a disk becomes smaller.
struct Shrinking {
    // The fields are dropped in this order: the host's processes must end before their network is removed.
    host: Host,
    link: Link,
    place: tempfile::TempDir,
}

impl Shrinking {
    fn new() -> Self {
        let rate_bits_per_second = Some(200_000_000);
        let link =
            Link::up(LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() }).unwrap();
        let (place, host) = (place(), Host::behind(&link));
        Self { host, link, place }
    }

    /// Pushes while a disk shrinks to a size in bytes, of which `sound_bytes` can be read.
    fn push(&self, source: &Path, target: &Path, disk: &Disk, (size_bytes, sound_bytes): (u64, u64)) -> Ran {
        let copy = Copy::across(&self.link).to(&self.host).options(LANES);
        let mut running = copy.arg(source).arg(self.host.at(target)).start();
        running.wait_until_under_way();
        // Shrinking takes several steps. The copy is stopped so that it begins no read in between.
        running.signal(Signal::STOP);
        let backing = File::options().write(true).open(&disk.backing).unwrap();
        backing.set_len(size_bytes).unwrap();
        tool("losetup", ["--set-capacity".as_ref(), disk.path.as_os_str()]);
        backing.set_len(sound_bytes).unwrap();
        // The page cache would still answer reads.
        tool("blockdev", ["--flushbufs".as_ref(), disk.path.as_os_str()]);
        running.assert_unfinished();
        running.signal(Signal::CONT);
        running.end()
    }
}

#[test]
fn a_disk_that_becomes_smaller() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        // A read ends early, or fails as one that is under way when the disk shrinks.
        for sizes in [(16 * MIB, 16 * MIB), (SIZE_BYTES - MIB, MIB)] {
            scope.spawn(move || {
                let shrinking = Shrinking::new();
                let source = Disk::with(shrinking.place.path(), "source", &content(SIZE_BYTES, 4), 512);
                let image = shrinking.place.path().join("disk.img");
                let ran = shrinking.push(&source.path, &image, &source, sizes);
                assert_eq!(ran.code, Some(5), "{}", ran.err);
                assert_eq!(ran.report["outcome"], "source_changed");
                assert!(!image.exists() && drafts(shrinking.place.path()).is_empty());
            });
        }
        scope.spawn(|| {
            let shrinking = Shrinking::new();
            let source = shrinking.place.path().join("source");
            fs::write(&source, content(SIZE_BYTES, 5)).unwrap();
            let target = Disk::empty(shrinking.place.path(), "target", SIZE_BYTES, 512);
            let ran = shrinking.push(&source, &target.path, &target, (16 * MIB, 16 * MIB));
            assert_eq!(ran.code, Some(1), "{}", ran.err);
            assert_eq!(ran.report["outcome"], "failed");
        });
    });
}

/// A target without space ends the copy, and no file has its final name.
#[test]
fn a_file_system_that_is_full() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let content = content(SIZE_BYTES, 6);
    let source = Disk::with(place.path(), "source", &content, 512);
    for (kind, way) in [("ext4", Way::Here), ("tmpfs", Way::Push), ("ext4", Way::Push)] {
        let mounted = Mounted::of_size(place.path(), kind, 40 * MIB);
        let image = mounted.at.join("disk.img");
        for verb in ["copy", "sync"] {
            let copy = Copy::verb(std::process::Command::new(HAKOBU), verb).to(&host);
            let ran = copy.args(way.typed(&host, &source.path, &image)).run_to(1);
            assert_eq!(ran.report["outcome"], "failed");
            ran.says(&["hint: free space at the target"]);
            assert!(!image.exists(), "{kind} {way:?}");
        }
        host.wait_for_no_agent();
        drop(mounted);
        fs::remove_dir(place.path().join(format!("on {kind}"))).unwrap();
    }
}

/// A thin disk, which has less space than its size.
#[test]
fn a_disk_without_room_behind_it() {
    if no_root() {
        return;
    }
    let (place, host) = (place(), Host::up());
    let content = content(SIZE_BYTES, 7);
    let source = place.path().join("source");
    fs::write(&source, &content).unwrap();
    let small = Mounted::of_size(place.path(), "tmpfs", 30 * MIB);
    let target = Disk::empty(&small.at, "thin", SIZE_BYTES, 512);
    for way in [Way::Here, Way::Push] {
        let copy = Copy::new().to(&host).args(way.typed(&host, &source, &target.path));
        let ran = copy.args(["--confirm", &target.id()]).run_to(1);
        assert_eq!(ran.report["outcome"], "failed");
        assert!(!ran.err.contains("done:"), "{}", ran.err);
    }
    wait_until("nobody has it open", Duration::from_secs(60), || host.agents().is_empty());
    // With more space the same command succeeds.
    tool("mount", ["-o", "remount,size=200m", small.at.to_str().unwrap()]);
    let copy = Copy::new().to(&host).args(Way::Push.typed(&host, &source, &target.path));
    let ran = copy.args(["--confirm", &target.id()]).run_to(0);
    assert_eq!(ran.report["digest_blake3"], b3sum(&content));
    assert_bytes(&target.bytes(), &content);
    assert_eq!(target.remembered(), Vec::<PathBuf>::new());
}
