//! Fleets of real processes: control planes, brokers and nats-server, of which some are killed, stopped or cut off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod control_plane;
mod credentials;
mod draining;
mod faults;
mod large_files;
mod processes;
mod reach;
mod relay;
mod secret_search;
mod slurm;
mod small_fleet;
mod store_errands;
mod strangers;
mod streams;
mod systemd;
#[path = "../../../hakobu-fleet/tests/copies/trees.rs"]
mod trees;
