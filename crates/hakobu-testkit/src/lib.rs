//! placeholder
pub mod link;
pub mod sshd;
