use hakobu_core::disk::{
    BackupTable, Boot, BootObstacle, DeviceIdentity, DeviceNumber, DeviceUse, IdKind, PartitionTable,
    SignatureKind, TableKind,
};
use serde_json::Value;

use super::*;

fn signature(kind: SignatureKind, label: &str) -> Signature {
    Signature { kind, offset_bytes: 1080, uuid: "u-u-i-d".into(), label: label.into() }
}

fn used(device: &str, kind: UseKind) -> DeviceUse {
    DeviceUse { device: device.into(), kind }
}

fn mounted(path: &str, read_only: bool) -> UseKind {
    UseKind::Mounted { path: path.into(), file_system: "ext4".into(), read_only }
}

fn holder(name: &str, label: &str, kind: HolderKind) -> UseKind {
    UseKind::Holder { name: name.into(), label: label.into(), kind }
}

fn partition(number: u32, label: &str, found: Signature) -> Partition {
    Partition {
        number,
        name: format!("sda{number}").into(),
        size_bytes: u64::from(number) << 29,
        label: label.into(),
        contents: vec![found],
        ..Partition::default()
    }
}

/// A disk as a server has it: to start from, with the system and a volume.
fn system() -> DeviceFacts {
    let backup = Some(BackupTable { offset_bytes: 512, at_end: false });
    DeviceFacts {
        name: b"sda".to_vec(),
        path: b"/dev/sda".to_vec(),
        identity: DeviceIdentity {
            id: "naa.5000c500a1b2c3d4".into(),
            kind: IdKind::WorldWideName,
            number: DeviceNumber { major: 8, minor: 0 },
            ..DeviceIdentity::default()
        },
        size_bytes: 4_000_787_030_016,
        logical_sector_bytes: 512,
        physical_sector_bytes: 4096,
        model: b"WDC WD40EFRX-68WT0N0 and a lot more".to_vec(),
        table: Some(PartitionTable {
            kind: TableKind::Gpt,
            uuid: "t-t".into(),
            sector_bytes: 512,
            backup,
            faults: vec![TableFault::BeyondEnd],
        }),
        partitions: vec![
            partition(1, "EFI", signature(SignatureKind::Fat, "")),
            partition(2, "", signature(SignatureKind::Lvm, "")),
        ],
        contents: vec![signature(SignatureKind::Gpt, "")],
        uses: vec![
            used("sda1", mounted("/boot/efi", false)),
            used("sda1", mounted("/mnt/efi", true)),
            used("sda2", holder("dm-0", "vg-root", HolderKind::Lvm)),
            used("dm-0", mounted("/", false)),
        ],
        boot: Boot {
            efi: true,
            bios: true,
            obstacles: vec![BootObstacle::BackupNotAtEnd],
            ..Boot::default()
        },
        ..DeviceFacts::default()
    }
}

fn blank(name: &str) -> DeviceFacts {
    let mut facts = DeviceFacts { name: name.into(), size_bytes: 512, ..DeviceFacts::default() };
    facts.path = format!("/dev/{name}").into();
    facts.identity.id = "made.0123456789abcdef".into();
    facts
}

#[test]
fn a_table_has_a_line_for_each_disk_and_partition() {
    let expected = "\
ID                     DEVICE         SIZE  MODEL                          SECTOR    CONTENTS  USED BY                                         BOOT
naa.5000c500a1b2c3d4   /dev/sda    4.00 TB  WDC WD40EFRX-68WT0N0 and a l…  512/4096  GPT       dm-0 mounted at /                               EFI, BIOS
  part 1                 /dev/sda1  537 MB  EFI                                      FAT       mounted at /boot/efi and /mnt/efi (read-only)
  part 2                 /dev/sda2 1.07 GB  -                                        LVM       LVM vg-root
made.0123456789abcdef  /dev/loop0    512 B  /img                           0         -         -                                               -

/dev/sda: the second copy of the GPT is not at the end of the disk (sgdisk -e mends it)
/dev/sda: a partition lies beyond the end of the disk
";
    let mut looped = blank("loop0");
    looped.identity.backing_path = b"/img".to_vec();
    let table = table(&[system(), looped], None);
    assert_eq!(
        table.lines().map(squeezed).collect::<Vec<_>>(),
        expected.lines().map(squeezed).collect::<Vec<_>>()
    );
    // Columns begin below their headings.
    let lines: Vec<Vec<char>> = table.lines().take(5).map(|line| line.chars().collect()).collect();
    for heading in ["DEVICE", "MODEL", "SECTOR", "CONTENTS", "USED BY"] {
        let at = table.lines().next().unwrap().find(heading).unwrap();
        assert!(lines[1..].iter().all(|line| line[at - 1] == ' '), "{heading}\n{table}");
    }
}

/// A line with one blank in the place of several.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_use_has_words_of_its_own() {
    let kinds = [
        (UseKind::Swap, "swap"),
        (holder("md127", "", HolderKind::Md), "RAID md127"),
        (holder("dm-1", "safe", HolderKind::Crypt), "encrypted safe"),
        (holder("dm-2", "mpatha", HolderKind::Multipath), "multipath mpatha"),
        (holder("bcache0", "", HolderKind::Bcache), "volume bcache0"),
        (UseKind::Loop { name: b"loop7".to_vec() }, "loop7"),
        (UseKind::Zfs { pool: b"tank".to_vec(), imported: Some(true) }, "ZFS pool tank"),
        (UseKind::Zfs { pool: b"tank".to_vec(), imported: Some(false) }, "ZFS pool tank (not imported)"),
        (UseKind::Zfs { pool: Vec::new(), imported: None }, "ZFS pool of unknown name (may be imported)"),
        (UseKind::OpenForWriting { pid: 7, command: b"qemu".to_vec() }, "process 7 (qemu)"),
        (UseKind::Claimed, "held by the kernel"),
    ];
    for (kind, words) in kinds {
        let disk = DeviceFacts { uses: vec![used("sdb", kind)], ..blank("sdb") };
        assert_eq!(disk_row(&disk)[6], words);
    }
}

#[test]
fn what_could_not_be_seen_is_no_nothing() {
    let hidden = |name: &str| {
        let mut disk = DeviceFacts { contents_hidden: true, ..blank(name) };
        disk.note("permission denied");
        disk
    };
    assert_eq!(disk_row(&hidden("sda"))[5], "?");
    // A remark on all disks is printed once.
    assert!(table(&[hidden("sda"), hidden("sdb")], None).ends_with("\n\nall: permission denied\n"));
    let some = table(&[hidden("sda"), hidden("sdb"), blank("sdc")], None);
    assert!(some.ends_with("\n\n/dev/sda, /dev/sdb: permission denied\n"), "{some}");
    assert!(table(&[], None).ends_with("\nno disks are to be seen\n"));
}

/// A disk of which all texts are hostile.
fn hostile() -> DeviceFacts {
    let evil = "x\x1b[2J\n\u{202e}";
    let bytes = [evil.as_bytes(), b"\xff"].concat();
    let mut disk = system();
    (disk.path, disk.name, disk.model) = (bytes.clone(), bytes.clone(), bytes.clone());
    disk.identity.id = evil.into();
    disk.partitions[0].label = evil.into();
    disk.partitions[0].name = bytes.clone();
    disk.contents[0].label = bytes.clone();
    disk.notes.push(evil.into());
    disk.boot.obstacles.push(BootObstacle::SameUuid { uuid: evil.into(), disk: bytes.clone() });
    for kind in [
        UseKind::OpenForWriting { pid: 1, command: bytes.clone() },
        UseKind::Mounted { path: bytes.clone(), file_system: evil.into(), read_only: false },
        UseKind::Holder { name: bytes.clone(), label: bytes.clone(), kind: HolderKind::Md },
        UseKind::Loop { name: bytes.clone() },
        UseKind::Zfs { pool: bytes.clone(), imported: None },
    ] {
        disk.uses.push(DeviceUse { device: bytes.clone(), kind });
    }
    disk
}

#[test]
fn nothing_that_a_disk_says_moves_the_cursor() {
    let unsafe_characters = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    let (table, json) = (table(&[hostile()], None), json(Some("h\x1b"), &[hostile()]).unwrap());
    assert!(!table.contains(unsafe_characters), "{table:?}");
    assert!(!json.contains(unsafe_characters), "{json:?}");
    // One disk, two partitions, and the remarks: no name makes a line of its own.
    assert_eq!(table.lines().count(), 4 + 1 + 4, "{table}");
}

#[test]
fn json_has_everything_under_the_documented_names() {
    let value: Value = serde_json::from_str(&json(None, &[system(), hostile()]).unwrap()).unwrap();
    assert_eq!((&value["schema"], &value["host"]), (&"hakobu.disks/1".into(), &Value::Null));
    let disk = &value["disks"][0];
    assert_eq!(disk["id"], "naa.5000c500a1b2c3d4");
    assert_eq!((&disk["id_kind"], &disk["number"]), (&"world_wide_name".into(), &"8:0".into()));
    assert_eq!((&disk["table"]["kind"], &disk["table"]["backup_at_end"]), (&"gpt".into(), &false.into()));
    assert_eq!(disk["partitions"][0]["contents"][0]["kind"], "FAT");
    assert_eq!(disk["boot"]["obstacles"][0]["obstacle"], "backup_not_at_end");
    let uses: Vec<_> = disk["uses"].as_array().unwrap().iter().map(|used| used["use"].clone()).collect();
    assert_eq!(uses, ["mounted", "mounted", "lvm", "mounted"]);
    assert_eq!((&disk["uses"][2]["volume"], &disk["uses"][2]["label"]), (&"dm-0".into(), &"vg-root".into()));
    assert_eq!(value["disks"][1]["model_base64"], "eBtbMkoK4oCu/w==");
    // The page that describes the list names every field.
    let page = include_str!("../../../../../docs/book/disks.md");
    let mut fields = Vec::new();
    collect(&value, &mut fields);
    for field in fields.iter().filter(|field| !field.ends_with("_base64")) {
        assert!(page.contains(&format!("`{field}`")), "docs/book/disks.md says nothing of {field}");
    }
}

fn collect(value: &Value, fields: &mut Vec<String>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, fields)),
        Value::Object(object) => object.iter().for_each(|(name, value)| {
            fields.push(name.clone());
            collect(value, fields);
        }),
        _ => {}
    }
}

/// A UUID that several disks share is reported once, with the part that has it.
#[test]
fn a_uuid_that_several_disks_have_is_one_line() {
    let twin = |uuid: &str, disk: &str| BootObstacle::SameUuid { uuid: uuid.into(), disk: disk.into() };
    let disk = |name: &str, others: [&str; 2]| {
        let mut disk = system();
        (disk.path, disk.name) = (format!("/dev/{name}").into(), name.into());
        disk.partitions[0].contents[0].uuid = "aa-1".into();
        disk.partitions[1].uuid = "bb-2".into();
        disk.boot.obstacles =
            others.iter().flat_map(|other| [twin("aa-1", other), twin("bb-2", other)]).collect();
        disk
    };
    let text = table(&[disk("a", ["b", "c"]), disk("b", ["a", "c"]), disk("c", ["a", "b"])], None);
    let same: Vec<_> = text.lines().filter(|line| line.contains("same UUID")).collect();
    assert_eq!(
        same,
        [
            "/dev/a, /dev/b, /dev/c: have FAT in partition 1 with the same UUID, aa-1",
            "/dev/a, /dev/b, /dev/c: have a partition 2 with the same UUID, bb-2",
        ],
        "{text}"
    );
}

/// The ID of a partition can be typed as it stands there, or follows from the disk's.
#[test]
fn a_partitions_id_is_whole_where_it_is_another_word() {
    let mut disk = system();
    disk.identity.place_id = "made.1".into();
    disk.identity.id = "made.2".into();
    assert!(table(&[disk], None).contains("  made.1-part1"));
}

#[test]
fn a_narrow_terminal_gets_several_lines_for_a_disk() {
    let mut looped = blank("loop0");
    looped.identity.backing_path = b"/img".to_vec();
    let disks = [system(), looped];
    let narrow = table(&disks, Some(80));
    let expected = "\
DEVICE          SIZE  CONTENTS
    ID  MODEL  SECTOR  BOOT  USED BY
/dev/sda     4.00 TB  GPT
    naa.5000c500a1b2c3d4  WDC WD40EFRX-68WT0N0 and a l…  512/4096 B  EFI, BIOS
    dm-0 mounted at /
  /dev/sda1   537 MB  FAT
    part 1  EFI
    mounted at /boot/efi and /mnt/efi (read-only)
";
    assert!(narrow.starts_with(expected), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    assert!(narrow.contains("/dev/loop0     512 B  -\n    made.0123456789abcdef  /img  0 B\n"), "{narrow}");
    // Where it fits, and where nobody looks at it on a terminal, it is one line each.
    assert_eq!(table(&disks, Some(200)), table(&disks, None));
}
