//! The real program from end to end, against a real OpenSSH server.
//!
//! Most of these need root, for servers, users, mounts and network namespaces. Without it they fail, unless
//! HAKOBU_NO_ROOT=1 leaves them out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod agents;
mod attributes;
mod azure;
mod buckets;
mod changes;
mod compression;
mod connecting;
mod content;
mod digest;
mod directions;
mod disk_list;
mod doctor;
mod durable;
mod evidence;
mod fidelity;
mod filters;
mod google;
mod identity;
mod input;
mod itemize;
mod job_limits;
mod jobs;
mod kills;
mod kinds;
mod large_directories;
mod limits;
mod ls;
mod make_data;
mod network;
mod options;
mod outcomes;
mod over_ssh;
mod peers;
mod probe;
mod probe_obstacles;
mod probe_stores;
#[path = "../program/mod.rs"]
mod program;
mod refusals;
mod settings;
mod slow;
mod store_costs;
mod store_evidence;
mod store_faults;
mod store_hosts;
mod store_links;
mod store_sidecars;
mod stores;
mod streams;
mod surprises;
mod sync;
mod sync_kills;
mod tuning;
mod updates;
