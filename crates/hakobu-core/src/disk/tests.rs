use super::*;

fn identity(id: &str, kind: IdKind, minor: u32, boot_id: &str) -> DeviceIdentity {
    DeviceIdentity {
        id: id.into(),
        kind,
        boot_id: boot_id.into(),
        number: DeviceNumber { major: 8, minor },
        size_bytes: 1000,
        ..DeviceIdentity::default()
    }
}

#[test]
fn numbers_decide_on_one_machine_only() {
    let first = identity("made.1", IdKind::Made, 0, "a");
    assert_eq!(relation(&first, &identity("made.2", IdKind::Made, 0, "a")), DeviceRelation::Same);
    assert_eq!(relation(&first, &identity("made.2", IdKind::Made, 0, "b")), DeviceRelation::Unrelated);
    // Two machines with unknown boot IDs are not the same machine.
    let unknown = identity("made.1", IdKind::Made, 0, "");
    assert_eq!(relation(&unknown, &unknown.clone()), DeviceRelation::Unrelated);
}

#[test]
fn world_wide_names_hold_across_machines_and_serial_numbers_do_not() {
    let wwn = |minor, boot| identity("naa.5000", IdKind::WorldWideName, minor, boot);
    assert_eq!(relation(&wwn(0, "a"), &wwn(16, "b")), DeviceRelation::Same);
    let serial = |minor, boot| identity("serial.QM00001", IdKind::Serial, minor, boot);
    assert_eq!(relation(&serial(0, "a"), &serial(16, "b")), DeviceRelation::Unrelated);
    assert_eq!(relation(&serial(0, "a"), &serial(16, "a")), DeviceRelation::Same);
    let larger = DeviceIdentity { size_bytes: 2000, ..wwn(16, "b") };
    assert_eq!(relation(&wwn(0, "a"), &larger), DeviceRelation::Unrelated);
}

#[test]
fn a_partition_and_its_disk_are_related_and_two_partitions_are_not() {
    let disk = identity("naa.5000", IdKind::WorldWideName, 0, "a");
    let partition = |minor: u32| DeviceIdentity {
        whole: Some(disk.number),
        whole_id: disk.id.clone(),
        size_bytes: 10,
        ..identity(&format!("naa.5000-part{minor}"), IdKind::WorldWideName, minor, "a")
    };
    assert_eq!(relation(&partition(1), &disk), DeviceRelation::PartOf);
    assert_eq!(relation(&disk, &partition(1)), DeviceRelation::WholeOf);
    assert_eq!(relation(&partition(1), &partition(2)), DeviceRelation::Unrelated);
    // Another machine sees this disk too.
    let far = DeviceIdentity { boot_id: "b".into(), number: DeviceNumber::default(), ..disk.clone() };
    assert_eq!(relation(&partition(1), &far), DeviceRelation::PartOf);
}

#[test]
fn two_loop_devices_over_one_file_are_one() {
    let file = FileNumber { device: DeviceNumber::default(), inode: 7, offset_bytes: 0 };
    let device = |minor, file| DeviceIdentity {
        backing: Some(file),
        ..identity(&format!("made.{minor}"), IdKind::Made, minor, "a")
    };
    assert_eq!(relation(&device(1, file), &device(2, file)), DeviceRelation::Same);
    let within = FileNumber { offset_bytes: 999, ..file };
    assert_eq!(relation(&device(1, file), &device(2, within)), DeviceRelation::Same);
    let behind = FileNumber { offset_bytes: 1000, ..file };
    assert_eq!(relation(&device(1, file), &device(2, behind)), DeviceRelation::Unrelated);
    assert_eq!(relation(&device(1, behind), &device(2, file)), DeviceRelation::Unrelated);
}

#[test]
fn a_volume_lies_on_its_disks() {
    let disk = identity("naa.5000", IdKind::WorldWideName, 0, "a");
    let volume = DeviceIdentity { below: vec![disk.number], ..identity("dm.LVM-x", IdKind::Volume, 77, "a") };
    assert_eq!(relation(&volume, &disk), DeviceRelation::PartOf);
    assert_eq!(relation(&disk, &volume), DeviceRelation::WholeOf);
}

#[test]
fn notes_are_few_short_and_not_repeated() {
    let mut facts = DeviceFacts::default();
    facts.note("é".repeat(TEXT_BYTES_MAX));
    facts.note("é".repeat(TEXT_BYTES_MAX));
    assert_eq!((facts.notes.len(), facts.notes[0].len()), (1, TEXT_BYTES_MAX));
    (0..2 * NOTES_MAX).for_each(|number| facts.note(number.to_string()));
    assert_eq!(facts.notes.len(), NOTES_MAX);
}

#[test]
fn kinds_have_names_of_their_own() {
    let mut names: Vec<_> = SignatureKind::ALL.iter().map(|kind| kind.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), SignatureKind::ALL.len());
}
