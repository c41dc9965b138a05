//! Determines what can boot from a disk, and what would prevent it from booting in another machine.

use std::collections::BTreeMap;

use hakobu_core::disk::{
    Boot, BootObstacle, DeviceFacts, DeviceRelation, NOTES_MAX, SignatureKind, TableFault, TableKind,
    relation,
};

/// The type of an EFI system partition in a GPT.
const EFI_TYPE: &str = "c12a7328-f81f-11d2-ba4b-00a0c93ec93b";
/// The type of an EFI system partition in an MBR.
const EFI_MBR_TYPE: &str = "0xef";
/// The type of the partition that GRUB needs on a GPT disk to boot from a BIOS.
const BIOS_TYPE: &str = "21686148-6449-6e6f-744e-656564454649";

/// The maximum number of disks with one identity that are compared with each other.
const TWINS_MAX: usize = 16;

/// Returns the boot facts that follow from one disk alone.
pub fn of(facts: &DeviceFacts, has_code: bool) -> Boot {
    let has_type = |wanted: &str| facts.partitions.iter().any(|partition| partition.type_id == wanted);
    let mut obstacles = Vec::new();
    if let Some(table) = facts.table.as_ref().filter(|table| table.kind == TableKind::Gpt) {
        if table.sector_bytes != facts.logical_sector_bytes {
            let (table_bytes, device_bytes) = (table.sector_bytes, facts.logical_sector_bytes);
            obstacles.push(BootObstacle::SectorSize { table_bytes, device_bytes });
        }
        if table.backup.is_some_and(|backup| !backup.at_end) {
            obstacles.push(BootObstacle::BackupNotAtEnd);
        }
        let damaged = [TableFault::PrimaryDamaged, TableFault::BackupDamaged];
        if damaged.iter().any(|fault| table.faults.contains(fault)) {
            obstacles.push(BootObstacle::TableDamaged);
        }
    }
    Boot {
        efi: has_type(EFI_TYPE) || has_type(EFI_MBR_TYPE),
        bios: has_code,
        bios_partition: has_type(BIOS_TYPE),
        obstacles,
    }
}

/// Records identities that two disks of one machine share but must not.
pub fn find_doubles(disks: &mut [DeviceFacts]) {
    let mut owners: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, disk) in disks.iter().enumerate() {
        for uuid in own_uuids(disk) {
            let owners = owners.entry(uuid).or_default();
            if owners.last() != Some(&index) && owners.len() < TWINS_MAX {
                owners.push(index);
            }
        }
    }
    let mut doubles = Vec::new();
    for (uuid, owners) in &owners {
        for (&one, &other) in owners.iter().flat_map(|one| owners.iter().map(move |other| (one, other))) {
            let strangers =
                relation(&disks[one].identity, &disks[other].identity) == DeviceRelation::Unrelated;
            if one != other && strangers {
                doubles.push((
                    one,
                    BootObstacle::SameUuid { uuid: uuid.clone(), disk: disks[other].name.clone() },
                ));
            }
        }
    }
    for (index, obstacle) in doubles {
        let obstacles = &mut disks[index].boot.obstacles;
        if obstacles.len() < NOTES_MAX {
            obstacles.push(obstacle);
        }
    }
}

/// Returns the identities that only one disk may have. Members of one RAID, pool or Btrfs share theirs, and mirrored
/// members even share those of their contents, so they have none here.
fn own_uuids(disk: &DeviceFacts) -> Vec<String> {
    use SignatureKind::{Bcache, Bcachefs, Btrfs, Md, Zfs};
    let shared = |kind: SignatureKind| matches!(kind, Md | Zfs | Bcache | Bcachefs | Btrfs);
    if disk.contents.iter().any(|signature| shared(signature.kind)) {
        return Vec::new();
    }
    let mut uuids: Vec<_> = disk.table.iter().map(|table| table.uuid.clone()).collect();
    uuids.extend(disk.contents.iter().map(|signature| signature.uuid.clone()));
    for partition in &disk.partitions {
        uuids.push(partition.uuid.clone());
        if !partition.contents.iter().any(|signature| shared(signature.kind)) {
            uuids.extend(partition.contents.iter().map(|signature| signature.uuid.clone()));
        }
    }
    // A FAT without a serial number has no identity to compare.
    uuids.retain(|uuid| uuid.bytes().any(|byte| byte.is_ascii_hexdigit() && byte != b'0'));
    uuids
}
