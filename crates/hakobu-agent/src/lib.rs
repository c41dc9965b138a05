//! One host's part in a transfer, and the agent: the process that plays this part on another host.
//!
//! [`local_host`] opens what is on this host and runs the engine or serves the target; [`agent`] does the same for a
//! controller that sends requests over standard input. [`restrict`] limits an agent to one directory. This crate must not
//! draw anything or parse the command line: its results are values, events and errors.

pub mod agent;
pub mod controller;
pub mod inspect;
pub mod join;
pub mod local_host;
pub mod restrict;
pub mod store_place;
pub mod stream;

pub mod lock;
pub mod machine;
mod mounts;
mod sha256;
