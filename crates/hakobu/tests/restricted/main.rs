//! Agents that are restricted to one directory: by keys of a real OpenSSH server, against peers that send raw
//! messages, and by the kernel.
//!
//! Most of these need root, for servers and device nodes. Without it they fail, unless HAKOBU_NO_ROOT=1 leaves them out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod kernel;
mod keys;
#[path = "../program/mod.rs"]
mod program;
mod races;
mod raw;
mod requests;
mod sessions;
