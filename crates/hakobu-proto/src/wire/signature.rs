//! The wire format of the signatures that are recognised on a block device.

use hakobu_core::disk::TEXT_BYTES_MAX;

use super::bounded::{BoundedBytes, BoundedList, BoundedText};
use super::mirror::mirror;

mirror! {
    struct Signature of hakobu_core::disk::Signature {
        kind: SignatureKind,
        offset_bytes: u64,
        uuid: BoundedText<TEXT_BYTES_MAX>,
        label: BoundedBytes<TEXT_BYTES_MAX>,
    }
}

mirror! {
    enum SignatureKind of hakobu_core::disk::SignatureKind {
        Gpt,
        Mbr,
        Ext2,
        Ext3,
        Ext4,
        ExtJournal,
        Xfs,
        Btrfs,
        Bcachefs,
        F2fs,
        Swap,
        Lvm,
        Md,
        Luks1,
        Luks2,
        Zfs,
        Bcache,
        Bluestore,
        OracleAsm,
        Vmfs,
        Fat,
        Exfat,
        Ntfs,
        Bitlocker,
        Refs,
        HfsPlus,
        Apfs,
        Iso9660,
        Squashfs,
        Erofs,
        Unknown,
    }
}

mirror! {
    struct PartitionTable of hakobu_core::disk::PartitionTable {
        kind: TableKind,
        uuid: BoundedText<TEXT_BYTES_MAX>,
        sector_bytes: u32,
        backup: Option<BackupTable>,
        faults: BoundedList<TableFault, 16>,
    }
}

mirror! {
    struct BackupTable of hakobu_core::disk::BackupTable {
        offset_bytes: u64,
        at_end: bool,
    }
}

mirror! {
    enum TableKind of hakobu_core::disk::TableKind {
        Gpt,
        Mbr,
    }
}

mirror! {
    enum TableFault of hakobu_core::disk::TableFault {
        PrimaryDamaged,
        BackupDamaged,
        TooMany,
        BeyondEnd,
        ChainBroken,
    }
}
