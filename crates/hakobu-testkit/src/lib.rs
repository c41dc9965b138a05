//! What tests need and the program never carries: the conformance suite of endpoints, injected
//! faults, emulated links between network namespaces, loop devices, and throw-away ssh servers.

pub mod conformance;
pub mod devices;
pub mod faults;
pub mod link;
pub mod partition_table;
pub mod sshd;
