//! Changes of the source or the target between an interrupted run and the next one.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Duration;

use hakobu_core::extent::CHUNK_BYTES;
use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::bench::*;
use crate::program::*;

const SIZE_BYTES: u64 = 120 * MIB;
const LAST_PASS: [&str; 4] = ["--passes", "1", "--before-last-pass", "true"];

/// A push that was interrupted in the middle.
struct Interrupted {
    // The fields are dropped in this order: the host's processes must end before their network is removed.
    host: Host,
    link: Link,
    place: TempDir,
    content: Vec<u8>,
    source: PathBuf,
    target: PathBuf,
    disks: Vec<Disk>,
}

impl Interrupted {
    /// Copies a file or a disk to an image or a disk, and interrupts that.
    fn new(from_disk: bool, to_disk: bool) -> Self {
        Self::with("", from_disk, to_disk)
    }

    fn with(options: &str, from_disk: bool, to_disk: bool) -> Self {
        Self::prepared(options, from_disk, to_disk, |_| {})
    }

    /// As [`Interrupted::with`], with a source disk that `prepare` has changed before the copy.
    fn prepared(options: &str, from_disk: bool, to_disk: bool, prepare: impl FnOnce(&Disk)) -> Self {
        let link = Link::up(settings(Some(400_000_000))).unwrap();
        let (place, host) = (place(), Host::behind(&link));
        let content = content(SIZE_BYTES, 1);
        let mut disks = Vec::new();
        let mut source = place.path().join("source");
        if from_disk {
            disks.push(Disk::with(place.path(), "source disk", &content, 512));
            source = disks[0].path.clone();
            prepare(&disks[0]);
        } else {
            fs::write(&source, &content).unwrap();
        }
        let mut target = place.path().join("disk.img");
        if to_disk {
            disks.push(Disk::full_of(place.path(), "target disk", 0xaa, SIZE_BYTES, 512));
            target = disks[disks.len() - 1].path.clone();
        }
        let interrupted = Self { host, link, place, content, source, target, disks };
        let mut running = interrupted.copy().options(options).start();
        running.wait_until_under_way();
        wait_until("something is remembered", Duration::from_secs(60), || {
            running.assert_unfinished();
            recorded_bytes(&interrupted.left()) > 0
        });
        running.signal(Signal::INT);
        let ran = running.end();
        assert_eq!(ran.code, Some(130), "{}", ran.err);
        interrupted.host.wait_for_no_agent();
        assert_eq!(interrupted.left().len(), 2, "a draft or the disk's mark, and a journal");
        interrupted.link.change(settings(None)).unwrap();
        interrupted
    }

    fn copy(&self) -> Copy {
        let copy = Copy::across(&self.link).to(&self.host).options(LANES);
        copy.arg(&self.source).arg(self.host.at(&self.target))
    }

    fn verb(&self, verb: &str) -> Copy {
        let copy = Copy::verb(self.link.near().command(HAKOBU), verb).to(&self.host).options(LANES);
        copy.arg(&self.source).arg(self.host.at(&self.target))
    }

    /// Changes a byte of the source disk that has been copied. Returns the new content.
    fn change_disk(&self) -> Vec<u8> {
        let mut content = self.content.clone();
        content[CHUNK_BYTES as usize / 2] ^= 1;
        self.disks[0].write_at(CHUNK_BYTES / 2, &content[CHUNK_BYTES as usize / 2..][..1]);
        content
    }

    fn left(&self) -> Vec<PathBuf> {
        let mut left = drafts(self.place.path());
        left.extend(self.disks.iter().flat_map(Disk::remembered));
        left
    }

    /// Runs a copy, and fails unless it ends with this content and leaves no drafts or journals.
    #[track_caller]
    fn ends_well(&self, copy: Copy, resumed: bool, content: &[u8]) -> Ran {
        let ran = copy.run_to(0);
        assert_eq!(ran.report["digest_blake3"], b3sum(content), "{:#}", ran.report);
        assert_eq!(b3sum_of(&self.target, u64::MAX), b3sum(content), "the bytes at the target");
        assert_eq!(ran.report["resumed"], resumed, "{:#}", ran.report);
        assert_eq!(self.left(), Vec::<PathBuf>::new());
        ran
    }
}

fn settings(rate_bits_per_second: Option<u64>) -> LinkSettings {
    LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() }
}

/// The cases run at the same time, because they mostly wait.
#[test]
fn between_two_runs() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| nothing_changed(false, false));
        scope.spawn(|| nothing_changed(true, true));
        scope.spawn(|| a_file_changed(false));
        scope.spawn(|| a_file_changed(true));
    });
    std::thread::scope(|scope| {
        scope.spawn(|| a_disk_changed(false));
        scope.spawn(a_disk_in_use_changed);
        scope.spawn(|| a_disk_changed_before_a_sync(true, &[]));
        scope.spawn(|| a_disk_changed_before_a_sync(false, &[]));
        scope.spawn(|| a_disk_changed_before_a_sync(true, &LAST_PASS));
        scope.spawn(|| a_disk_changed_before_a_sync(false, &LAST_PASS));
        scope.spawn(a_file_system_that_is_half_there);
        scope.spawn(|| a_disk_changed(true));
        scope.spawn(the_draft_was_overwritten);
        scope.spawn(the_disk_was_overwritten);
    });
}

fn nothing_changed(from_disk: bool, to_disk: bool) {
    let interrupted = Interrupted::new(from_disk, to_disk);
    let ran = interrupted.ends_well(interrupted.copy(), true, &interrupted.content);
    assert!(ran.bytes("target_written") < SIZE_BYTES, "{:#}", ran.report);
}

/// Every run is refused until the user passes `--restart`.
#[track_caller]
fn refused_until_restart(interrupted: &Interrupted, content: &[u8]) {
    for _ in 0..2 {
        let ran = interrupted.copy().run_to(5);
        assert_eq!(ran.report["outcome"], "source_changed");
        ran.says(&["add --restart to start over"]);
        assert_eq!(interrupted.left().len(), 2, "what was brought over stays");
    }
    interrupted.ends_well(interrupted.copy().arg("--restart"), false, content);
}

/// A run that cannot resume starts over, and says so.
#[track_caller]
fn begun_anew(interrupted: &Interrupted, content: &[u8]) {
    let ran = interrupted.ends_well(interrupted.copy(), false, content);
    ran.says(&["the source has changed since the interrupted run; it is copied from the start"]);
}

fn a_file_changed(to_disk: bool) {
    let interrupted = Interrupted::new(false, to_disk);
    // The new content differs in a byte, and an image becomes shorter.
    let mut content = interrupted.content.clone();
    content[7] ^= 1;
    if !to_disk {
        content.truncate((SIZE_BYTES - MIB) as usize);
    }
    fs::write(&interrupted.source, &content).unwrap();
    if to_disk {
        content.truncate(SIZE_BYTES as usize);
        return refused_until_restart(&interrupted, &content);
    }
    begun_anew(&interrupted, &content);
}

fn a_disk_changed(to_disk: bool) {
    let interrupted = Interrupted::new(true, to_disk);
    // The first chunk has been copied, and is read again as a sample.
    let content = interrupted.change_disk();
    match to_disk {
        true => refused_until_restart(&interrupted, &content),
        false => begun_anew(&interrupted, &content),
    }
}

/// With `--live`, a copy resumes although the source has changed, and a later sync transfers the changes.
fn a_disk_in_use_changed() {
    let interrupted = Interrupted::new(true, true);
    let content = interrupted.change_disk();
    let ran = interrupted.verb("copy").arg("--live").run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    // Once the copy is complete, its data on the target is protected like any other.
    let sync = || interrupted.verb("sync");
    sync().run_to(6).says(&["--confirm"]);
    interrupted.ends_well(sync().args(["--confirm", &interrupted.disks[1].id()]), false, &content);
}

/// A sync does not use the journal of an interrupted copy: it compares everything.
fn a_disk_changed_before_a_sync(to_disk: bool, options: &[&str]) {
    let interrupted = Interrupted::new(true, to_disk);
    let content = interrupted.change_disk();
    let ran = interrupted.ends_well(interrupted.verb("sync").args(options), false, &content);
    // On a disk, equal data is not sent again. A draft is not reused.
    assert!(!to_disk || ran.bytes("target_written") < SIZE_BYTES, "{:#}", ran.report);
}

/// The target disk was empty, so the first run did not ask. The part of a file system that it has written is no
/// reason to ask either.
fn a_file_system_that_is_half_there() {
    let interrupted = Interrupted::prepared("", true, true, |disk| {
        // Without discarding, the rest of the disk keeps its content, which has to be copied.
        tool("mkfs.ext4", ["-q", "-F", "-E", "nodiscard", disk.path.to_str().unwrap()]);
    });
    let ran = interrupted.copy().run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    assert_eq!(interrupted.disks[0].bytes(), interrupted.disks[1].bytes());
    // The copy is complete, so the disk is protected.
    interrupted.copy().run_to(6).says(&["holds data: ext4"]);
}

fn the_draft_was_overwritten() {
    let interrupted = Interrupted::new(false, false);
    let draft = interrupted.left().into_iter().max_by_key(|path| fs::metadata(path).unwrap().len()).unwrap();
    File::options().write(true).open(&draft).unwrap().write_all_at(b"by hand", 3 * PIECE).unwrap();
    interrupted.ends_well(interrupted.copy(), false, &interrupted.content);
}

fn the_disk_was_overwritten() {
    let interrupted = Interrupted::new(false, true);
    let disk = &interrupted.disks[0];
    // A change that leaves no signature.
    disk.write_at(3 * CHUNK_BYTES + 5, b"by hand");
    let bytes = disk.bytes();
    for options in ["", "--restart"] {
        let ran = interrupted.copy().options(options).run_to(6);
        ran.says(&["its content may have changed since", &format!("--confirm {}", disk.id())]);
        assert_bytes(&disk.bytes(), &bytes);
    }
    interrupted.ends_well(interrupted.copy().args(["--confirm", &disk.id()]), false, &interrupted.content);
}

/// A sync in place resumes as well: blocks that the interrupted run has compared are not compared again.
#[test]
fn a_sync_that_was_interrupted() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| sync_interrupted(false));
        scope.spawn(|| sync_interrupted(true));
    });
}

fn sync_interrupted(to_disk: bool) {
    let link = Link::up(settings(Some(400_000_000))).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let content = content(SIZE_BYTES, 2);
    let (source, image) = (place.path().join("source"), place.path().join("disk.img"));
    fs::write(&source, &content).unwrap();
    fs::write(&image, vec![0xaa; SIZE_BYTES as usize]).unwrap();
    let disk = to_disk.then(|| Disk::attach(&image, 512, &[]));
    let target = disk.as_ref().map_or(image.clone(), |disk| disk.path.clone());
    let sync = || {
        let copy = Copy::verb(link.near().command(HAKOBU), "sync").to(&host).options(LANES);
        copy.arg(&source).arg(host.at(&target))
    };
    let left = || disk.as_ref().map_or_else(|| drafts(place.path()), Disk::remembered);
    let mut running = sync().start();
    running.wait_until_under_way();
    wait_until("something is remembered", Duration::from_secs(60), || recorded_bytes(&left()) > 0);
    running.signal(Signal::INT);
    assert_eq!(running.end().code, Some(130));
    host.wait_for_no_agent();
    assert!(!left().is_empty());
    link.change(settings(None)).unwrap();
    let ran = sync().run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    assert_eq!(ran.report["digest_blake3"], b3sum(&content), "{:#}", ran.report);
    assert!(ran.bytes("source_read") < SIZE_BYTES && ran.bytes("target_read") < SIZE_BYTES);
    assert_eq!(b3sum_of(&target, u64::MAX), b3sum(&content));
    assert_eq!(left(), Vec::<PathBuf>::new());
}

/// A disk without a serial number has an ID made from its content, which changes while the disk is written. The same
/// command with the old ID resumes all the same, another command is refused.
#[test]
fn the_id_that_was_confirmed() {
    if no_root() {
        return;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| id_confirmed(40 * MIB));
        scope.spawn(|| id_confirmed(SIZE_BYTES));
    });
}

fn id_confirmed(size_bytes: u64) {
    let link = Link::up(settings(Some(200_000_000))).unwrap();
    let (place, host) = (place(), Host::behind(&link));
    let mut content = content(size_bytes, 3);
    content[..512].copy_from_slice(&table(1));
    let source = place.path().join("source");
    fs::write(&source, &content).unwrap();
    let disk = Disk::full_of(place.path(), "disk", 0xaa, size_bytes, 512);
    disk.write_at(0, &table(2));
    let id = disk.id();
    let unconfirmed =
        |source: &PathBuf| Copy::across(&link).to(&host).options(LANES).arg(source).arg(host.at(&disk.path));
    let copy = |id: &str| unconfirmed(&source).args(["--confirm", id]);
    let mut running = copy(&id).start();
    running.wait_until_under_way();
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    host.wait_for_no_agent();
    assert_ne!(disk.id(), id, "the table has been overwritten");
    link.change(settings(None)).unwrap();
    // The partial data belongs to the interrupted copy, not to that of another image.
    let other = place.path().join("other");
    content[..512].copy_from_slice(&table(3));
    fs::write(&other, &content).unwrap();
    content[..512].copy_from_slice(&table(1));
    unconfirmed(&other).run_to(6).says(&["holds data: MBR"]);
    copy("made.0123456789abcdef").run_to(6).says(&["the confirmed device is"]);
    copy(&id).run_to(0);
    assert_bytes(&disk.bytes(), &content);
    assert_eq!(disk.remembered(), Vec::<PathBuf>::new());
    copy(&id).run_to(6);
}

/// A sync cannot use the journal and the draft of a copy, and removes them.
#[test]
fn a_sync_after_a_copy_that_was_interrupted() {
    if no_root() {
        return;
    }
    let interrupted = Interrupted::new(false, false);
    fs::write(&interrupted.target, "older").unwrap();
    let sync = Copy::verb(interrupted.link.near().command(HAKOBU), "sync").to(&interrupted.host);
    let sync = sync.arg(&interrupted.source).arg(interrupted.host.at(&interrupted.target));
    interrupted.ends_well(sync, false, &interrupted.content);
}

/// The journal of a job becomes invalid when another job writes to the disk.
#[test]
fn another_job_to_the_same_disk() {
    if no_root() {
        return;
    }
    for options in ["", "--verify none"] {
        let interrupted = Interrupted::with(options, false, true);
        let other = interrupted.place.path().join("other");
        let content = content(SIZE_BYTES / 2, 4);
        fs::write(&other, &content).unwrap();
        let disk = &interrupted.disks[0];
        let bytes = disk.bytes();
        Copy::new().arg(&other).arg(&disk.path).run_to(6).says(&["its content may have changed since"]);
        assert_bytes(&disk.bytes(), &bytes);
        Copy::new().arg(&other).arg(&disk.path).args(["--confirm", &disk.id()]).run_to(0);
        assert_eq!(disk.remembered(), Vec::<PathBuf>::new());
        let ran = interrupted.copy().options(options).args(["--confirm", &disk.id()]).run_to(0);
        assert_eq!(ran.report["resumed"], false);
        assert_bytes(&disk.bytes(), &interrupted.content);
    }
}

/// A killed copy on one machine resumes too, where files cannot share blocks.
#[test]
fn on_one_machine() {
    if no_root() {
        return;
    }
    let place = place();
    let source = file(&place.path().join("source"), 600 * MIB);
    let target = place.path().join("target");
    let by = |command| Copy::by(command).arg(&source).arg(&target);
    let mut running = by(stopped()).start();
    running.crawl_until(|_| !drafts(place.path()).is_empty());
    // The journal is written once a second, and the run could end before that.
    std::thread::sleep(Duration::from_millis(1100));
    running.crawl_until(|_| recorded_bytes(&drafts(place.path())) > 0);
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    let ran = by(std::process::Command::new(HAKOBU)).run_to(0);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    assert_eq!(b3sum_of(&target, u64::MAX), b3sum_of(&source, u64::MAX));
    assert_eq!(ran.report["digest_blake3"], b3sum_of(&source, u64::MAX));
    assert!(drafts(place.path()).is_empty());
}
