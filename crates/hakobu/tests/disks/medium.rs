//! `--verify medium` finds data that a disk has not kept.

use std::fs;
use std::path::{Path, PathBuf};

use hakobu_core::extent::CHUNK_BYTES;
use hakobu_testkit::bad_medium::{BadMedium, BitFlip};
use hakobu_testkit::sshd::no_root;
use tempfile::TempDir;

use crate::bench::*;
use crate::program::*;

const SIZE_BYTES: u64 = 2 * CHUNK_BYTES + MIB;
const ALWAYS: u32 = u32::MAX;

/// A source, and a disk that flips bits.
struct Setup {
    // The loop device is detached before the file system below it is unmounted.
    disk: Disk,
    _medium: BadMedium,
    place: TempDir,
    source: PathBuf,
    content: Vec<u8>,
}

impl Setup {
    fn new(flips: &[BitFlip]) -> Self {
        let place = place();
        let mut content = content(SIZE_BYTES, 7);
        // Zeros are verified as well.
        content[CHUNK_BYTES as usize..CHUNK_BYTES as usize + 2 * MIB as usize].fill(0);
        let source = place.path().join("source");
        fs::write(&source, &content).unwrap();
        let mounted = place.path().join("medium");
        fs::create_dir(&mounted).unwrap();
        let medium = BadMedium::mount(&mounted, SIZE_BYTES, flips).unwrap();
        let disk = Disk::attach(medium.file(), 512, &[]);
        Self { disk, _medium: medium, place, source, content }
    }

    fn copy(&self, way: Way, host: &Host, verify: &str, code: i32) -> Ran {
        let copy = Copy::new().to(host).options(verify);
        copy.args(way.typed(host, &self.source, &self.disk.path)).run_to(code)
    }

    /// Returns the offsets of bytes that differ from the source.
    fn wrong(&self) -> Vec<u64> {
        let found = self.disk.bytes();
        assert_eq!(found.len(), self.content.len());
        let pairs = (0..).zip(found.iter().zip(&self.content));
        pairs.filter(|(_, (found, wanted))| found != wanted).map(|(offset, _)| offset).collect()
    }
}

const FLIPPED: [u64; 3] = [5, CHUNK_BYTES + 1_000_000, SIZE_BYTES - 1];

fn flips(times: u32) -> [BitFlip; 3] {
    FLIPPED.map(|offset| BitFlip { offset, times })
}

/// Without `--verify medium` the errors go unnoticed. The other tests rely on that.
#[test]
fn nobody_else_finds_out() {
    if no_root() {
        return;
    }
    let setup = Setup::new(&flips(1));
    setup.copy(Way::Here, &Host::up(), "--verify wire", 0);
    assert_eq!(setup.wrong(), FLIPPED);
}

#[test]
fn what_the_medium_did_not_keep_is_written_again() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for way in [Way::Here, Way::Push, Way::Pull] {
        let setup = Setup::new(&flips(1));
        let ran = setup.copy(way, &host, "--verify medium", 0);
        assert_eq!(ran.err.matches("writing them again").count(), 3, "{way:?} {}", ran.err);
        assert!(setup.wrong().is_empty(), "{way:?}");
        assert_eq!(ran.report["digest_blake3"], b3sum(&setup.content));
        assert_eq!(setup.disk.remembered(), Vec::<&Path>::new());
    }
}

#[test]
fn a_medium_that_never_keeps_it_fails_the_copy() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for way in [Way::Here, Way::Push, Way::Pull] {
        let setup = Setup::new(&flips(ALWAYS)[..1]);
        let ran = setup.copy(way, &host, "--verify medium", 1);
        ran.says(&["the medium did not keep"]);
        assert_eq!(ran.report["outcome"], "failed", "{way:?} {:#}", ran.report);
        assert_eq!(setup.wrong().first(), Some(&FLIPPED[0]), "{way:?}");
        drop(setup.place);
    }
}
