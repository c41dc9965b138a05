//! From a request to an outcome: opens both ends, plans, runs, tries again, and keeps the records of jobs.
//!
//! [`copy::copy`] is the entry. The crate prints nothing: it reports through the observer, and asks through the prompts,
//! that it is given.

mod attempt;
mod carryover;
pub mod copy;
mod deletion;
pub mod devices;
pub mod digest;
pub mod disks;
pub mod doctor;
mod entries_before;
pub mod far;
mod fit;
pub mod host;
mod job;
pub mod jobs;
mod login;
mod machines;
mod meet;
mod opening;
pub mod passes;
mod places;
mod plan;
pub mod probe;
mod relay;
mod retry;
mod sftp;
mod store;
mod through_ssh;
mod timed_prompts;
mod told;
pub mod transfer;
