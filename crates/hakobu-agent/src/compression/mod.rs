//! Content that is compressed on its way: packed by the lane that sends it, unpacked by the thread that serves it.
//!
//! Each lane decides by itself, from its own times and those that its far end told: nothing is shared and nothing is
//! locked. Where the way does not limit, nothing is even looked at.

mod packer;
mod pilot;
#[cfg(test)]
mod tests;
mod unpacker;

pub(crate) use packer::{FIRST, Packer};
pub use unpacker::Unpacker;
