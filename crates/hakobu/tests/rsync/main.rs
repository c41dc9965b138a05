//! The real program with a real rsync daemon. rsync itself checks the results: it has to find nothing left to do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bench;
mod daemons;
mod directions;
mod interruptions;
#[path = "../program/mod.rs"]
mod program;
mod removal;
mod versions;
