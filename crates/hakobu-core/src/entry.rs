//! One object in a tree, as described by a file system.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum EntryKind {
    /// A regular file.
    File = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link.
    Symlink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block device.
    BlockDevice = 6,
    /// A character device.
    CharDevice = 7,
}

impl EntryKind {
    /// Returns the kind with this number, the one used on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        use EntryKind::*;
        [File, Directory, Symlink, Fifo, Socket, BlockDevice, CharDevice]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// Returns the kind in words, with its article.
    pub fn words(self) -> &'static str {
        match self {
            EntryKind::File => "a file",
            EntryKind::Directory => "a directory",
            EntryKind::Symlink => "a symbolic link",
            EntryKind::Fifo => "a named pipe",
            EntryKind::Socket => "a socket",
            EntryKind::BlockDevice => "a block device",
            EntryKind::CharDevice => "a character device",
        }
    }
}

/// The set-user-ID and set-group-ID bits of a mode.
pub const SET_ID: u32 = 0o6000;

/// The number of a user or group, which is meaningful on one machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AccountId {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
}

impl AccountId {
    /// Returns the number.
    pub fn number(self) -> u32 {
        match self {
            AccountId::User(number) | AccountId::Group(number) => number,
        }
    }
}

/// A point in time with the resolution of file systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileTime {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second, 0 to 999 999 999.
    pub nanoseconds: u32,
}

impl FileTime {
    /// Returns the nanoseconds since 1970.
    pub fn as_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanoseconds)
    }
}

/// The description of an entry in a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMetadata {
    /// The kind.
    pub kind: EntryKind,
    /// Permissions with set-ID and sticky bits: the lowest 12 bits of `st_mode`.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The size in bytes; for a symbolic link, the length of its text.
    pub size_bytes: u64,
    /// The time of the last content change.
    pub mtime: FileTime,
    /// The time of the last change to anything about the inode. It reveals a change whose mtime was reset.
    pub ctime: FileTime,
    /// The number of names (hard links) of the inode, at most `u32::MAX`; 1 for a directory, 0 for one that only exists
    /// because something is in it.
    pub links: u32,
    /// True if fewer blocks are allocated than the size needs: the file has holes.
    pub sparse: bool,
    /// The number of a device node as packed by the kernel: 12 bits major, 20 bits minor.
    pub device: u32,
    /// The inode, if other names may lead to it as well.
    pub inode: Option<Inode>,
    /// True if it is a directory on another file system than the directory that holds it.
    pub mount_point: bool,
    /// True if it is immutable or append-only.
    pub locked: bool,
    /// True if its content may be missing although everything else is present, because the machine went down during the
    /// run that wrote it. Set only in listings of a target.
    pub doubted: bool,
    /// A hash of the extended attributes that were read, see [`ExtendedRef::digest`]; 0 if there are none,
    /// [`UNREADABLE`] if they could not be read.
    ///
    /// [`ExtendedRef::digest`]: crate::extended::ExtendedRef::digest
    /// [`UNREADABLE`]: crate::extended::UNREADABLE
    pub extended: u64,
    /// True if it has extended attributes that the target will lack in any case. In listings of a target, it is true if
    /// the target has lost its attributes: `extended` is their [`lost_digest`] then. Never sent over the wire.
    ///
    /// [`lost_digest`]: crate::extended::lost_digest
    pub missed: bool,
    /// True if its extended attributes are so large that a store as the target keeps them in an object of their own, or that a
    /// store as the source does. Set only in listings of a source, by stores only for entries that are asked for, and never
    /// sent over the wire.
    pub bulky: bool,
    /// True if another file may have the same inode number and look the same, because the file system is implemented by
    /// another program or keeps whole seconds only, or, without an inode, if it is not known which file it is a name of. Set
    /// only in listings of a source, and never sent over the wire; listings of a target have already been through
    /// [`EntryMetadata::tell_apart`].
    pub uncertain: bool,
    /// True if it is a mount point of a file system whose ctimes prove nothing. Set only in listings of a source, and never sent
    /// over the wire.
    pub lacks_change_times: bool,
    /// The mark of the content that a store shows. Never sent over the wire.
    pub content_mark: ContentMark,
}

/// A mark of content that a store shows without content. It is of a kind of checksum, or of an entity tag, which may be
/// computed in several ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentMark(u64);

impl ContentMark {
    const KIND_BITS: u64 = 3;
    const TAG: u64 = 0;
    const MD5: u64 = 1;
    const CRC64: u64 = 2;

    fn new(kind: u64, parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("hakobu mark of content 1");
        for part in parts {
            hasher.update(part);
        }
        let [a, b, c, d, e, f, g, h, ..] = *hasher.finalize().as_bytes();
        // Not that of nothing.
        let hash = u64::from_le_bytes([a, b, c, d, e, f, g, h]).max(Self::KIND_BITS + 1);
        Self(hash & !Self::KIND_BITS | kind)
    }

    /// Returns the mark of content with this MD5.
    pub fn of_md5(md5: &[u8; 16]) -> Self {
        Self::new(Self::MD5, &[md5, &[0; 4]])
    }

    /// Returns the mark of content with this CRC-64/NVME.
    pub fn of_crc64(sum: u64) -> Self {
        Self::new(Self::CRC64, &[&sum.to_le_bytes()])
    }

    /// Returns the mark of content with an entity tag that is perhaps an MD5, or one of those of as many parts.
    pub fn of_tag(md5: &[u8; 16], parts: u32) -> Self {
        Self::new(Self::TAG, &[md5, &parts.to_le_bytes()])
    }

    /// Returns true if both are marks of the same content.
    pub fn is_same(self, other: Self) -> bool {
        self != Self::default() && self.0 & !Self::KIND_BITS == other.0 & !Self::KIND_BITS
    }

    /// Returns true if both are marks of different contents.
    pub fn is_other(self, other: Self) -> bool {
        let kind = self.0 & Self::KIND_BITS;
        kind != Self::TAG && kind == other.0 & Self::KIND_BITS && self != other
    }
}

/// The identity of an inode among all inodes of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// The device number of the file system.
    pub file_system: u64,
    /// The inode number in the file system.
    pub number: u64,
}

impl EntryMetadata {
    /// Returns the metadata of an empty entry of this kind, owned by root, with all times in 1970.
    pub fn new(kind: EntryKind) -> Self {
        Self {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            size_bytes: 0,
            mtime: FileTime::default(),
            ctime: FileTime::default(),
            links: 1,
            sparse: false,
            device: 0,
            inode: None,
            mount_point: false,
            locked: false,
            doubted: false,
            extended: 0,
            missed: false,
            bulky: false,
            uncertain: false,
            lacks_change_times: false,
            content_mark: ContentMark::default(),
        }
    }

    /// Returns the attributes that are set at the target.
    pub fn attributes(&self) -> Attributes {
        Attributes { mode: self.mode, uid: self.uid, gid: self.gid, mtime: self.mtime }
    }

    /// Marks its content as doubtful if it is a file that changed at `since` or later, or at any time if that is
    /// `None`.
    pub fn doubt(&mut self, since: Option<FileTime>) {
        self.doubted |= self.kind == EntryKind::File && since.is_none_or(|since| self.ctime >= since);
    }

    /// Returns a hash of everything known about an inode except its number. It is the same for all names of the inode.
    pub fn said(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (
            self.kind,
            self.mode,
            self.uid,
            self.gid,
            self.size_bytes,
            self.mtime,
            self.ctime,
            self.links,
            self.device,
        )
            .hash(&mut hasher);
        hasher.finish()
    }

    /// Mixes the metadata into the inode number if another file may have the same number. Comparing numbers then
    /// distinguishes the two as far as possible.
    pub fn tell_apart(&mut self) {
        if !std::mem::replace(&mut self.uncertain, false) {
            return;
        }
        let said = self.said();
        if let Some(inode) = &mut self.inode {
            inode.number ^= said;
        }
    }

    /// Returns true if both have the same extended attributes, as far as these could be read.
    pub fn same_extended(&self, other: &EntryMetadata) -> bool {
        crate::extended::are_equal(self.extended, other.extended)
    }

    /// Returns true if its extended attributes could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.extended == crate::extended::UNREADABLE
    }

    /// Returns false if the system refused to describe it when its directory was listed: only its kind is known.
    pub fn is_described(&self) -> bool {
        !(self.is_unreadable() && self.ctime == FileTime::default())
    }

    /// Returns true if it is a directory that only exists because something is in it, so that it has no attributes of its
    /// own. Object stores have such directories.
    pub fn is_implied(&self) -> bool {
        self.kind == EntryKind::Directory && self.links == 0
    }

    /// Returns true if it is a named pipe or a device node: a name without content.
    pub fn is_special(&self) -> bool {
        matches!(self.kind, EntryKind::Fifo | EntryKind::BlockDevice | EntryKind::CharDevice)
    }

    /// Returns true if a file seen at two moments kept its content, judging by kind, size, mtime and ctime.
    pub fn same_version(&self, later: &EntryMetadata) -> bool {
        self.kind == later.kind
            && self.size_bytes == later.size_bytes
            && self.mtime == later.mtime
            && self.ctime == later.ctime
    }
}

/// The attributes that are set on an entry at the target after its content is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permissions with set-ID and sticky bits.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The time of the last content change.
    pub mtime: FileTime,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_share_a_number_are_told_apart_by_what_is_said_of_them() {
        let inode = Inode { file_system: 1, number: 2 };
        let one =
            EntryMetadata { inode: Some(inode), uncertain: true, ..EntryMetadata::new(EntryKind::File) };
        let mut other = one;
        other.ctime.nanoseconds += 1;
        let told = |mut it: EntryMetadata| {
            it.tell_apart();
            assert!(!it.uncertain);
            it.inode
        };
        assert_eq!(told(one), told(one));
        assert_ne!(told(one), told(other));
        assert_eq!(told(EntryMetadata { uncertain: false, ..other }), Some(inode));
        assert_eq!(told(EntryMetadata { inode: None, ..one }), None);
    }
}
