//! Copies between disks and images, on one machine and between machines.

use std::fs;
use std::os::unix::fs::MetadataExt;

use hakobu_testkit::sshd::no_root;

use crate::bench::*;
use crate::program::*;

#[test]
fn a_disk_onto_a_disk() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (way, sector_bytes) in Way::ALL.into_iter().zip([512, 4096, 512, 4096]) {
        let place = place();
        let content = content_with_zeros(33 * MIB, 1);
        let source = Disk::with(place.path(), "source", &content, sector_bytes);
        // The target is larger and has other content.
        let target = Disk::full_of(place.path(), "target", 0xaa, 35 * MIB, sector_bytes);
        // The ID of a disk without a serial number depends on its content, so it is read before the copy.
        let disks = [("source", source.id()), ("target", target.id())];
        let ran = Copy::new().to(&host).args(way.typed(&host, &source.path, &target.path)).run_to(0);
        ran.assert_copied(&content);
        for (end, id) in disks {
            assert_eq!(ran.report[end]["identity"]["id"], id, "{way:?}: {:#}", ran.report);
        }
        let found = target.bytes();
        assert_bytes(&found[..content.len()], &content);
        assert!(found[content.len()..].iter().all(|byte| *byte == 0xaa), "{way:?}: what lies behind");
        assert!(target.remembered().is_empty());
    }
    host.wait_for_no_agent();
}

#[test]
fn a_disk_into_an_image() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (way, sector_bytes) in Way::ALL.into_iter().zip([4096, 512, 4096, 512]) {
        let place = place();
        let content = content_with_zeros(33 * MIB + 12288, 2);
        let source = Disk::with(place.path(), "source", &content, sector_bytes);
        let image = place.path().join("disk.img");
        let ran = Copy::new().to(&host).args(way.typed(&host, &source.path, &image)).run_to(0);
        ran.assert_copied(&content);
        assert_bytes(&fs::read(&image).unwrap(), &content);
        let blocks = fs::metadata(&image).unwrap().blocks() * 512;
        assert!(blocks <= content.len() as u64 - zeros_in(&content) + PIECE, "{way:?}: {blocks}");
        assert!(drafts(place.path()).is_empty());
    }
}

#[test]
fn an_image_onto_a_disk() {
    if no_root() {
        return;
    }
    let host = Host::up();
    for (way, sector_bytes) in Way::ALL.into_iter().zip([4096, 512, 4096, 512]) {
        let place = place();
        let content = content_with_zeros(33 * MIB + 1234, 3);
        let image = place.path().join("disk.img");
        write_sparse(&image, &content);
        let target = Disk::full_of(place.path(), "target", 0xaa, 34 * MIB, sector_bytes);
        let ran = Copy::new().to(&host).args(way.typed(&host, &image, &target.path)).run_to(0);
        ran.assert_copied(&content);
        let found = target.bytes();
        assert_bytes(&found[..content.len()], &content);
        assert!(found[content.len()..].iter().all(|byte| *byte == 0xaa), "{way:?}: what lies behind");
    }
}
