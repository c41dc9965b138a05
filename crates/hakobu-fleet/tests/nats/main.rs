//! The bus over real servers of NATS, with the accounts that the book shows.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../copies/fleet.rs"]
mod fleet;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../copies/lease_watch.rs"]
mod lease_watch;
#[path = "../copies/trees.rs"]
mod trees;

mod calls;
mod copies;
mod hostile;
mod servers;
mod upgrade;
