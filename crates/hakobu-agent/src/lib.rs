//! Runs transfers between hosts: logs in over ssh, starts agents, makes data connections, opens endpoints, and
//! carries out copies from the request to the result.
//!
//! Controller and agents use it alike: each can run the engine, reach a [remote target](near) or
//! [serve a target](serve). This crate must not draw anything or parse the command line: its results are values,
//! events and errors.

pub mod agent;
pub mod controller;
pub mod join;
pub mod look;
pub mod restrict;
pub mod side;
pub mod stream;

pub mod lock;
pub mod machine;
mod mounts;
mod sha256;
