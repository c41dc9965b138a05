//! The wire format of facts about block devices.

use hakobu_core::disk::{
    DISKS_MAX, NOTES_MAX, PARTITIONS_MAX, PATH_BYTES_MAX, SIGNATURES_MAX, TEXT_BYTES_MAX, USES_MAX,
};

use super::bounded::{Bytes, List, Text};
use super::device_use::Use;
use super::identity::DeviceIdentity;
use super::mirror::mirror;
use super::signature::{PartitionTable, Signature};

mirror! {
    struct DeviceFacts of hakobu_core::disk::DeviceFacts {
        name: Bytes<TEXT_BYTES_MAX>,
        path: Bytes<PATH_BYTES_MAX>,
        identity: DeviceIdentity,
        size_bytes: u64,
        logical_sector_bytes: u32,
        physical_sector_bytes: u32,
        read_only: bool,
        removable: bool,
        rotational: bool,
        model: Bytes<TEXT_BYTES_MAX>,
        serial: Bytes<TEXT_BYTES_MAX>,
        wwn: Bytes<TEXT_BYTES_MAX>,
        table: Option<PartitionTable>,
        partitions: List<Partition, PARTITIONS_MAX>,
        contents: List<Signature, SIGNATURES_MAX>,
        uses: List<Use, USES_MAX>,
        boot: Boot,
        notes: List<Text<TEXT_BYTES_MAX>, NOTES_MAX>,
        contents_hidden: bool,
    }
}

mirror! {
    struct Partition of hakobu_core::disk::Partition {
        number: u32,
        name: Bytes<TEXT_BYTES_MAX>,
        start_bytes: u64,
        size_bytes: u64,
        type_id: Text<TEXT_BYTES_MAX>,
        uuid: Text<TEXT_BYTES_MAX>,
        label: Text<TEXT_BYTES_MAX>,
        contents: List<Signature, SIGNATURES_MAX>,
    }
}

mirror! {
    struct Boot of hakobu_core::disk::Boot {
        efi: bool,
        bios: bool,
        bios_partition: bool,
        obstacles: List<Obstacle, NOTES_MAX>,
    }
}

mirror! {
    enum Obstacle of hakobu_core::disk::Obstacle {
        SectorSize { table_bytes: u32, device_bytes: u32 },
        BackupNotAtEnd,
        TableDamaged,
        SameUuid { uuid: Text<TEXT_BYTES_MAX>, disk: Bytes<TEXT_BYTES_MAX> },
    }
}

mirror! {
    struct DiskList(disks: List<DeviceFacts, DISKS_MAX>) of hakobu_core::disk::DiskList
}
