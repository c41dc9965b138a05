use super::*;

const SATA: &str = "devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0";

fn sata(more: &str) -> Recorded {
    let recorded = Recorded::new(&more.replace("HARDWARE", &format!("sys/{SATA}")));
    recorded.add_disk(&format!("{SATA}/block/sda"), "8:0", 4_000_787_030_016, &[(1, "8:1"), (2, "8:2")]);
    recorded.add(&format!("sys/{SATA}/block/sda/device -> sys/{SATA}"));
    recorded
}

#[test]
fn a_disk_is_called_by_its_world_wide_name() {
    let recorded = sata(
        "HARDWARE/model = WDC WD40EFRX-68W\\n
         HARDWARE/vendor = ATA     \\n
         HARDWARE/wwid = naa.50014ee2b1f0c3d4\\n
         HARDWARE/vpd_pg80 = \\0\u{1}\\0\u{14}     WD-WCC4E0123456",
    );
    recorded.add(&format!("sys/{SATA}/block/sda/queue/rotational = 1\\n"));
    let facts = recorded.facts("8:0");
    assert_eq!((&facts.name[..], facts.size_bytes, facts.rotational), (&b"sda"[..], 4_000_787_030_016, true));
    assert_eq!((facts.logical_sector_bytes, facts.physical_sector_bytes), (512, 4096));
    assert_eq!(facts.model, b"WDC WD40EFRX-68W");
    assert_eq!(facts.serial, b"WD-WCC4E0123456");
    assert_eq!(
        (facts.identity.kind, facts.identity.id.as_str()),
        (IdKind::WorldWideName, "naa.50014ee2b1f0c3d4")
    );
    let partition = recorded.facts("8:2");
    assert_eq!(partition.identity.id, "naa.50014ee2b1f0c3d4-part2");
    assert!(partition.identity.whole.is_some() && partition.size_bytes == 1 << 20);
    assert_eq!(relation(&partition.identity, &facts.identity), DeviceRelation::PartOf);
}

#[test]
fn names_made_of_serial_numbers_are_no_world_wide_names() {
    let recorded = sata(
        "HARDWARE/model = QEMU HARDDISK   \\n
         HARDWARE/wwid = t10.ATA     QEMU HARDDISK                           QM00001             \\n
         HARDWARE/vpd_pg80 = \\0\u{1}\\0\u{14}QM00001             ",
    );
    let facts = recorded.facts("8:0");
    assert_eq!(
        (facts.identity.kind, facts.identity.id.as_str()),
        (IdKind::Serial, "serial.QEMU_HARDDISK_QM00001")
    );
    assert_eq!(facts.wwn, b"");
}

#[test]
fn namespaces_of_one_nvme_device_differ() {
    let recorded = Recorded::new("");
    for (name, number, more) in [
        ("nvme0n1", "259:0", "wwid = eui.0025385b71b0a1c2\\n"),
        ("nvme0n2", "259:1", "nsid = 2\\n"),
        ("nvme0n3", "259:2", "nsid = 3\\n"),
    ] {
        let hardware = "devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0";
        let directory = format!("{hardware}/{name}");
        recorded.add_disk(&directory, number, 1 << 40, &[]);
        recorded.add(&format!("sys/{directory}/{more}\nsys/{directory}/device -> sys/{hardware}"));
    }
    recorded.add(
        "sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/model = Samsung SSD 980  \\n
         sys/devices/pci0000:00/0000:00:1d.0/0000:03:00.0/nvme/nvme0/serial = S649NX0R \\n",
    );
    let ids = ["259:0", "259:1", "259:2"].map(|number| recorded.id(number, "").1);
    assert_eq!(
        ids,
        [
            "eui.0025385b71b0a1c2",
            "serial.Samsung_SSD_980_S649NX0R-ns2",
            "serial.Samsung_SSD_980_S649NX0R-ns3"
        ]
    );
}

#[test]
fn a_stick_has_the_serial_number_of_its_usb_device() {
    let recorded = Recorded::new(
        "sys/devices/pci0/usb2/2-1/idVendor = 0781\\n
         sys/devices/pci0/usb2/2-1/serial = 4C530001\\n
         sys/devices/pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/model = Ultra Fit\\n
         sys/devices/pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0/vendor = SanDisk \\n",
    );
    let hardware = "devices/pci0/usb2/2-1/2-1:1.0/host6/target6:0:0/6:0:0:0";
    recorded.add_disk(&format!("{hardware}/block/sdc"), "8:32", 1 << 34, &[]);
    recorded.add(&format!(
        "sys/{hardware}/block/sdc/device -> sys/{hardware}\nsys/{hardware}/block/sdc/removable = 1\\n"
    ));
    let facts = recorded.facts("8:32");
    assert_eq!(facts.identity.id, "serial.SanDisk_Ultra_Fit_4C530001");
    assert!(facts.removable && facts.model == b"SanDisk Ultra Fit");
}

#[test]
fn the_boot_areas_of_a_card_are_devices_of_their_own() {
    let recorded = Recorded::new("sys/devices/mmc0/name = DG4016\\n\nsys/devices/mmc0/serial = 0x1a2b\\n");
    for (name, number) in [("mmcblk0", "179:0"), ("mmcblk0boot0", "179:32"), ("mmcblk0boot1", "179:64")] {
        recorded.add_disk(&format!("devices/mmc0/block/{name}"), number, 1 << 34, &[]);
        recorded.add(&format!("sys/devices/mmc0/block/{name}/device -> sys/devices/mmc0"));
    }
    let ids = ["179:0", "179:32", "179:64"].map(|number| recorded.id(number, "").1);
    assert_eq!(ids, ["serial.DG4016_0x1a2b", "serial.DG4016_0x1a2b-boot0", "serial.DG4016_0x1a2b-boot1"]);
}

#[test]
fn without_any_number_an_id_is_made_of_size_place_and_table() {
    let made = |place: &str, name: &str, size_bytes: u64, table: &str| {
        let recorded = Recorded::new("");
        recorded.add_disk(&format!("devices/{place}/block/{name}"), "254:0", size_bytes, &[(1, "254:1")]);
        recorded.add(&format!("sys/devices/{place}/block/{name}/device -> sys/devices/{place}"));
        let (kind, id) = recorded.id("254:0", table);
        assert!(kind == IdKind::Made && id.len() == "made.".len() + 16, "{id}");
        assert_eq!(recorded.id("254:1", table).1, format!("{}-part1", recorded.id("254:0", "").1));
        id
    };
    let id = made("virtio1", "vda", 1 << 30, "t");
    assert_eq!(id, made("virtio1", "vdb", 1 << 30, "t"), "the kernel's name does not count");
    for other in [
        made("virtio2", "vda", 1 << 30, "t"),
        made("virtio1", "vda", 1 << 31, "t"),
        made("virtio1", "vda", 1 << 30, "u"),
    ] {
        assert_ne!(id, other);
    }
}

#[test]
fn volumes_are_called_by_what_their_managers_say() {
    let recorded = Recorded::new(
        "sys/devices/virtual/block/dm-0/dm/uuid = LVM-8kQ0abc\\n
         sys/devices/virtual/block/md127/md/uuid = 0123-abcd\\n",
    );
    recorded.add_disk("devices/virtual/block/dm-0", "253:0", 1 << 30, &[]);
    recorded.add_disk("devices/virtual/block/md127", "9:127", 1 << 30, &[]);
    assert_eq!(recorded.id("253:0", ""), (IdKind::Volume, "dm.LVM-8kQ0abc".into()));
    assert_eq!(recorded.id("9:127", ""), (IdKind::Volume, "md.0123-abcd".into()));
}

#[test]
fn the_list_has_what_people_call_disks() {
    let recorded = Recorded::new("sys/devices/virtual/block/loop0/loop/backing_file = /img\\n");
    let size_bytes = 1 << 30;
    for (name, number, size_bytes) in [
        ("sdaa", "65:160", size_bytes),
        ("sdb", "8:16", size_bytes),
        ("sda", "8:0", size_bytes),
        ("sdc", "8:32", 0),
        ("ram0", "1:0", size_bytes),
        ("loop0", "7:0", size_bytes),
        ("loop1", "7:1", size_bytes),
        ("zram0", "251:0", size_bytes),
        ("nvme0c0n1", "259:7", size_bytes),
        ("fd0", "2:0", size_bytes),
    ] {
        recorded.add_disk(&format!("devices/virtual/block/{name}"), number, size_bytes, &[]);
    }
    recorded.add("sys/devices/virtual/block/nvme0c0n1/hidden = 1\\n");
    let disks = all_disks(&recorded.places).unwrap();
    let names: Vec<_> = disks.iter().map(|disk| String::from_utf8_lossy(&disk.name).into_owned()).collect();
    assert_eq!(names, ["fd0", "loop0", "sda", "sdb", "sdaa", "zram0"]);
    // None of them has a node, and the floppy drive is never opened.
    assert!(disks.iter().all(|disk| disk.notes[0].starts_with("what is on it cannot be seen: ")));
    assert!(disks.iter().all(|disk| disk.contents_hidden));
    assert!(disks[0].notes[0].contains("floppy") && disks[2].path == b"/dev/sda");
    assert!(all_disks(&KernelDirectories { sys: "/nowhere".into(), ..recorded.places }).is_err());
}

#[test]
fn a_node_that_is_another_device_is_not_read() {
    let recorded = Recorded::new("dev/sda = a file");
    recorded.add_disk("devices/virtual/block/sda", "8:0", 1 << 30, &[]);
    let disks = all_disks(&recorded.places).unwrap();
    assert!(disks[0].notes[0].contains("another device than 8:0"), "{:?}", disks[0].notes);
}

#[test]
fn twins_are_told_unless_they_are_one() {
    let disk = |number: u32, uuid: &str| {
        let signature =
            Signature { kind: SignatureKind::Ext4, offset_bytes: 0, uuid: uuid.into(), label: Vec::new() };
        let mut disk =
            DeviceFacts { name: vec![b'a' + number as u8], contents: vec![signature], ..Default::default() };
        disk.identity.boot_id = "this".into();
        disk.identity.number.minor = number;
        disk
    };
    let obstacles = |disks: &[DeviceFacts]| {
        let mut disks = disks.to_vec();
        boot::find_doubles(&mut disks);
        disks.into_iter().map(|disk| disk.boot.obstacles).collect::<Vec<_>>()
    };
    let twin = |name: u8| vec![BootObstacle::SameUuid { uuid: "x1".into(), disk: vec![b'a' + name] }];
    assert_eq!(obstacles(&[disk(0, "x1"), disk(1, "x1"), disk(2, "y2")]), [twin(1), twin(0), vec![]]);
    // A volume on the disk and the members of a RAID share it legitimately, and an empty identity is none.
    let mut above = disk(1, "x1");
    above.identity.below = vec![disk(0, "").identity.number];
    let mut member = disk(2, "x1");
    let raid = Signature { kind: SignatureKind::Md, ..member.contents[0].clone() };
    member.contents.push(raid);
    assert_eq!(obstacles(&[disk(0, "x1"), above, member]), [vec![], vec![], vec![]]);
    assert_eq!(obstacles(&[disk(0, "0000-0000"), disk(1, "0000-0000")]), [vec![], vec![]]);
    assert_eq!(obstacles(&[disk(0, ""), disk(1, "")]), [vec![], vec![]]);
    // However many twins there are, each disk lists only a few.
    let many: Vec<_> = (0..100).map(|number| disk(number, "x1")).collect();
    assert!(obstacles(&many).iter().all(|obstacles| obstacles.len() <= 16));
}

#[test]
fn a_device_that_may_not_be_opened_comes_with_advice_for_devices() {
    for errno in [1, 13] {
        let denied = std::io::Error::from_raw_os_error(errno);
        let (root, user) = (not_opened(&denied, true), not_opened(&denied, false));
        assert!(root.contains("container") && !root.contains("lsattr"), "{root}");
        assert!(user.contains("as root") && !user.contains("lsattr"), "{user}");
    }
    assert_eq!(not_opened(&std::io::Error::from_raw_os_error(6), true), "no such device or address");
}
