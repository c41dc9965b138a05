//! Stores in the memory of this process: for tests of everything that is written against the traits, and as the smallest
//! endpoints there are, for whoever writes another.
//!
//! [`MemoryFileSystem`] has directories, hard links, modes, owners and times. [`MemoryObjectStore`] has flat keys, replaces
//! whole objects, and keeps the time of the upload alone.

mod file_system;
mod named;
mod object_store;
mod ticks;
mod tree;

pub use file_system::MemoryFileSystem;
pub use named::{object_store, open};
pub use object_store::MemoryObjectStore;
