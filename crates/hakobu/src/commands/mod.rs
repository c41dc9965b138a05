//! The commands: a module for each, with its arguments, the request that they stand for, and the function that runs
//! it.
//!
//! Options that are planned are defined, too, but hidden, so that they are refused by name.

pub mod agent;
pub mod bench;
pub mod broker;
pub mod complete;
pub mod completions;
pub mod copy;
pub mod digest;
pub mod disks;
pub mod doctor;
pub mod explain;
pub mod fleet;
pub mod jobs;
pub mod ls;
pub mod make_data;
pub mod man;
pub mod probe;
pub mod report;
pub mod serve;
pub mod settings;
pub mod shared;
