//! What tests need and the program never carries: the conformance suite of endpoints, injected
//! faults, emulated links between network namespaces, and throw-away ssh servers.

pub mod conformance;
pub mod faults;
pub mod link;
pub mod sshd;
