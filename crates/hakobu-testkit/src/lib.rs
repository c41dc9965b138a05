//! What tests need and the program never carries: the conformance suite of endpoints, injected
//! faults, emulated links between network namespaces, loop devices, disks that do not keep what is
//! written, throw-away ssh servers, sshfs and rsync daemons, and virtual machines.

pub mod bad_medium;
pub mod conformance;
pub mod devices;
pub mod faults;
pub mod link;
pub mod partition_table;
pub mod rsyncd;
pub mod slow_fs;
pub mod sshd;
pub mod sshfs;
pub mod throttle;
pub mod vm;

mod random;
