//! Tests that devices in use are refused, each with its own message.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use hakobu_core::disk::UseKind;
use hakobu_endpoints::block::contract::{RefusalKind, source_verdict};
use hakobu_endpoints::block::inspect::{KernelDirectories, inspect_open};
use hakobu_testkit::devices::{LoopDevice, mount, run, swap_on};
use hakobu_testkit::partition_table::mbr;
use hakobu_testkit::sshd::no_root;

use super::{MIB, device, facts, refusal, verdict, writable};

/// A shell that has run its commands and waits until it is dropped.
struct Waiting(Child);

impl Waiting {
    fn start(program: &str, arguments: &[&str], commands: &str, device: &Path) -> Self {
        let script = format!("{commands} && echo ready && read -r end");
        let mut child = Command::new(program)
            .args(arguments)
            .args(["sh", "-c", &script, "sh"])
            .arg(device)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the shell starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is a pipe")).read_line(&mut line).expect("it speaks");
        assert_eq!(line, "ready\n", "the commands failed: {commands}");
        Self(child)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn a_mounted_device_is_refused_with_the_place() {
    if no_root() {
        return;
    }
    let (device, place) = (device(), tempfile::tempdir().unwrap());
    run("mkfs.ext4", &["-q"], device.path()).unwrap();
    let mounted = mount(device.path(), place.path(), &[]).unwrap();
    let words = refusal(&verdict(device.path()), RefusalKind::Mounted);
    assert!(words.contains(&format!("is mounted at {}: unmount", place.path().display())), "{words}");
    let source = source_verdict(&facts(device.path()), false);
    assert!(source.refusals.len() == 1 && source_verdict(&facts(device.path()), true).refusals.is_empty());
    drop(mounted);
    // A process that created a mount namespace at that moment sees the mount as long as it lives.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !verdict(device.path()).refusals.is_empty() {
        assert!(Instant::now() < deadline, "{:?}", verdict(device.path()).refusals);
        std::thread::sleep(Duration::from_millis(100));
    }

    let _mounted = mount(device.path(), place.path(), &["-o", "ro"]).unwrap();
    refusal(&verdict(device.path()), RefusalKind::Mounted);
    assert_eq!(source_verdict(&facts(device.path()), false).refusals, []);
}

#[test]
fn a_disk_is_refused_while_its_partition_is_mounted_and_its_neighbour_is_not() {
    if no_root() {
        return;
    }
    let device = LoopDevice::with_options(64 * MIB, &["--partscan"]).unwrap();
    let file = writable(device.path());
    file.write_all_at(&mbr(1, &[(0x83, 2048, 40960), (0x83, 65536, 65536)]), 0).unwrap();
    device.update_partitions().unwrap();
    drop(file);
    let place = tempfile::tempdir().unwrap();
    run("mkfs.ext4", &["-q"], &device.partition(1)).unwrap();
    let _mounted = mount(&device.partition(1), place.path(), &[]).unwrap();
    let words = refusal(&verdict(device.path()), RefusalKind::Mounted);
    assert!(words.contains(&format!("{}p1, a partition of", device.name())), "{words}");
    assert_eq!(verdict(&device.partition(2)).refusals, []);
}

#[test]
fn what_is_mounted_in_another_namespace_is_seen() {
    if no_root() {
        return;
    }
    let (device, place) = (device(), tempfile::tempdir().unwrap());
    run("mkfs.ext4", &["-q"], device.path()).unwrap();
    let commands = format!("mount \"$1\" {}", place.path().display());
    let _waiting =
        Waiting::start("unshare", &["--mount", "--propagation", "private"], &commands, device.path());
    let words = refusal(&verdict(device.path()), RefusalKind::Mounted);
    assert!(words.contains("(as process "), "{words}");
}

#[test]
fn swap_in_use_is_refused() {
    if no_root() {
        return;
    }
    let device = device();
    run("mkswap", &[], device.path()).unwrap();
    let _swap = swap_on(device.path()).unwrap();
    let words = refusal(&verdict(device.path()), RefusalKind::Swap);
    assert!(words.contains(&format!("swapoff {}", device.path().display())), "{words}");
}

#[test]
fn what_is_behind_a_loop_device_is_refused_and_so_is_what_is_mounted_above() {
    if no_root() {
        return;
    }
    let (below, place) = (device(), tempfile::tempdir().unwrap());
    let above = LoopDevice::over(below.path(), &[]).unwrap();
    let words = refusal(&verdict(below.path()), RefusalKind::Loop);
    assert!(words.contains(&format!("losetup -d {}", above.path().display())), "{words}");
    assert_eq!(verdict(above.path()).refusals, []);
    run("mkfs.ext4", &["-q"], above.path()).unwrap();
    let _mounted = mount(above.path(), place.path(), &[]).unwrap();
    refusal(&verdict(below.path()), RefusalKind::Mounted);
}

#[test]
fn a_process_that_writes_is_named_and_one_that_reads_is_none() {
    if no_root() {
        return;
    }
    let device = device();
    let reading = Waiting::start("env", &[], "exec 3<\"$1\"", device.path());
    assert_eq!(verdict(device.path()).refusals, []);
    drop(reading);
    let writing = Waiting::start("env", &[], "exec 3<>\"$1\"", device.path());
    let words = refusal(&verdict(device.path()), RefusalKind::OpenForWriting);
    assert!(words.contains(&format!("process {} (sh)", writing.0.id())), "{words}");
    drop(writing);
    // This process itself does not count.
    let own = writable(device.path());
    assert_eq!(verdict(device.path()).refusals, []);
    let facts = inspect_open(&KernelDirectories::default(), own.as_fd(), device.path()).unwrap();
    assert!(facts.uses.is_empty(), "{:?}", facts.uses);
}

#[test]
fn what_the_kernel_holds_for_somebody_unseen_is_refused() {
    if no_root() {
        return;
    }
    let device = device();
    // Rustix' flag has the value of `open` on every architecture.
    let exclusive = rustix::fs::OFlags::EXCL.bits().cast_signed();
    let holder: File = File::options().read(true).custom_flags(exclusive).open(device.path()).unwrap();
    refusal(&verdict(device.path()), RefusalKind::Claimed);
    // A known writer explains the claim, so there is no second refusal.
    let writer = Waiting::start("env", &[], "exec 3<>\"$1\"", device.path());
    let refusals = verdict(device.path()).refusals;
    let kinds: Vec<_> = refusals.iter().map(|refusal| refusal.kind).collect();
    assert_eq!(kinds, [RefusalKind::OpenForWriting]);
    drop(writer);
    // The holder itself must inspect through its descriptor.
    let facts = inspect_open(&KernelDirectories::default(), holder.as_fd(), device.path()).unwrap();
    assert!(!facts.uses.iter().any(|used| used.kind == UseKind::Claimed));
}
