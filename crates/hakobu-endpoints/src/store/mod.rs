//! Endpoints over a [`Store`]: a place that does whole steps on entries, such as one in memory.
//!
//! [`StoreSource`] and [`StoreTarget`] turn the operations of lanes into such steps: packs and drafts become whole entries,
//! listings are put together from pages. [`Below`] shows one directory of a store as a store. What a location names is opened
//! by [`open`](crate::open::open).

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
