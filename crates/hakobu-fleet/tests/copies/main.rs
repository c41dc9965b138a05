//! Brokers of one process copy real trees together.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "tests")]

mod credentials;
mod fleet;
mod given_up;
mod large_files;
mod late_answers;
mod limits;
mod losses;
mod tests;
mod trees;
