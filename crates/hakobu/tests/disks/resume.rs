//! Runs that are killed in the middle: the same command resumes, and ends with the right content.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hakobu_testkit::link::{Link, LinkSettings};
use hakobu_testkit::sshd::no_root;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use crate::bench::*;
use crate::program::*;

/// Not a multiple of chunks, pieces or sectors of 4096 bytes.
const SIZE_BYTES: u64 = 320 * MIB + 2 * PIECE + 1536;
/// The rate of the first part of a run, until all of that is recorded.
const FAST_BITS_PER_SECOND: u64 = 800_000_000;
/// The rate at the time of the kill.
const SLOW_BYTES_PER_SECOND: u64 = 20_000_000;
/// The maximum number of bytes that were written but not recorded, and are written again.
const AGAIN_BYTES_MAX: u64 = 2 * SLOW_BYTES_PER_SECOND;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Target {
    Image,
    Disk,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Killed {
    Near,
    Far,
    Both,
}

/// A host behind a link, a source, and two targets for it.
pub struct Line {
    // The fields are dropped in this order: the host's processes must end before their network is removed.
    host: Host,
    link: Link,
    place: TempDir,
    source: PathBuf,
    digest: String,
    image: PathBuf,
    disk: Disk,
}

fn settings(rate_bits_per_second: Option<u64>) -> LinkSettings {
    LinkSettings { rate_bits_per_second, mtu: 9000, ..LinkSettings::default() }
}

impl Line {
    pub fn new() -> Self {
        let link = Link::up(settings(None)).unwrap();
        let (place, host) = (place(), Host::behind(&link));
        let source = file(&place.path().join("source"), SIZE_BYTES);
        let digest = b3sum_of(&source, u64::MAX);
        let image = place.path().join("disk.img");
        let disk = Disk::empty(place.path(), "disk", SIZE_BYTES.next_multiple_of(MIB), 512);
        Self { host, link, place, source, digest, image, disk }
    }

    fn target(&self, target: Target) -> &Path {
        match target {
            Target::Image => &self.image,
            Target::Disk => &self.disk.path,
        }
    }

    fn copy(&self, way: Way, target: Target) -> Copy {
        let copy = Copy::across(&self.link).to(&self.host).options(LANES);
        copy.args(way.typed(&self.host, &self.source, self.target(target)))
    }

    /// Empties both targets.
    fn empty(&self) {
        let _ = fs::remove_file(&self.image);
        let backing = File::options().write(true).open(&self.disk.backing).unwrap();
        let size_bytes = backing.metadata().unwrap().len();
        backing.set_len(0).unwrap();
        backing.set_len(size_bytes).unwrap();
    }

    /// Starts a copy, slows it down once this many bytes are done, and waits until all of these are recorded in the
    /// journal.
    fn start(&self, copy: Copy, target: Target, at_bytes: u64) -> Running {
        self.link.change(settings(Some(FAST_BITS_PER_SECOND))).unwrap();
        let running = copy.start();
        wait_until("it gets there", Duration::from_secs(60), || {
            running.assert_unfinished();
            done_bytes(&running.events()) >= at_bytes
        });
        self.link.change(settings(Some(SLOW_BYTES_PER_SECOND * 8))).unwrap();
        // The data that was sent at the old rate counts as well. Events report it a moment later.
        let heard = running.events().len();
        wait_until("it tells how far it got", Duration::from_secs(60), || running.events().len() > heard + 1);
        let reached_bytes = done_bytes(&running.events());
        wait_until("it remembers that", Duration::from_secs(60), || {
            running.assert_unfinished();
            recorded_bytes(&self.left(target)) >= reached_bytes
        });
        running
    }

    fn kill(&self, running: &Running, killed: Killed) {
        if killed != Killed::Near {
            let agents = self.host.agents();
            assert_eq!(agents.len(), 1);
            kill_process(agents[0], Signal::KILL).unwrap();
        }
        if killed != Killed::Far {
            running.signal(Signal::KILL);
        }
    }

    /// Kills a run at a random moment, and runs the same command again. Returns false if the run ended before the
    /// kill.
    fn round(&self, way: Way, target: Target, killed: Killed, moment: &mut Moments) -> bool {
        self.empty();
        let copy = || self.copy(way, target).options("--retry-for 0s");
        let running = self.start(copy(), target, moment.bytes());
        std::thread::sleep(moment.pause());
        let recorded = recorded_bytes(&self.left(target));
        self.kill(&running, killed);
        let ran = running.end();
        self.host.wait_for_no_agent();
        if ran.code == Some(0) {
            return false;
        }
        let what = format!("{way:?} {target:?} {killed:?} {moment:?}");
        let as_expected = match killed {
            Killed::Near => ran.code.is_none(),
            Killed::Far => ran.code == Some(1),
            // This side may notice the end of the other one before it is killed itself.
            Killed::Both => matches!(ran.code, None | Some(1)),
        };
        assert!(as_expected, "{what} {:?} {}", ran.code, ran.err);
        let done = done_bytes(&ran.events);
        assert!(done < SIZE_BYTES && !self.image.exists(), "{what}");
        assert!(!self.left(target).is_empty(), "{what}: nothing to go on with");
        if target == Target::Disk {
            assert!(self.disk.is_listed_as_unfinished(), "{what}");
        }
        self.link.change(settings(None)).unwrap();
        let ran = copy().run_to(0);
        self.assert_whole(&ran, target);
        assert_eq!(ran.report["resumed"], true, "{what} {:#}", ran.report);
        let read = ran.bytes("source_read");
        assert!(read <= SIZE_BYTES - recorded, "{what}: {read} read, {recorded} had been recorded");
        assert!(read <= SIZE_BYTES - done + AGAIN_BYTES_MAX, "{what}: {read} read, {done} had been done");
        true
    }

    /// Returns the drafts and journals at a target.
    fn left(&self, target: Target) -> Vec<PathBuf> {
        match target {
            Target::Image => drafts(self.place.path()),
            Target::Disk => self.disk.remembered(),
        }
    }

    #[track_caller]
    fn assert_whole(&self, ran: &Ran, target: Target) {
        assert_eq!(ran.report["digest_blake3"], self.digest, "{:#}", ran.report);
        assert_eq!(b3sum_of(self.target(target), SIZE_BYTES), self.digest, "the bytes at the target");
        if target == Target::Image {
            assert_eq!(fs::metadata(&self.image).unwrap().len(), SIZE_BYTES);
        }
        assert_eq!(self.left(target), Vec::<PathBuf>::new());
        assert!(target != Target::Disk || !self.disk.is_listed_as_unfinished());
    }
}

/// Returns the number of bytes done in the last progress event.
fn done_bytes(events: &[serde_json::Value]) -> u64 {
    let progress = events.iter().filter(|event| event["event"] == "progress");
    progress.filter_map(|event| event["bytes_done"].as_u64()).max().unwrap_or(0)
}

/// A generator of moments. The sequence is the same in each run of the tests.
#[derive(Debug)]
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Returns the number of bytes after which a run is slowed down, which is less than the whole.
    fn bytes(&mut self) -> u64 {
        SIZE_BYTES / 10 + self.next(SIZE_BYTES / 4)
    }

    /// Returns a pause before the kill, so that kills do not coincide with events.
    fn pause(&mut self) -> Duration {
        Duration::from_millis(self.next(1000))
    }
}

/// Kills runs until `count` kills have hit in the middle.
fn kills(line: &Line, way: Way, target: Target, kinds: &[Killed], count: usize, seed: u64) {
    let mut moments = Moments(seed);
    let (mut hit, mut missed) = (0, 0);
    while hit < count {
        if line.round(way, target, kinds[hit % kinds.len()], &mut moments) {
            hit += 1;
        } else {
            missed += 1;
            assert!(missed < 3 + count / 5, "most kills came too late");
        }
    }
}

/// The cases run at the same time, each with a link of its own, because they mostly wait.
#[test]
fn kills_in_the_middle() {
    if no_root() {
        return;
    }
    use Killed::{Both, Far, Near};
    std::thread::scope(|scope| {
        scope.spawn(|| kills(&Line::new(), Way::Push, Target::Image, &[Near, Far, Both], 3, 1));
        scope.spawn(|| kills(&Line::new(), Way::Push, Target::Disk, &[Far, Near, Both], 3, 2));
        scope.spawn(|| {
            let line = Line::new();
            kills(&line, Way::Pull, Target::Image, &[Near], 1, 3);
            kills(&line, Way::Pull, Target::Disk, &[Far], 1, 4);
        });
        scope.spawn(|| {
            let line = Line::new();
            goes_on_by_itself(&line, Target::Image);
            goes_on_by_itself(&line, Target::Disk);
        });
        scope.spawn(|| a_line_that_is_cut_and_mended(&Line::new()));
    });
}

/// A run restarts an agent that was killed.
fn goes_on_by_itself(line: &Line, target: Target) {
    let running = line.start(line.copy(Way::Push, target), target, SIZE_BYTES / 3);
    let recorded = recorded_bytes(&line.left(target));
    line.kill(&running, Killed::Far);
    line.link.change(settings(None)).unwrap();
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.says(&["connection lost", "trying again"]);
    line.assert_whole(&ran, target);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
    // The recorded part, a third at least, was not written again.
    assert!(recorded > 2 * AGAIN_BYTES_MAX);
    let written = ran.bytes("target_written");
    assert!(written <= SIZE_BYTES + AGAIN_BYTES_MAX, "{:#}", ran.report);
}

/// The agent of the first attempt keeps the disk open until it notices that the connection is lost. That must not
/// count as another process that uses the disk.
fn a_line_that_is_cut_and_mended(line: &Line) {
    let copy = line.copy(Way::Push, Target::Disk).options("--retry-for 5m");
    let running = line.start(copy, Target::Disk, SIZE_BYTES / 4);
    line.link.cut();
    let noticed = || running.events().iter().any(|event| event["event"] == "notice");
    wait_until("the loss is noticed", Duration::from_secs(60), noticed);
    line.link.mend();
    line.link.change(settings(None)).unwrap();
    let ran = running.end();
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran.says(&["connection lost", "trying again"]);
    line.assert_whole(&ran, Target::Disk);
    assert_eq!(ran.report["resumed"], true, "{:#}", ran.report);
}

#[test]
#[ignore = "long"]
fn long_kills_of_the_near_side_of_an_image() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Image, &[Killed::Near], 50, 11);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_the_far_side_of_an_image() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Image, &[Killed::Far], 50, 12);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_both_sides_of_an_image() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Image, &[Killed::Both], 50, 13);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_the_near_side_of_a_disk() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Disk, &[Killed::Near], 50, 14);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_the_far_side_of_a_disk() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Disk, &[Killed::Far], 50, 15);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_both_sides_of_a_disk() {
    if !no_root() {
        kills(&Line::new(), Way::Push, Target::Disk, &[Killed::Both], 50, 16);
    }
}

#[test]
#[ignore = "long"]
fn long_kills_of_pulls() {
    if !no_root() {
        let (line, all) = (Line::new(), [Killed::Near, Killed::Far, Killed::Both]);
        kills(&line, Way::Pull, Target::Image, &all, 25, 17);
        kills(&line, Way::Pull, Target::Disk, &all, 25, 18);
    }
}
