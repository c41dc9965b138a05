//! The protocol between hakobu processes on different machines: frames, messages and their limits.
//!
//! This crate must not do I/O or read the clock: it converts between values and bytes. `docs/PROTOCOL.md` is the
//! normative description.

pub mod compressed;
pub mod control;
pub mod data;
pub mod frame;
pub mod listings;
mod wire;
