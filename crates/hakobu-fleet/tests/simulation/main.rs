//! A fleet of simulated brokers that lose messages, die, sleep through their leases and come back, under a leader that is
//! killed as well. Nothing waits for real time, and a seed gives the same history each time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod announcements;
mod broker;
mod division;
mod faulty_ledger;
mod reach;
mod refused_brokers;
mod schedules;
mod shared_limits;
mod sightings;
mod tests;
mod waiting;
mod world;
