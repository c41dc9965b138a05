//! Endpoints over a [`Store`], which performs whole operations on entries, such as one in memory.
//!
//! [`StoreSource`] and [`StoreTarget`] translate the operations of lanes: packs and drafts become whole entries, and
//! listings are assembled from pages. [`Below`] presents one directory of a store as a store.
//! [`open`](crate::open::open) opens the store of a location.

mod access;
mod below;
mod draft;
mod flat;
mod listing;
mod source;
mod store_trait;
mod target;

pub use access::{StoreAccess, access};
pub use below::Below;
pub use flat::{FlatKey, flat_page};
pub(crate) use flat::{no_path, shown};
pub use source::StoreSource;
pub use store_trait::{Content, Held, Page, Position, Store};
pub(crate) use store_trait::{conflict, missing, unsupported};
pub use target::StoreTarget;
