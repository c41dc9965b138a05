//! One thing in a tree, as a file system describes it.

use serde::{Deserialize, Serialize};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
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

impl Kind {
    /// The kind with this number, as it travels on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        use Kind::*;
        [File, Directory, Symlink, Fifo, Socket, BlockDevice, CharDevice]
            .into_iter()
            .find(|kind| *kind as u8 == number)
    }

    /// The kind in words, with its article.
    pub fn words(self) -> &'static str {
        match self {
            Kind::File => "a file",
            Kind::Directory => "a directory",
            Kind::Symlink => "a symbolic link",
            Kind::Fifo => "a named pipe",
            Kind::Socket => "a socket",
            Kind::BlockDevice => "a block device",
            Kind::CharDevice => "a character device",
        }
    }
}

/// The set-user-ID and set-group-ID bits of a mode.
pub const SET_ID: u32 = 0o6000;

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second, 0 to 999 999 999.
    pub nanoseconds: u32,
}

/// What a listing says about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// The kind.
    pub kind: Kind,
    /// Permissions with set-ID and sticky bits: the lowest 12 bits of `st_mode`.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// The size in bytes; of a link, the length of its text.
    pub size_bytes: u64,
    /// When the content last changed.
    pub mtime: Time,
    /// When anything about the inode last changed; tells a change that hides its mtime.
    pub ctime: Time,
    /// How many names the inode has, where more than `u32::MAX` count as that.
    pub links: u32,
    /// Whether fewer blocks are allocated than the size needs: the file has holes.
    pub sparse: bool,
    /// The number of a device node, as the kernel packs it: 12 bits major, 20 bits minor.
    pub device: u32,
}

impl Metadata {
    /// The part of this that is set at the target.
    pub fn attributes(&self) -> Attributes {
        Attributes { mode: self.mode, uid: self.uid, gid: self.gid, mtime: self.mtime }
    }

    /// Whether it is a named pipe or a device node: a name without content.
    pub fn is_special(&self) -> bool {
        matches!(self.kind, Kind::Fifo | Kind::BlockDevice | Kind::CharDevice)
    }

    /// Whether a file with this description, seen at two moments, kept its content.
    pub fn same_version(&self, later: &Metadata) -> bool {
        self.kind == later.kind
            && self.size_bytes == later.size_bytes
            && self.mtime == later.mtime
            && self.ctime == later.ctime
    }
}

/// What is set on an entry at the target once its content is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permissions with set-ID and sticky bits.
    pub mode: u32,
    /// The owner's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// When the content last changed.
    pub mtime: Time,
}
