//! Tests with real block devices: the facts about them, and the refusals of the contract. They require root, loop
//! devices, and the tools of ext4 and swap.

#![allow(clippy::expect_used)]

use std::fs::File;
use std::path::Path;

use hakobu_core::disk::DeviceFacts;
use hakobu_endpoints::block::contract::{RefusalKind, Verdict, Wanted, target_verdict};
use hakobu_endpoints::block::inspect::inspect_device;
use hakobu_testkit::devices::LoopDevice;

mod facts;
mod identity;
mod ioctls;
mod uses;

const MIB: u64 = 1 << 20;

/// Creates a device of 32 MiB.
fn device() -> LoopDevice {
    LoopDevice::new(32 * MIB).expect("root can make loop devices")
}

fn facts(path: &Path) -> DeviceFacts {
    inspect_device(path).expect("the device can be inspected")
}

/// Returns the verdict on a device for a source of 32 MiB.
fn verdict(path: &Path) -> Verdict {
    target_verdict(&facts(path), &Wanted { source_bytes: 32 * MIB, ..Wanted::default() })
}

/// Returns the message of the only refusal of this kind.
#[track_caller]
fn refusal(verdict: &Verdict, kind: RefusalKind) -> String {
    let words: Vec<_> = verdict.refusals.iter().filter(|refusal| refusal.kind == kind).collect();
    assert_eq!(words.len(), 1, "{verdict:?}");
    words[0].words.clone()
}

fn writable(path: &Path) -> File {
    File::options().read(true).write(true).open(path).expect("the device can be opened")
}
