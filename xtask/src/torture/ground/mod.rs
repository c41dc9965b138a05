//! The ground that the torture harness stands on: file systems, hosts, faults, plants.
//!
//! - `file_system.rs`: file systems of every kind, mounted in images; `holds.rs`: what each of them can hold.
//! - `fuse/`: the file system that lies.
//! - `hosts.rs`: two hosts with sshd in network namespaces.
//! - `faults.rs`: what may go wrong; `run.rs`: a run of hakobu in which it does; `meddling.rs`: trees that change meanwhile;
//!   `processes.rs`: processes as `/proc` shows them.
//! - `plants.rs`: the faults that are planted in hakobu to see whether they are found.
//! - `leftovers.rs`: names of what is made outside the harness's folder, and tidying up after one that was killed.
//! - `command.rs`: `cargo xtask ground`, to try each of these by hand.
//!
//! Nothing in here uses a crate of hakobu's: it would not notice what both get wrong.

#![allow(dead_code, reason = "the harness above takes what it needs")]

pub mod command;
pub mod faults;
pub mod file_system;
pub mod fuse;
pub mod holds;
pub mod hosts;
pub mod leftovers;
pub mod meddling;
pub mod plants;
pub mod processes;
pub mod run;
