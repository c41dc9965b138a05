//! Stores in the memory of this process. They serve tests of everything that is written against the traits, and as
//! minimal examples of endpoints.
//!
//! [`MemoryFileSystem`] has directories, hard links, modes, owners and times. [`MemoryObjectStore`] has flat keys,
//! replaces whole objects, and keeps only the upload time.

mod file_system;
mod named;
mod object_store;
mod ticks;
mod tree;

pub use file_system::MemoryFileSystem;
pub use named::{object_store, open};
pub use object_store::MemoryObjectStore;
