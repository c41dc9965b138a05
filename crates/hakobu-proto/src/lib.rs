//! What hakobu says to itself across machines: frames, messages and their limits.
//!
//! No sockets and no clock: bytes in, values out, and the reverse. The normative description is
//! `docs/PROTOCOL.md`.

pub mod compressed;
pub mod control;
pub mod data;
pub mod frame;
pub mod listings;
mod wire;
