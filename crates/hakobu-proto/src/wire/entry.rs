//! The wire format of entries and their metadata.

use super::mirror::mirror;

mirror! {
    enum Kind of hakobu_core::entry::Kind {
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
    struct Time of hakobu_core::entry::Time {
        seconds: i64,
        nanoseconds: u32,
    }
}

mirror! {
    struct Metadata of hakobu_core::entry::Metadata {
        kind: Kind,
        mode: u32,
        uid: u32,
        gid: u32,
        size_bytes: u64,
        mtime: Time,
        ctime: Time,
        links: u32,
        sparse: bool,
        device: u32,
        inode: Option<Inode>,
        mount_point: bool,
        locked: bool,
        doubted: bool,
        extended: u64,
    } without { missed, uncertain }
}

mirror! {
    struct Attributes of hakobu_core::entry::Attributes {
        mode: u32,
        uid: u32,
        gid: u32,
        mtime: Time,
    }
}

mirror! {
    struct Inode of hakobu_core::entry::Inode {
        file_system: u64,
        number: u64,
    }
}

mirror! {
    enum Account of hakobu_core::entry::Account {
        User(number: u32),
        Group(number: u32),
    }
}
