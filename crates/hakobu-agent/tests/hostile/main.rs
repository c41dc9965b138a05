//! Tests with malicious peers. They hold the right key, so they pass the handshake, and then send frames that our own
//! client never would. Tests of peers with the wrong key, broken records and seals are next to the connection
//! (`src/connection/tests/hostile.rs`), those of malicious agents on the control channel next to its reader
//! (`src/far/tests.rs`).

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
