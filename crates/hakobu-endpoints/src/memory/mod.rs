//! Stores in the memory of this process. They serve tests of everything that is written against the traits, and as
//! minimal examples of endpoints.
//!
//! [`MemoryFileSystem`] has directories, hard links, modes, owners and times. [`MemoryObjectStore`] has flat keys,
//! replaces whole objects, and keeps only the upload time. [`MemoryMetadataStore`] keeps all attributes of an entry and
//! lists none of them.

mod file_system;
mod metadata_store;
mod named;
mod object_store;
mod ticks;
mod tree;

pub use file_system::MemoryFileSystem;
pub use metadata_store::MemoryMetadataStore;
pub use named::{object_store, open};
pub use object_store::MemoryObjectStore;
