//! Test support that must not be part of the program: the conformance suite for endpoints, fault injection, emulated
//! links between network namespaces, loop devices, disks that corrupt writes, throw-away servers for ssh, sshfs and
//! rsync, and virtual machines.

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
