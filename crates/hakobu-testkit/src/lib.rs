//! placeholder
pub mod conformance;
pub mod link;
pub mod sshd;
