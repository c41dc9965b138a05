//! The wire format of losses, the metadata that a copy does not keep.

use super::bounded::BoundedBytes;
use super::mirror::mirror;

mirror! {
    struct Loss of hakobu_core::losses::Loss {
        what: LossKind,
        count: u64,
        at_target: bool,
        example: BoundedBytes,
    }
}

mirror! {
    #[serde(rename_all = "snake_case")]
    enum LossKind of hakobu_core::losses::LossKind {
        Acl,
        Xattr,
        HardLinks,
        Holes,
        Owner,
        SetId,
        Flags,
        Times,
    }
}
