//! The wire format of entries and their metadata.

use super::mirror::mirror;

mirror! {
    enum EntryKind of hakobu_core::entry::EntryKind {
        File,
        Directory,
        Symlink,
        Fifo,
        Socket,
        BlockDevice,
        CharDevice,
    }
}

mirror! {
    struct FileTime of hakobu_core::entry::FileTime {
        seconds: i64,
        nanoseconds: u32,
    }
}

mirror! {
    struct EntryMetadata of hakobu_core::entry::EntryMetadata {
        kind: EntryKind,
        mode: u32,
        uid: u32,
        gid: u32,
        size_bytes: u64,
        mtime: FileTime,
        ctime: FileTime,
        links: u32,
        sparse: bool,
        device: u32,
        inode: Option<Inode>,
        mount_point: bool,
        locked: bool,
        doubted: bool,
        extended: u64,
    } without { missed, bulky, uncertain, lacks_change_times, content_mark }
}

mirror! {
    struct Attributes of hakobu_core::entry::Attributes {
        mode: u32,
        uid: u32,
        gid: u32,
        mtime: FileTime,
    }
}

mirror! {
    struct Inode of hakobu_core::entry::Inode {
        file_system: u64,
        number: u64,
    }
}

mirror! {
    enum AccountId of hakobu_core::entry::AccountId {
        User(number: u32),
        Group(number: u32),
    }
}
