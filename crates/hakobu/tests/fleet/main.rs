//! Fleets of real processes: control planes, brokers and nats-server, of which some are killed, stopped or cut off.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod authority;
mod control_plane;
mod credentials;
mod draining;
mod encryption;
mod faults;
mod full_disk;
mod large_files;
#[path = "../../../hakobu-fleet/tests/copies/lease_watch.rs"]
mod lease_watch;
mod logs_and_health;
mod lost_ledgers;
mod lost_messages;
mod nats_troubles;
mod processes;
mod reach;
mod relay;
mod restarts;
mod schedules;
mod secret_search;
mod slurm;
mod small_fleet;
mod store_errands;
mod strangers;
mod streams;
mod systemd;
#[path = "../../../hakobu-fleet/tests/copies/trees.rs"]
mod trees;
