//! Test support that must not be part of the program: the conformance suite for endpoints, fault injection, emulated
//! links between network namespaces, loop devices, disks that corrupt writes, throw-away servers for ssh, sshfs,
//! rsync, S3, PostgreSQL, NATS and mail, an HTTP server that misbehaves, virtual machines, and the comparison of files and
//! trees.

pub mod bad_medium;
pub mod conformance;
pub mod devices;
pub mod faults;
pub mod file_difference;
pub mod free_port;
pub mod http;
pub mod immutable;
pub mod link;
pub mod nats;
pub mod partition_table;
pub mod postgres;
pub mod random;
pub mod rsyncd;
pub mod slow_fs;
pub mod smtp;
pub mod sshd;
pub mod sshfs;
pub mod stores;
pub mod throttle;
pub mod tree_difference;
pub mod vm;
