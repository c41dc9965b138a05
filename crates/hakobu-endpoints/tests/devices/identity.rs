//! Tests with one device that has several names.

use std::os::fd::AsFd;
use std::path::Path;

use hakobu_core::disk::{DeviceIdentity, IdKind};
use hakobu_endpoints::block::contract::{RefusalKind, Wanted, target_verdict};
use hakobu_endpoints::block::inspect::identity_of;
use hakobu_testkit::devices::LoopDevice;
use hakobu_testkit::partition_table::mbr;
use hakobu_testkit::sshd::no_root;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use std::os::unix::fs::FileExt;

use super::{MIB, device, facts, refusal, writable};

fn refused_as(path: &Path, source: &DeviceIdentity, kind: RefusalKind) {
    let wanted = Wanted { source_identity: Some(source.clone()), source_bytes: 1, ..Wanted::default() };
    refusal(&target_verdict(&facts(path), &wanted), kind);
}

#[test]
fn another_node_and_a_link_are_the_same_device() {
    if no_root() {
        return;
    }
    let device = device();
    let source = identity_of(writable(device.path()).as_fd()).unwrap();
    assert_eq!(source, facts(device.path()).identity);
    let place = tempfile::tempdir().unwrap();
    let (node, link) = (place.path().join("node"), place.path().join("link"));
    let number = makedev(source.number.major, source.number.minor);
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR | Mode::WUSR, number).unwrap();
    std::os::unix::fs::symlink(device.path(), &link).unwrap();
    for path in [device.path(), &node, &link] {
        refused_as(path, &source, RefusalKind::IsSource);
        assert_eq!(facts(path).identity, source);
    }
}

#[test]
fn two_devices_over_one_file_are_the_same_and_two_over_two_are_not() {
    if no_root() {
        return;
    }
    let (first, stranger) = (device(), device());
    let second = LoopDevice::over(first.file(), &[]).unwrap();
    let source = facts(first.path()).identity;
    refused_as(second.path(), &source, RefusalKind::IsSource);
    let wanted = Wanted { source_identity: Some(source), source_bytes: 1, ..Wanted::default() };
    assert_eq!(target_verdict(&facts(stranger.path()), &wanted).refusals, []);
}

#[test]
fn a_partition_is_not_a_target_for_its_disk_nor_the_disk_for_it() {
    if no_root() {
        return;
    }
    let device = LoopDevice::with_options(32 * MIB, &["--partscan"]).unwrap();
    let file = writable(device.path());
    file.write_all_at(&mbr(1, &[(0x83, 2048, 2048), (0x83, 4096, 2048)]), 0).unwrap();
    device.update_partitions().unwrap();
    let disk = facts(device.path()).identity;
    let partition = facts(&device.partition(1)).identity;
    refused_as(&device.partition(1), &disk, RefusalKind::PartOfSource);
    refused_as(device.path(), &partition, RefusalKind::HoldsSource);
    let wanted = Wanted { source_identity: Some(partition), source_bytes: 1, ..Wanted::default() };
    assert_eq!(target_verdict(&facts(&device.partition(2)), &wanted).refusals, []);
}

#[test]
fn a_device_over_the_source_is_a_part_of_it() {
    if no_root() {
        return;
    }
    let below = device();
    let above = LoopDevice::over(below.path(), &[]).unwrap();
    refused_as(above.path(), &facts(below.path()).identity, RefusalKind::PartOfSource);
}

#[test]
fn a_made_id_changes_with_the_table_and_its_place_does_not() {
    if no_root() {
        return;
    }
    let device = device();
    let before = facts(device.path()).identity;
    assert_eq!(before.kind, IdKind::Made);
    writable(device.path()).write_all_at(&mbr(0x1234_5678, &[(0x83, 2048, 2048)]), 0).unwrap();
    let after = facts(device.path()).identity;
    assert_ne!(before.id, after.id);
    assert_eq!(before.place_id, after.place_id);
}
