//! Disks and images from end to end: the real program, real devices, a real OpenSSH server.
//!
//! All of these need root, for loop devices, mounts and network namespaces. Without it they fail, unless
//! HAKOBU_NO_ROOT=1 leaves them out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bench;
mod changed;
mod consent;
mod directions;
mod in_place;
mod medium;
mod probe;
#[path = "../program/mod.rs"]
mod program;
mod refusals;
mod resume;
mod sizes;
mod unreadable;
