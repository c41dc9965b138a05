//! Tests of the facts about real devices.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use hakobu_core::disk::{BootObstacle, SignatureKind};
use hakobu_core::error::ErrorKind;
use hakobu_endpoints::block::contract::{RefusalKind, Wanted, target_verdict};
use hakobu_endpoints::block::inspect::{KernelDirectories, all_disks, inspect_device, is_stray};
use hakobu_testkit::bad_medium::BadMedium;
use hakobu_testkit::devices::{LoopDevice, run};
use hakobu_testkit::partition_table::{EFI_TYPE, Gpt, GptPartition, LINUX_TYPE};
use hakobu_testkit::sshd::no_root;

use super::{MIB, device, facts, refusal, verdict, writable};

fn table(sector_bytes: u64) -> Gpt {
    let partition = |kind, number: u8, first_mib, last_mib| GptPartition {
        kind,
        guid: [number; 16],
        first: first_mib * MIB / sector_bytes,
        last: last_mib * MIB / sector_bytes - 1,
        name: format!("part {number}"),
    };
    let partitions = vec![partition(EFI_TYPE, 1, 1, 4), partition(LINUX_TYPE, 2, 4, 28)];
    Gpt { sector_bytes, disk_bytes: 32 * MIB, disk: [9; 16], partitions }
}

#[test]
fn a_blank_device_is_told_as_it_is_and_accepted() {
    if no_root() {
        return;
    }
    let device = device();
    let facts = facts(device.path());
    assert_eq!((facts.size_bytes, facts.logical_sector_bytes, facts.read_only), (32 * MIB, 512, false));
    assert_eq!(
        (facts.name, facts.path.as_slice()),
        (device.name().into_bytes(), device.path().as_os_str().as_encoded_bytes())
    );
    assert!(facts.contents.is_empty() && facts.uses.is_empty() && facts.table.is_none(), "{:?}", facts.uses);
    assert!(verdict(device.path()).error("checking").is_none());
}

#[test]
fn the_kernel_and_we_read_the_same_partitions() {
    if no_root() {
        return;
    }
    for (option, sector_bytes) in [("512", 512), ("4096", 4096)] {
        let device = LoopDevice::with_options(32 * MIB, &["--partscan", "--sector-size", option]).unwrap();
        // Held open, so that the kernel keeps what it cached through this descriptor.
        let file = writable(device.path());
        assert_eq!(facts(device.path()).partitions, []);
        table(sector_bytes).write(&file).unwrap();
        file.sync_all().unwrap();
        device.update_partitions().unwrap();
        file.read_exact_at(&mut vec![0; 8 * MIB as usize], 0).unwrap();
        run("mkswap", &["--label", "sw"], &device.partition(2)).unwrap();
        let disk = facts(device.path());
        assert_eq!(disk.partitions.len(), 2);
        for partition in &disk.partitions {
            assert_eq!(partition.name, format!("{}p{}", device.name(), partition.number).into_bytes());
            let own = facts(&device.partition(partition.number));
            assert_eq!(
                (own.size_bytes, &own.contents),
                (partition.size_bytes, &partition.contents),
                "{:?}",
                own.notes
            );
            assert_eq!(own.logical_sector_bytes, sector_bytes as u32);
        }
        assert_eq!(disk.partitions[1].contents[0].label, b"sw");
        assert!(disk.boot.efi && disk.boot.obstacles.is_empty(), "{:?}", disk.boot);
    }
}

#[test]
fn a_table_for_other_sectors_is_read_and_refused_as_a_source_would_be() {
    if no_root() {
        return;
    }
    let device = device();
    table(4096).write(&writable(device.path())).unwrap();
    let facts = facts(device.path());
    assert_eq!(facts.partitions.len(), 2);
    assert_eq!(facts.boot.obstacles, [BootObstacle::SectorSize { table_bytes: 4096, device_bytes: 512 }]);
    let wanted = Wanted {
        source_bytes: 1,
        source_logical_sector_bytes: Some(4096),
        source_has_partition_table: true,
        ..Wanted::default()
    };
    refusal(&target_verdict(&facts, &wanted), RefusalKind::SectorSize);
}

#[test]
fn what_holds_a_file_system_needs_consent() {
    if no_root() {
        return;
    }
    let device = device();
    run("mkfs.ext4", &["-q", "-L", "precious"], device.path()).unwrap();
    let facts = facts(device.path());
    assert_eq!(facts.contents[0].kind, SignatureKind::Ext4);
    let consent = verdict(device.path()).consent.unwrap();
    assert_eq!((consent.holds, &consent.id), (vec!["ext4 \"precious\"".into()], &facts.identity.id));
    let confirmed = Some(consent.id);
    let wanted = Wanted { source_bytes: 32 * MIB, confirmed, ..Wanted::default() };
    assert!(target_verdict(&facts, &wanted).error("checking").is_none());
}

#[test]
fn read_only_and_small_devices_are_refused() {
    if no_root() {
        return;
    }
    let device = LoopDevice::with_options(32 * MIB, &["--read-only"]).unwrap();
    refusal(&verdict(device.path()), RefusalKind::ReadOnly);
    let small = LoopDevice::new(32 * MIB - 512).unwrap();
    refusal(&verdict(small.path()), RefusalKind::TooSmall);
}

#[test]
fn a_device_that_is_not_set_up_has_no_medium() {
    if no_root() {
        return;
    }
    // A fixed number, because `losetup --find` returns the lowest free one to any caller.
    let device = Path::new("/dev/loop2900");
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    File::create_new(&image).unwrap().set_len(32 * MIB).unwrap();
    // Setting it up creates its node.
    run("losetup", &[device.to_str().unwrap()], &image).unwrap();
    run("losetup", &["--detach"], device).unwrap();
    // Programs that inspect the new device keep it open for a moment.
    let deadline = Instant::now() + Duration::from_secs(30);
    while facts(device).size_bytes != 0 {
        assert!(Instant::now() < deadline, "the device is still set up");
        thread::sleep(Duration::from_millis(20));
    }
    refusal(&verdict(device), RefusalKind::NoMedium);
}

#[test]
fn what_is_no_device_cannot_be_inspected() {
    for path in ["/dev/null", "/etc/passwd", "/"] {
        assert_eq!(inspect_device(path.as_ref()).unwrap_err().kind, ErrorKind::Unsupported, "{path}");
    }
    assert_eq!(inspect_device("/dev/none".as_ref()).unwrap_err().kind, ErrorKind::NotFound);
}

#[test]
fn a_mistyped_device_is_told_from_a_file_elsewhere() {
    let stray = |path: &str| is_stray(&KernelDirectories::default(), path.as_ref()).unwrap();
    for path in ["/dev/hakobu-no-such-device", "/dev/../dev/hakobu-no-such", "/dev"] {
        assert!(stray(path), "{path}");
    }
    for path in ["/dev/null", "/dev/shm/hakobu-no-such", "/tmp/hakobu-no-such", "relative"] {
        assert!(!stray(path), "{path}");
    }
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev", place.path().join("link")).unwrap();
    assert!(is_stray(&KernelDirectories::default(), &place.path().join("link/typo")).unwrap());
    assert!(!is_stray(&KernelDirectories::default(), &place.path().join("none/typo")).unwrap());
    assert!(stray("/dev/none/at/all"));
}

#[test]
fn the_list_has_loop_devices_that_are_in_use() {
    if no_root() {
        return;
    }
    let device = device();
    run("mkswap", &[], device.path()).unwrap();
    let disks = all_disks(&KernelDirectories::default()).unwrap();
    let listed = disks.iter().find(|disk| disk.name == device.name().into_bytes()).unwrap();
    let alone = facts(device.path());
    assert_eq!((&listed.identity, &listed.contents), (&alone.identity, &alone.contents));
    assert!(disks.iter().all(|disk| disk.size_bytes > 0));
}

/// Other tests would be delayed by this one, so it does not run beside them.
#[test]
#[ignore = "long"]
fn long_a_disk_that_does_not_answer_is_listed_all_the_same() {
    if no_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let medium = BadMedium::mount(place.path(), 8 * MIB, &[]).unwrap();
    let device = LoopDevice::over(medium.file(), &["--direct-io=on"]).unwrap();
    medium.set_silent(true);
    let listed = all_disks(&KernelDirectories::default());
    let alone = inspect_device(device.path());
    medium.set_silent(false);
    let disk = listed.unwrap().into_iter().find(|disk| disk.name == device.name().into_bytes()).unwrap();
    assert!(disk.contents_hidden && disk.size_bytes == 8 * MIB, "{disk:?}");
    assert!(disk.notes.iter().any(|note| note.contains("it has not answered within")), "{:?}", disk.notes);
    let error = alone.unwrap_err();
    assert!(error.detail.contains("it has not answered within"), "{error}");
}

#[test]
fn content_without_a_mark_needs_consent() {
    if no_root() {
        return;
    }
    let device = device();
    let file = writable(device.path());
    for at in [0, 16 * MIB, 32 * MIB - 4096] {
        file.write_all_at(&[7; 1], at + 9).unwrap();
        file.sync_all().unwrap();
        let facts = facts(device.path());
        let consent = verdict(device.path()).consent;
        file.write_all_at(&[0; 1], at + 9).unwrap();
        match at {
            // Samples cannot find a single byte on a disk.
            at if at == 16 * MIB => assert!(facts.contents.is_empty() && consent.is_none()),
            _ => {
                assert_eq!(facts.contents[0].kind, SignatureKind::Unknown);
                let words = consent.unwrap().refusal.words;
                assert!(words.contains("holds data: data of an unknown kind"), "{words}");
            }
        }
    }
}
