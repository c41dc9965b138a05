//! The real program against a real rsync daemon, and over ssh with a real rsync on the other side. rsync itself is the
//! referee: it has to find nothing left to do.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod bench;
mod daemons;
mod directions;
mod interruptions;
mod logins;
#[path = "../program/mod.rs"]
mod program;
mod removal;
mod versions;
