//! Runs transfers between hosts: logs in over ssh, starts agents, makes data connections, opens endpoints, and
//! carries out copies from the request to the result.
//!
//! Controller and agents use it alike: each can run the engine, reach a [remote target](near) or
//! [serve a target](serve). This crate must not draw anything or parse the command line: its results are values,
//! events and errors.

pub mod agent;
pub mod copy;
pub mod devices;
pub mod digest;
pub mod disks;
pub mod doctor;
pub mod far;
pub mod jobs;
pub mod join;
pub mod look;
pub mod passes;
mod places;
pub mod probe;
pub mod restrict;
pub mod side;
pub mod stream;
pub mod transfer;

mod attempt;
mod carryover;
mod deletion;
mod entries_before;
mod fit;
pub mod host;
mod job;
mod lock;
mod login;
mod machine;
mod meet;
mod mounts;
mod opening;
mod plan;
mod relay;
mod retry;
mod rsync;
mod sftp;
mod sha256;
mod store;
mod through_ssh;
mod told;
