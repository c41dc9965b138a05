//! From a request to an outcome: opens both ends, plans, runs, tries again, and keeps the records of jobs.
//!
//! [`copy::copy`] is the entry. The crate prints nothing: it reports through the observer, and asks through the prompts,
//! that it is given.

pub mod agent_client;
mod attempt;
mod carryover;
mod connect;
mod content_route;
pub mod copy;
mod deletion;
pub mod devices;
pub mod digest;
pub mod disks;
pub mod doctor;
mod entries_before;
mod error_paths;
mod event_log;
mod fit;
pub mod host;
mod job;
pub mod jobs;
pub mod list;
mod login;
mod machines;
mod opening;
pub mod passes;
mod plan;
pub mod probe;
mod relay;
mod retry;
mod sftp;
pub mod shared_run;
mod ssh_tunnels;
mod store;
mod timed_prompts;
pub mod transfer;
pub mod unfinished;
mod unit_exchange;
