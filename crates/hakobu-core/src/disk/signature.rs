//! What can be recognised on a device: partition tables, file systems, parts of volumes.

/// Something recognised on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// What it is.
    pub kind: SignatureKind,
    /// Where its mark is, from the beginning of the device or partition.
    pub offset_bytes: u64,
    /// Its identity, or empty.
    pub uuid: String,
    /// Its name, or that of the volume or pool it belongs to; or empty.
    pub label: Vec<u8>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal,)*) => {
        /// The kinds of things that are recognised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SignatureKind {
            $($(#[$doc])* $kind,)*
        }

        impl SignatureKind {
            /// All kinds.
            pub const ALL: &'static [SignatureKind] = &[$(Self::$kind,)*];

            /// The name for people and in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// GUID partition table.
    Gpt "GPT",
    /// Partition table of the PC, or code to boot from.
    Mbr "MBR",
    /// ext2.
    Ext2 "ext2",
    /// ext3.
    Ext3 "ext3",
    /// ext4.
    Ext4 "ext4",
    /// The journal of an ext file system on another device.
    ExtJournal "ext journal",
    /// XFS.
    Xfs "xfs",
    /// Btrfs.
    Btrfs "btrfs",
    /// A device of bcachefs.
    Bcachefs "bcachefs",
    /// F2FS.
    F2fs "f2fs",
    /// Swap space.
    Swap "swap",
    /// A physical volume of LVM.
    Lvm "LVM",
    /// A member of a Linux software RAID.
    Md "md RAID",
    /// LUKS 1.
    Luks1 "LUKS1",
    /// LUKS 2.
    Luks2 "LUKS2",
    /// A member of a ZFS pool.
    Zfs "ZFS",
    /// A backing or caching device of bcache.
    Bcache "bcache",
    /// A Ceph object store.
    Bluestore "Ceph BlueStore",
    /// A disk of Oracle's ASM.
    OracleAsm "Oracle ASM",
    /// A volume of VMware's file system.
    Vmfs "VMFS",
    /// FAT.
    Fat "FAT",
    /// exFAT.
    Exfat "exFAT",
    /// NTFS.
    Ntfs "NTFS",
    /// Microsoft's encryption.
    Bitlocker "BitLocker",
    /// Microsoft's ReFS.
    Refs "ReFS",
    /// HFS+.
    HfsPlus "HFS+",
    /// APFS.
    Apfs "APFS",
    /// A CD's file system.
    Iso9660 "iso9660",
    /// SquashFS.
    Squashfs "squashfs",
    /// EROFS.
    Erofs "erofs",
    /// Something that has no mark.
    Unknown "data of an unknown kind",
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind.
    pub kind: TableKind,
    /// The disk's GUID, or the signature of an MBR as eight digits.
    pub uuid: String,
    /// The unit in which it counts.
    pub sector_bytes: u32,
    /// The second copy of a GPT.
    pub backup: Option<BackupTable>,
    /// What is wrong with it.
    pub faults: Vec<TableFault>,
}

/// Where the second copy of a GPT is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupTable {
    /// Where the first copy says it is.
    pub offset_bytes: u64,
    /// Whether that is the last sector of the device.
    pub at_end: bool,
}

/// The kinds of partition tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// Partition table of the PC.
    Mbr,
}

/// What can be wrong with a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFault {
    /// The first copy is missing or fails its checksum.
    PrimaryDamaged,
    /// The second copy is missing or fails its checksum.
    BackupDamaged,
    /// It has more partitions than are told, or claims more than any table has.
    TooMany,
    /// A partition lies outside of the device.
    BeyondEnd,
    /// Its chain of extended partitions is broken or leads back into itself.
    ChainBroken,
}
