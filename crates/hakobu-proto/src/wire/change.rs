//! The wire format of changes without content, and of the level of detail of listings.

use super::entry::Attributes;
use super::extended::{Classes, Extended};
use super::mirror::mirror;
use super::path::EntryPath;

mirror! {
    enum Change of hakobu_core::endpoint::Change {
        MakeDirectory { path: EntryPath, mode: u32 },
        Directory { path: EntryPath, attributes: Attributes, extended: Option<Extended> },
        Attributes { path: EntryPath, attributes: Attributes, extended: Option<Extended> },
        Link { path: EntryPath, to: EntryPath, replaces: bool },
        Remove { path: EntryPath, directory: bool, kept_names: u16 },
        Rename { path: EntryPath, from: EntryPath },
    }
}

mirror! {
    struct Detail of hakobu_core::endpoint::Detail {
        kinds_only: bool,
        extended: Classes,
    } without { missed, proven }
}
