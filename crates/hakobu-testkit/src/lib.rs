//! placeholder
pub mod conformance;
pub mod faults;
pub mod link;
pub mod sshd;
