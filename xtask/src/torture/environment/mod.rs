//! The test environment of the torture harness: file systems, hosts, faults, planted faults.
//!
//! - `file_system.rs`: file systems of every kind, mounted from images; `capabilities.rs`: their capabilities.
//! - `fuse/`: the lying file system.
//! - `hosts.rs`: two hosts with sshd in network namespaces.
//! - `faults.rs`: the faults; `run.rs`: a run of hakobu with a fault; `tree_changes.rs`: trees that change during a
//!   run; `processes.rs`: processes, from `/proc`.
//! - `object_store/`: object stores behind proxies that spoil requests.
//! - `fleet/`: a control plane and brokers that share runs; `watched_process.rs`: processes that end with the harness.
//! - `plants.rs`: the faults that are planted in hakobu to see whether the harness finds them.
//! - `leftovers.rs`: names of what is created outside the harness's directory, and cleaning up after a harness that was
//!   killed.
//! - `command.rs`: `cargo xtask environment`, to try each of these by hand.
//!
//! Nothing in here uses a crate of hakobu's, since it would not notice shared errors.

#![allow(dead_code, reason = "the harness above takes what it needs")]

pub mod capabilities;
pub mod command;
pub mod faults;
pub mod file_system;
pub mod fleet;
mod free_port;
pub mod fuse;
pub mod hosts;
pub mod leftovers;
pub mod object_store;
pub mod plants;
pub mod processes;
pub mod run;
pub mod tree_changes;
pub mod watched_process;
