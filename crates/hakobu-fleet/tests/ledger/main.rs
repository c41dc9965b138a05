//! One suite for all ledgers, and what only a ledger in a file does.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod conformance;
mod crash;
mod database;
mod files;
mod first_version;
mod leadership;
mod model;
mod open_files;
mod rate;
mod samples;
mod whole_ledger;
