//! The wire format of facts about block devices.

use hakobu_core::disk::{
    DISKS_MAX, NOTES_MAX, PARTITIONS_MAX, PATH_BYTES_MAX, SIGNATURES_MAX, TEXT_BYTES_MAX, USES_MAX,
};

use super::bounded::{BoundedBytes, BoundedList, BoundedText};
use super::device_use::DeviceUse;
use super::identity::DeviceIdentity;
use super::mirror::mirror;
use super::signature::{PartitionTable, Signature};

mirror! {
    struct DeviceFacts of hakobu_core::disk::DeviceFacts {
        name: BoundedBytes<TEXT_BYTES_MAX>,
        path: BoundedBytes<PATH_BYTES_MAX>,
        identity: DeviceIdentity,
        size_bytes: u64,
        logical_sector_bytes: u32,
        physical_sector_bytes: u32,
        read_only: bool,
        removable: bool,
        rotational: bool,
        model: BoundedBytes<TEXT_BYTES_MAX>,
        serial: BoundedBytes<TEXT_BYTES_MAX>,
        wwn: BoundedBytes<TEXT_BYTES_MAX>,
        table: Option<PartitionTable>,
        partitions: BoundedList<Partition, PARTITIONS_MAX>,
        contents: BoundedList<Signature, SIGNATURES_MAX>,
        uses: BoundedList<DeviceUse, USES_MAX>,
        boot: Boot,
        notes: BoundedList<BoundedText<TEXT_BYTES_MAX>, NOTES_MAX>,
        contents_hidden: bool,
    }
}

mirror! {
    struct Partition of hakobu_core::disk::Partition {
        number: u32,
        name: BoundedBytes<TEXT_BYTES_MAX>,
        start_bytes: u64,
        size_bytes: u64,
        type_id: BoundedText<TEXT_BYTES_MAX>,
        uuid: BoundedText<TEXT_BYTES_MAX>,
        label: BoundedText<TEXT_BYTES_MAX>,
        contents: BoundedList<Signature, SIGNATURES_MAX>,
    }
}

mirror! {
    struct Boot of hakobu_core::disk::Boot {
        efi: bool,
        bios: bool,
        bios_partition: bool,
        obstacles: BoundedList<BootObstacle, NOTES_MAX>,
    }
}

mirror! {
    enum BootObstacle of hakobu_core::disk::BootObstacle {
        SectorSize { table_bytes: u32, device_bytes: u32 },
        BackupNotAtEnd,
        TableDamaged,
        SameUuid { uuid: BoundedText<TEXT_BYTES_MAX>, disk: BoundedBytes<TEXT_BYTES_MAX> },
    }
}

mirror! {
    struct DiskList(disks: BoundedList<DeviceFacts, DISKS_MAX>) of hakobu_core::disk::DiskList
}
