//! Compression of content in transit: the lane that sends it compresses it, and the thread that serves it decompresses
//! it.
//!
//! Each lane decides for itself, from its own times and those that its peer reported: nothing is shared and nothing is
//! locked. If the network path is not the bottleneck, content is not even sampled.

mod packer;
mod pilot;
#[cfg(test)]
mod tests;
mod unpacker;

pub use packer::{FIRST, Packer};
pub use unpacker::Unpacker;
