//! The arguments of each verb, and the help that goes with them.
//!
//! Options of later versions are here as well, hidden, so that they are refused by name.

pub mod agent;
pub mod bench;
pub mod copy;
pub mod digest;
pub mod disks;
pub mod doctor;
pub mod explain;
pub mod filter;
pub mod jobs;
pub mod login;
pub mod ls;
pub mod make_data;
pub mod probe;
pub mod report;
pub mod settings;
