//! One thing in a tree, as a file system describes it.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

/// A user's or group's number, which means something on one machine only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Account {
    /// A user.
    User(u32),
    /// A group.
    Group(u32),
}

impl Account {
    /// The number.
    pub fn number(self) -> u32 {
        match self {
            Account::User(number) | Account::Group(number) => number,
        }
    }
}

/// A point in time as file systems keep it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds since 1970, negative before.
    pub seconds: i64,
    /// Nanoseconds of the second, 0 to 999 999 999.
    pub nanoseconds: u32,
}

/// What a listing says about an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// How many names the inode has, where more than `u32::MAX` count as that; 1 of a directory.
    pub links: u32,
    /// Whether fewer blocks are allocated than the size needs: the file has holes.
    pub sparse: bool,
    /// The number of a device node, as the kernel packs it: 12 bits major, 20 bits minor.
    pub device: u32,
    /// Which inode it is, where other names may lead to it as well.
    pub inode: Option<Inode>,
    /// Whether it is a directory on another file system than the one that holds it.
    pub mount_point: bool,
    /// Whether it is immutable, or can only be appended to.
    pub locked: bool,
    /// Whether its content may be missing although all else is there: a run that wrote it ended with its machine. Only listings
    /// of a target say so.
    pub doubted: bool,
    /// Stands for the extended attributes that were looked at, see [`ExtendedRef::digest`]; 0 where there are none,
    /// [`UNREADABLE`] where they could not be read.
    ///
    /// [`ExtendedRef::digest`]: crate::extended::ExtendedRef::digest
    /// [`UNREADABLE`]: crate::extended::UNREADABLE
    pub extended: u64,
    /// Whether it has extended attributes that the target lacks whatever is done. Only listings of a source say so, and it
    /// never travels.
    pub missed: bool,
    /// Whether another file may have the number of its inode, and look the same: the file system is one of another program,
    /// or keeps whole seconds. Only listings of a source say so, and it never travels: those of a target have told such files
    /// apart ([`Metadata::tell_apart`]).
    pub uncertain: bool,
}

/// What tells an inode from all others of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// The number of the file system's device.
    pub file_system: u64,
    /// The number in the file system.
    pub number: u64,
}

impl Metadata {
    /// An empty entry of a kind that belongs to root and is of 1970.
    pub fn new(kind: Kind) -> Self {
        Self {
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            size_bytes: 0,
            mtime: Time::default(),
            ctime: Time::default(),
            links: 1,
            sparse: false,
            device: 0,
            inode: None,
            mount_point: false,
            locked: false,
            doubted: false,
            extended: 0,
            missed: false,
            uncertain: false,
        }
    }

    /// The part of this that is set at the target.
    pub fn attributes(&self) -> Attributes {
        Attributes { mode: self.mode, uid: self.uid, gid: self.gid, mtime: self.mtime }
    }

    /// Doubts its content if it is a file that was changed since a moment, or whenever that was.
    pub fn doubt(&mut self, since: Option<Time>) {
        self.doubted |= self.kind == Kind::File && since.is_none_or(|since| self.ctime >= since);
    }

    /// Returns a number that stands for all that is said of an inode besides its number, which is the same for all of its names.
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

    /// Puts what is said of it into the number of its inode, where another file may have the same: who compares numbers then
    /// tells the two apart, as far as anybody can.
    pub fn tell_apart(&mut self) {
        if !std::mem::replace(&mut self.uncertain, false) {
            return;
        }
        let said = self.said();
        if let Some(inode) = &mut self.inode {
            inode.number ^= said;
        }
    }

    /// Whether both have the same extended attributes, as far as these could be read.
    pub fn same_extended(&self, other: &Metadata) -> bool {
        crate::extended::are_equal(self.extended, other.extended)
    }

    /// Whether its extended attributes could not be read.
    pub fn is_unreadable(&self) -> bool {
        self.extended == crate::extended::UNREADABLE
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_share_a_number_are_told_apart_by_what_is_said_of_them() {
        let inode = Inode { file_system: 1, number: 2 };
        let one = Metadata { inode: Some(inode), uncertain: true, ..Metadata::new(Kind::File) };
        let mut other = one;
        other.ctime.nanoseconds += 1;
        let told = |mut it: Metadata| {
            it.tell_apart();
            assert!(!it.uncertain);
            it.inode
        };
        assert_eq!(told(one), told(one));
        assert_ne!(told(one), told(other));
        assert_eq!(told(Metadata { uncertain: false, ..other }), Some(inode));
        assert_eq!(told(Metadata { inode: None, ..one }), None);
    }
}
