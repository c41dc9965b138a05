//! Endpoints over a [`ObjectPlace`], which performs whole operations on entries, such as one in memory.
//!
//! [`StoreSource`] and [`StoreTarget`] translate the operations of lanes: packs and drafts become whole entries, and
//! listings are assembled from pages. [`StoreSubtree`] presents one directory of a store as a store.
//! [`open`](crate::open::open) opens the store of a location.

mod access;
mod draft;
mod flat;
mod listing;
mod source;
mod store_trait;
mod subtree;
mod target;

pub use access::{StoreAccess, access};
pub use flat::{FlatKey, flat_page};
pub(crate) use flat::{no_path, shown};
pub use source::StoreSource;
pub use store_trait::{EntryContent, ObjectPlace, Position, StorePage, StoredEntry};
pub(crate) use store_trait::{conflict, missing, unsupported};
pub use subtree::StoreSubtree;
pub use target::StoreTarget;
