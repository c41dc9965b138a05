use hakobu_core::disk::{DeviceNumber, DeviceUse, IdKind, Partition, SignatureKind};

use super::*;

const GIB: u64 = 1 << 30;

fn identity(minor: u32) -> DeviceIdentity {
    DeviceIdentity {
        id: format!("naa.5000{minor}"),
        kind: IdKind::WorldWideName,
        boot_id: "this-start".into(),
        number: DeviceNumber { major: 8, minor },
        size_bytes: 2 * GIB,
        ..DeviceIdentity::default()
    }
}

/// Returns a blank disk of 2 GiB with a partition that the kernel knows.
fn blank() -> DeviceFacts {
    DeviceFacts {
        name: b"sdb".to_vec(),
        path: b"/dev/sdb".to_vec(),
        identity: identity(16),
        size_bytes: 2 * GIB,
        logical_sector_bytes: 512,
        model: b"ACME X1".to_vec(),
        partitions: vec![Partition { number: 1, name: b"sdb1".to_vec(), ..Partition::default() }],
        ..DeviceFacts::default()
    }
}

fn used(device: &str, kind: UseKind) -> DeviceFacts {
    DeviceFacts { uses: vec![DeviceUse { device: device.into(), kind }], ..blank() }
}

fn wanted() -> Wanted {
    Wanted { source_bytes: 2 * GIB, ..Wanted::default() }
}

/// Returns the message of the only refusal of a device.
fn refused(facts: &DeviceFacts, wanted: &Wanted, kind: RefusalKind) -> String {
    let verdict = target_verdict(facts, wanted);
    let kinds: Vec<_> = verdict.refusals.iter().map(|refusal| refusal.kind).collect();
    assert_eq!(kinds, [kind], "{verdict:?}");
    let words = verdict.refusals[0].words.clone();
    let error = verdict.error("checking the target").unwrap();
    assert!(error.kind == ErrorKind::Refused && error.detail == words, "{error}");
    words
}

fn mounted(path: &str, read_only: bool) -> UseKind {
    UseKind::Mounted { path: path.into(), file_system: "ext4".into(), read_only }
}

#[test]
fn a_blank_device_that_is_large_enough_is_accepted() {
    assert_eq!(target_verdict(&blank(), &wanted()), Verdict::default());
    assert_eq!(Verdict::default().error("checking the target"), None);
}

#[test]
fn what_is_mounted_is_refused_with_all_places() {
    let words = refused(&used("sdb", mounted("/srv", true)), &wanted(), RefusalKind::Mounted);
    assert!(words.contains("/dev/sdb (ACME X1, 2.15 GB) is mounted at /srv: unmount it"), "{words}");
    let mut facts = used("sdb1", mounted("/a", false));
    facts.uses.push(DeviceUse { device: b"sdb1".to_vec(), kind: mounted("/b\n", false) });
    let words = refused(&facts, &wanted(), RefusalKind::Mounted);
    assert!(words.contains("/dev/sdb1, a partition of /dev/sdb, is mounted at /a and /b\\n:"), "{words}");
    let words = refused(&used("dm-0", mounted("/", false)), &wanted(), RefusalKind::Mounted);
    assert!(words.contains("the running system") && !words.contains("umount"), "{words}");
}

#[test]
fn every_other_use_is_refused_in_words_of_its_own() {
    let holder = |kind| UseKind::Holder { name: b"dm-3".to_vec(), label: b"vg-x".to_vec(), kind };
    let zfs = |imported| UseKind::Zfs { pool: b"tank".to_vec(), imported };
    let writer = UseKind::OpenForWriting { pid: 4711, command: b"qemu\x1b".to_vec() };
    let cases = [
        (UseKind::Swap, RefusalKind::Swap, "swapoff /dev/sdb1"),
        (holder(HolderKind::Md), RefusalKind::Md, "mdadm --stop"),
        (holder(HolderKind::Lvm), RefusalKind::Lvm, "the LVM volume vg-x: deactivate"),
        (holder(HolderKind::Crypt), RefusalKind::Crypt, "cryptsetup close vg-x"),
        (holder(HolderKind::Multipath), RefusalKind::Multipath, "name /dev/mapper/vg-x instead"),
        (holder(HolderKind::OtherDm), RefusalKind::DeviceMapper, "dmsetup remove vg-x"),
        (holder(HolderKind::Bcache), RefusalKind::Bcache, "bcache/stop"),
        (holder(HolderKind::Other), RefusalKind::OtherHolder, "/dev/dm-3"),
        (zfs(Some(true)), RefusalKind::Zfs, "zpool export tank"),
        (zfs(None), RefusalKind::Zfs, "cannot be seen whether"),
        (UseKind::Loop { name: b"loop3".to_vec() }, RefusalKind::Loop, "losetup -d /dev/loop3"),
        (writer, RefusalKind::OpenForWriting, "process 4711 (qemu\\u{1b})"),
        (UseKind::Claimed, RefusalKind::Claimed, "held by the kernel"),
    ];
    let mut seen = Vec::new();
    for (kind, expected, part) in cases {
        let words = refused(&used("sdb1", kind), &wanted(), expected);
        assert!(words.contains(part) && words.contains("/dev/sdb1"), "{words}");
        assert!(!seen.contains(&words), "{words}");
        seen.push(words);
    }
}

#[test]
fn a_pool_that_is_not_imported_is_a_matter_of_consent() {
    let kind = UseKind::Zfs { pool: b"tank".to_vec(), imported: Some(false) };
    assert_eq!(target_verdict(&used("sdb", kind), &wanted()).refusals, []);
}

#[test]
fn what_cannot_be_written_or_is_too_small_is_refused() {
    let read_only = DeviceFacts { read_only: true, ..blank() };
    let words = refused(&read_only, &wanted(), RefusalKind::ReadOnly);
    assert!(words.contains("blockdev --setrw /dev/sdb"), "{words}");
    let larger = Wanted { source_bytes: 2 * GIB + 1, ..wanted() };
    let words = refused(&blank(), &larger, RefusalKind::TooSmall);
    assert!(words.contains("2147483648 bytes") && words.contains("2147483649"), "{words}");
    let empty = DeviceFacts { size_bytes: 0, ..blank() };
    refused(&empty, &wanted(), RefusalKind::NoMedium);
}

#[test]
fn the_source_is_recognised_by_any_name() {
    let of = |identity| Wanted { source_identity: Some(identity), ..wanted() };
    refused(&blank(), &of(identity(16)), RefusalKind::IsSource);
    // One disk over another path, or seen by another machine.
    let far = DeviceIdentity { boot_id: "that".into(), number: DeviceNumber::default(), ..identity(16) };
    refused(&blank(), &of(far), RefusalKind::IsSource);
    let partition = DeviceIdentity { whole: Some(identity(16).number), ..identity(17) };
    let words = refused(&blank(), &of(partition.clone()), RefusalKind::HoldsSource);
    assert!(words.contains("naa.500017"), "{words}");
    let facts = DeviceFacts { identity: partition, ..blank() };
    refused(&facts, &of(identity(16)), RefusalKind::PartOfSource);
    assert_eq!(target_verdict(&blank(), &of(identity(32))).refusals, []);
}

#[test]
fn sectors_count_where_the_source_has_a_partition_table() {
    let of = |sector, has_table| Wanted {
        source_logical_sector_bytes: sector,
        source_has_partition_table: has_table,
        ..wanted()
    };
    let words = refused(&blank(), &of(Some(4096), true), RefusalKind::SectorSize);
    assert!(words.contains("sectors of 512 bytes, the source has 4096"), "{words}");
    for fine in [of(Some(4096), false), of(Some(512), true), of(None, true)] {
        assert_eq!(target_verdict(&blank(), &fine).refusals, []);
    }
}

#[test]
fn a_larger_target_is_told_how_to_mend_its_table() {
    let of = |source_bytes, has_table| {
        let wanted = Wanted { source_bytes, source_has_gpt: has_table, ..Wanted::default() };
        target_verdict(&blank(), &wanted)
    };
    let notices = of(GIB, true).notices;
    assert!(notices.len() == 1 && notices[0].contains("sgdisk -e /dev/sdb"), "{notices:?}");
    assert!(of(GIB, false).notices.is_empty() && of(2 * GIB, true).notices.is_empty());
}

fn full() -> DeviceFacts {
    let mut facts = blank();
    let label = b"my data".to_vec();
    let signature = Signature { kind: SignatureKind::Ext4, offset_bytes: 1080, uuid: String::new(), label };
    facts.partitions[0].contents.push(signature.clone());
    facts.contents.push(Signature { kind: SignatureKind::Gpt, label: Vec::new(), ..signature });
    facts
}

#[test]
fn what_holds_something_needs_consent_by_its_id() {
    let verdict = target_verdict(&full(), &wanted());
    let consent = verdict.consent.as_ref().unwrap();
    assert_eq!(verdict.refusals, []);
    assert_eq!(consent.holds, ["GPT", "partition 1: ext4 \"my data\""]);
    let words = verdict.error("checking the target").unwrap().detail;
    assert!(words.contains("GPT, partition 1: ext4") && words.ends_with("--confirm naa.500016"), "{words}");

    let confirmed = Wanted { confirmed: Some("naa.500016".into()), ..wanted() };
    assert_eq!(target_verdict(&full(), &confirmed), Verdict::default());
}

#[test]
fn what_cannot_be_read_is_not_blank() {
    let facts = DeviceFacts { contents_hidden: true, ..blank() };
    let consent = target_verdict(&facts, &wanted()).consent.unwrap();
    assert_eq!(consent.holds, ["what cannot be read"]);
}

#[test]
fn consent_to_another_device_is_refused_even_on_a_blank_one() {
    let confirmed = Wanted { confirmed: Some("naa.5000\x1b".into()), ..wanted() };
    for facts in [full(), blank()] {
        let words = refused(&facts, &confirmed, RefusalKind::OtherConfirmed);
        assert!(words.contains("naa.5000\\u{1b}") && words.contains("naa.500016"), "{words}");
    }
}

#[test]
fn consent_does_not_help_against_a_refusal() {
    let facts = DeviceFacts { uses: used("sdb", UseKind::Swap).uses, ..full() };
    let confirmed = Wanted { confirmed: Some("naa.500016".into()), ..wanted() };
    refused(&facts, &confirmed, RefusalKind::Swap);
}

#[test]
fn a_long_list_of_contents_is_cut_in_words_only() {
    let mut facts = full();
    let signature = facts.contents[0].clone();
    facts.contents = vec![signature; 40];
    let consent = target_verdict(&facts, &wanted()).consent.unwrap();
    assert_eq!(consent.holds.len(), 41);
    assert!(consent.refusal.words.contains("29 more"), "{}", consent.refusal.words);
}

#[test]
fn all_reasons_are_told_at_once() {
    let facts = DeviceFacts { read_only: true, uses: used("sdb", UseKind::Swap).uses, ..full() };
    let error = target_verdict(&facts, &wanted()).error("checking the target").unwrap();
    assert_eq!(error.detail.lines().count(), 3, "{error}");
}

#[test]
fn a_source_that_may_change_is_refused_unless_live() {
    let writer = UseKind::OpenForWriting { pid: 7, command: b"dd".to_vec() };
    let cases = [
        (mounted("/srv", false), RefusalKind::Mounted),
        (writer, RefusalKind::OpenForWriting),
        (UseKind::Swap, RefusalKind::Swap),
        (UseKind::Claimed, RefusalKind::Claimed),
        (UseKind::Zfs { pool: b"tank".to_vec(), imported: Some(true) }, RefusalKind::Zfs),
    ];
    for (kind, expected) in cases {
        let facts = used("sdb1", kind);
        let verdict = source_verdict(&facts, false);
        assert_eq!(verdict.refusals.len(), 1, "{verdict:?}");
        let refusal = &verdict.refusals[0];
        assert!(refusal.kind == expected && refusal.words.contains("--live"), "{refusal:?}");
        let live = source_verdict(&facts, true);
        assert!(live.refusals.is_empty() && live.notices.len() == 1, "{live:?}");
    }
}

#[test]
fn a_source_that_is_only_read_by_others_is_accepted() {
    let holder = UseKind::Holder { name: b"md0".to_vec(), label: Vec::new(), kind: HolderKind::Md };
    for kind in [mounted("/srv", true), holder] {
        assert_eq!(source_verdict(&used("sdb1", kind), false), Verdict::default());
    }
    let empty = DeviceFacts { size_bytes: 0, ..blank() };
    assert_eq!(source_verdict(&empty, true).refusals[0].kind, RefusalKind::NoMedium);
}

#[test]
fn what_could_not_be_seen_is_a_notice() {
    let mut facts = blank();
    facts.note("without root…");
    assert_eq!(target_verdict(&facts, &wanted()).notices, ["/dev/sdb: without root…"]);
    assert_eq!(source_verdict(&facts, false).notices, ["/dev/sdb: without root…"]);
}

#[test]
fn a_path_among_the_devices_that_is_none_has_words() {
    let refusal = stray_refusal(b"/dev/sdbb");
    assert!(refusal.kind == RefusalKind::NoDevice && refusal.words.contains("/dev/sdbb"), "{refusal:?}");
}
