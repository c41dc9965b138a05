use super::*;

/// Returns two disks in a RAID with an encrypted volume and a mounted logical volume on it, and a third one with swap.
fn stack() -> Recorded {
    let recorded = Recorded::new(
        "sys/devices/virtual/block/md0/md/level = raid1\\n
         sys/devices/virtual/block/dm-0/dm/uuid = CRYPT-LUKS2-77-safe\\n
         sys/devices/virtual/block/dm-0/dm/name = safe\\n
         sys/devices/virtual/block/dm-1/dm/uuid = LVM-abc\\n
         sys/devices/virtual/block/dm-1/dm/name = vg-data\\n
         sys/devices/x/block/sda/sda2/holders/md0 -> sys/devices/virtual/block/md0
         sys/devices/y/block/sdb/holders/md0 -> sys/devices/virtual/block/md0
         sys/devices/virtual/block/md0/slaves/sda2 -> sys/devices/x/block/sda/sda2
         sys/devices/virtual/block/md0/slaves/sdb -> sys/devices/y/block/sdb
         sys/devices/virtual/block/md0/holders/dm-0 -> sys/devices/virtual/block/dm-0
         sys/devices/virtual/block/dm-0/slaves/md0 -> sys/devices/virtual/block/md0
         sys/devices/virtual/block/dm-0/holders/dm-1 -> sys/devices/virtual/block/dm-1
         sys/devices/virtual/block/dm-1/slaves/dm-0 -> sys/devices/virtual/block/dm-0
         sys/class/block/sdc1 -> sys/devices/z/block/sdc/sdc1
         proc/swaps = Filename Type Size Used Priority\\n/dev/sdc1 partition 1 0 -2\\n/swap.img file 1 0 -3\\n
         proc/self/mountinfo = 30 1 8:1 / /boot rw - ext4 /dev/sda1 rw\\n31 1 253:1 / /data rw - xfs /dev/dm-1 ro\\n",
    );
    recorded.add_disk("devices/x/block/sda", "8:0", 1 << 30, &[(1, "8:1"), (2, "8:2")]);
    recorded.add_disk("devices/y/block/sdb", "8:16", 1 << 30, &[(1, "8:17")]);
    recorded.add_disk("devices/z/block/sdc", "8:32", 1 << 30, &[(1, "8:33")]);
    recorded.add_disk("devices/virtual/block/md0", "9:0", 1 << 30, &[]);
    recorded.add_disk("devices/virtual/block/dm-0", "253:0", 1 << 30, &[]);
    recorded.add_disk("devices/virtual/block/dm-1", "253:1", 1 << 30, &[]);
    recorded
}

/// Returns each use as the device in use and a word.
fn uses(facts: &DeviceFacts) -> Vec<String> {
    let words = |used: &DeviceUse| {
        let kind = match &used.kind {
            UseKind::Mounted { path, read_only, .. } => {
                format!("mounted {}{}", String::from_utf8_lossy(path), if *read_only { " ro" } else { "" })
            }
            UseKind::Swap => "swap".into(),
            UseKind::Holder { name, label, kind } => {
                format!("{kind:?} {} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(label))
            }
            UseKind::Zfs { pool, imported } => format!("pool {} {imported:?}", String::from_utf8_lossy(pool)),
            other => format!("{other:?}"),
        };
        format!("{}: {kind}", String::from_utf8_lossy(&used.device)).trim_end().to_owned()
    };
    let mut uses: Vec<_> = facts.uses.iter().map(words).collect();
    uses.sort();
    uses
}

#[test]
fn a_disk_is_used_by_all_that_lies_on_it() {
    let recorded = stack();
    let above = ["dm-0: Lvm dm-1 vg-data", "dm-1: mounted /data ro", "md0: Crypt dm-0 safe"];
    let mut disk: Vec<_> = above.to_vec();
    disk.extend(["sda1: mounted /boot", "sda2: Md md0"]);
    assert_eq!(uses(&recorded.facts("8:0")), disk);
    assert_eq!(uses(&recorded.facts("9:0")), above);
    assert_eq!(uses(&recorded.facts("8:32")), ["sdc1: swap"]);
}

#[test]
fn a_partition_is_not_used_by_what_is_on_the_others() {
    let recorded = stack();
    assert_eq!(uses(&recorded.facts("8:1")), ["sda1: mounted /boot"]);
    assert_eq!(uses(&recorded.facts("8:2"))[3], "sda2: Md md0");
    // A volume built on the whole disk does use it.
    assert_eq!(uses(&recorded.facts("8:17"))[3], "sdb: Md md0");
}

#[test]
fn a_volume_lies_on_everything_below_it() {
    let recorded = stack();
    let volume = recorded.facts("253:1").identity;
    for number in ["8:0", "8:2", "8:16", "9:0", "253:0"] {
        let lower = recorded.facts(number).identity;
        assert_ne!(relation(&volume, &lower), DeviceRelation::Unrelated, "{number}");
    }
    assert!(!volume.below.contains(&recorded.node("8:32").number));
}

#[test]
fn kinds_of_volumes_are_told_apart() {
    let recorded = Recorded::new(
        "sys/devices/virtual/block/dm-0/dm/uuid = mpath-3600\\n
         sys/devices/virtual/block/dm-0/dm/name = mpatha\\n
         sys/devices/virtual/block/dm-1/dm/uuid = part1-mpath-3600\\n
         sys/devices/virtual/block/dm-2/dm/name = by-hand\\n",
    );
    let kinds =
        [("dm-0", "253:0"), ("dm-1", "253:1"), ("dm-2", "253:2"), ("bcache0", "252:0"), ("drbd0", "147:0")];
    let kinds = kinds.map(|(name, number)| {
        recorded.add_disk(&format!("devices/virtual/block/{name}"), number, 1 << 30, &[]);
        recorded.node(number).as_holder().0
    });
    let expected = [
        HolderKind::Multipath,
        HolderKind::OtherDm,
        HolderKind::OtherDm,
        HolderKind::Bcache,
        HolderKind::Other,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn volumes_in_a_circle_end() {
    let recorded = Recorded::new(
        "sys/devices/a/block/sda/holders/sdb -> sys/devices/b/block/sdb
         sys/devices/b/block/sdb/holders/sda -> sys/devices/a/block/sda
         sys/devices/a/block/sda/slaves/sdb -> sys/devices/b/block/sdb
         sys/devices/b/block/sdb/slaves/sda -> sys/devices/a/block/sda",
    );
    recorded.add_disk("devices/a/block/sda", "8:0", 1 << 30, &[]);
    recorded.add_disk("devices/b/block/sdb", "8:16", 1 << 30, &[]);
    let facts = recorded.facts("8:0");
    assert_eq!((facts.uses.len(), facts.identity.below.len()), (2, 1));
}

#[test]
fn a_file_system_of_several_devices_uses_them_all() {
    let recorded = Recorded::new(
        "sys/fs/btrfs/u-u-i-d/devices/sda -> sys/devices/a/block/sda
         sys/fs/btrfs/u-u-i-d/devices/sdb -> sys/devices/b/block/sdb
         sys/fs/btrfs/features/big = 1",
    );
    recorded.add_disk("devices/a/block/sda", "8:0", 1 << 30, &[]);
    recorded.add_disk("devices/b/block/sdb", "8:16", 1 << 30, &[]);
    recorded.add("proc/self/mountinfo = 30 1 0:33 / /pool rw - btrfs /dev/sda rw\\n");
    for number in ["8:0", "8:16"] {
        let facts = recorded.facts(number);
        assert_eq!(facts.uses.len(), 1, "{facts:?}");
    }
}

#[test]
fn what_only_a_container_has_mounted_is_seen() {
    let recorded = Recorded::new(
        "proc/self/ns/mnt -> mnt:[1]
         proc/1/ns/mnt -> mnt:[1]
         proc/77/ns/mnt -> mnt:[2]
         proc/78/ns/mnt -> mnt:[2]
         proc/self/mountinfo = 30 1 8:1 / /boot rw - ext4 /dev/sda1 rw\\n
         proc/77/mountinfo = 30 1 8:1 / /boot rw - ext4 /dev/sda1 rw\\n31 1 8:16 / /mnt rw - ext4 /dev/sdb rw\\n",
    );
    recorded.add_disk("devices/x/block/sda", "8:0", 1 << 30, &[(1, "8:1")]);
    recorded.add_disk("devices/y/block/sdb", "8:16", 1 << 30, &[]);
    assert_eq!(uses(&recorded.facts("8:0")), ["sda1: mounted /boot"]);
    assert_eq!(uses(&recorded.facts("8:16")), ["sdb: mounted /mnt (as process 77 sees it)"]);
}

#[test]
fn a_pool_counts_as_imported_where_the_kernel_says_so() {
    let pool = |label: &str, more: &str| {
        let recorded = Recorded::new(more);
        recorded.add_disk("devices/x/block/sda", "8:0", 1 << 30, &[]);
        let node = recorded.node("8:0");
        let mut facts = facts_of(&recorded.places, node.number, Some(&node), None).unwrap();
        let label = label.as_bytes().to_vec();
        facts.contents =
            vec![Signature { kind: SignatureKind::Zfs, offset_bytes: 0, uuid: String::new(), label }];
        SystemUses::look(&recorded.places).uses_of(&recorded.places, &node, &mut facts);
        uses(&facts)
    };
    let module = "proc/spl/kstat/zfs/arcstats = x\nproc/spl/kstat/zfs/tank/state = ONLINE";
    assert_eq!(pool("tank", module), ["sda: pool tank Some(true)"]);
    assert_eq!(pool("other", module), ["sda: pool other Some(false)"]);
    assert_eq!(pool("", module), ["sda: pool  None"]);
    assert_eq!(pool("tank", ""), [""; 0], "without ZFS in the kernel nothing is imported");
}
