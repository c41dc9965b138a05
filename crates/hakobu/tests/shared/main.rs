//! Processes that copy one tree together, and are killed and stopped meanwhile.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod ledger;
#[path = "../program/mod.rs"]
mod program;
mod share_text;
mod tests;
mod worker;
