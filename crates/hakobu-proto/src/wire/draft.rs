//! The wire format of drafts.

use super::mirror::mirror;
use super::path::EntryPath;

mirror! {
    enum DraftKind of hakobu_core::endpoint::DraftKind {
        File,
        Sink,
        Device,
        InPlace,
        Compare,
        Stream,
        Update,
    }
}

mirror! {
    enum Earlier of hakobu_core::endpoint::Earlier {
        Continue,
        Refuse,
        Forget,
    }
}

mirror! {
    struct DraftParameters of hakobu_core::endpoint::DraftParameters {
        path: EntryPath,
        size_bytes: u64,
        kind: DraftKind,
        version: Option<[u8; 32]>,
        earlier: Earlier,
        sparse: bool,
        verify_medium: bool,
        tag_key: Option<TagKey>,
    }
}

mirror! {
    struct EarlierWork of hakobu_core::endpoint::EarlierWork {
        done: Vec<Extent>,
        subtrees: Vec<Subtree>,
        samples: Vec<(Extent, [u8; 32])>,
    }
}

mirror! {
    struct Extent of hakobu_core::extent::Extent {
        offset: u64,
        length: u64,
    }
}

mirror! {
    struct Subtree of hakobu_core::digest::Subtree {
        level: u32,
        position: u64,
        value: [u8; 32],
    }
}

mirror! {
    struct Copied of hakobu_core::block_table::Copied {
        at: u32,
        length: u32,
        from: u64,
    }
}

mirror! {
    struct TagKey(key: [u8; 16]) of hakobu_core::tag::TagKey
}
