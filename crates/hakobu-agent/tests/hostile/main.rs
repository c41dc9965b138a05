//! Peers that mean harm. They hold the right key, so they get past the handshake, and then send
//! frames that our own client never would. Peers with the wrong key, broken records and seals are
//! tested beside the connection (`src/connection/tests/hostile.rs`), hostile agents on the control
//! connection beside its reader (`src/far/tests.rs`).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod agent;
mod bench;
mod engine;
mod engine_bench;
mod fidelity;
mod grants;
mod lengths;
mod links;
mod order;
mod packed;
mod patches;
mod paths;
mod strangers;
