//! Stores in the memory of this process: for tests of everything that is written against the traits, and as the smallest
//! endpoints there are, for whoever writes another.
//!
//! [`MemoryFileSystem`] has directories, hard links, modes, owners and times. [`MemoryObjectStore`] has flat keys, replaces
//! whole objects, and keeps the time of the upload alone. Both are a [`Store`]; [`MemorySource`] and [`MemoryTarget`] make
//! endpoints of any of them.

mod draft;
mod file_system;
mod object_store;
mod source;
mod store;
mod target;
mod tree;

pub use file_system::MemoryFileSystem;
pub use object_store::MemoryObjectStore;
pub use source::MemorySource;
pub use store::{Content, Held, Page, Position, Store};
pub use target::MemoryTarget;
