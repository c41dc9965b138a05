//! The real program in a virtual machine, for tests that the machine cannot run itself: disks in use by RAID, LVM and
//! encryption, and power cuts.
//!
//! `./test --long` installs what these need: QEMU, the tools of volumes, and a kernel.

#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hakobu_measure::generate::{self, FileSpec};
use hakobu_testkit::vm::{KernelPackage, ScriptStep, VmKind, steps};

mod held;
mod nfs;
mod power_cut;

const HAKOBU: &str = env!("CARGO_BIN_EXE_hakobu");
const MIB: u64 = 1 << 20;

/// Creates a machine with hakobu and these kernel modules.
fn machine(modules: &[&str]) -> VmKind {
    // `./test` puts the machine's files beside the directories of the build profiles.
    let target = Path::new(HAKOBU).ancestors().nth(2).unwrap();
    let kernel = KernelPackage::unpacked_in(&target.join("vm")).unwrap();
    let mut machine = VmKind::new(kernel, modules).unwrap();
    machine.program(HAKOBU, "/bin/hakobu").unwrap();
    machine
}

/// Creates a file for a disk whose bytes all have the same value.
fn full_of(place: &Path, name: &str, byte: u8, size_bytes: u64) -> PathBuf {
    let path = place.join(name);
    let file = File::create(&path).unwrap();
    for at in (0..size_bytes).step_by(MIB as usize) {
        file.write_all_at(&vec![byte; MIB.min(size_bytes - at) as usize], at).unwrap();
    }
    path
}

/// Creates a file for a disk with random content.
fn random(place: &Path, name: &str, size_bytes: u64) -> PathBuf {
    let path = place.join(name);
    generate::file(&path, FileSpec { size_bytes, seed: size_bytes, compressibility: 0.0, threads: 1 })
        .unwrap();
    path
}

/// Returns the only step of this name.
#[track_caller]
fn step(output: &str, name: &str) -> ScriptStep {
    let mut found = steps(output).into_iter().filter(|step| step.name == name);
    found.next().unwrap_or_else(|| panic!("no step {name} in: {output}"))
}
