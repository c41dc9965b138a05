//! Content that can be recognised on a device: partition tables, file systems, members of volumes.

/// Something recognised on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    /// The kind of content.
    pub kind: SignatureKind,
    /// The offset of the signature from the beginning of the device or partition, in bytes.
    pub offset_bytes: u64,
    /// The identifier, or empty.
    pub uuid: String,
    /// The name of the content, or of the volume or pool that it belongs to, or empty.
    pub label: Vec<u8>,
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal,)*) => {
        /// The kinds of content that are recognised.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum SignatureKind {
            $($(#[$doc])* $kind,)*
        }

        impl SignatureKind {
            /// All kinds.
            pub const ALL: &'static [SignatureKind] = &[$(Self::$kind,)*];

            /// Returns the name for people and in JSON.
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
    /// PC partition table, or boot code.
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
    /// A disk of Oracle ASM.
    OracleAsm "Oracle ASM",
    /// A volume of VMware's file system.
    Vmfs "VMFS",
    /// FAT.
    Fat "FAT",
    /// exFAT.
    Exfat "exFAT",
    /// NTFS.
    Ntfs "NTFS",
    /// Microsoft's disk encryption.
    Bitlocker "BitLocker",
    /// Microsoft's ReFS.
    Refs "ReFS",
    /// HFS+.
    HfsPlus "HFS+",
    /// APFS.
    Apfs "APFS",
    /// The file system of a CD.
    Iso9660 "iso9660",
    /// SquashFS.
    Squashfs "squashfs",
    /// EROFS.
    Erofs "erofs",
    /// Data without a known signature.
    Unknown "data of an unknown kind",
}

/// A partition table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind.
    pub kind: TableKind,
    /// The disk's GUID, or the signature of an MBR as eight digits.
    pub uuid: String,
    /// The sector size that the table uses, in bytes.
    pub sector_bytes: u32,
    /// The backup table of a GPT.
    pub backup: Option<BackupTable>,
    /// The faults of the table.
    pub faults: Vec<TableFault>,
}

/// The position of a GPT's backup table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupTable {
    /// The offset given by the primary table, in bytes.
    pub offset_bytes: u64,
    /// True if that is the last sector of the device.
    pub at_end: bool,
}

/// The kinds of partition tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// GUID partition table.
    Gpt,
    /// PC partition table.
    Mbr,
}

/// The faults that a partition table can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFault {
    /// The primary copy is missing or fails its checksum.
    PrimaryDamaged,
    /// The backup copy is missing or fails its checksum.
    BackupDamaged,
    /// It has more partitions than are reported, or claims more than any table can have.
    TooMany,
    /// A partition extends beyond the device.
    BeyondEnd,
    /// The chain of extended partitions is broken or contains a cycle.
    ChainBroken,
}
