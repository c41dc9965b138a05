//! Tests of the engine from a local source to a local target, with and without injected faults.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stderr, missing_docs, reason = "tests")]

mod bench;
mod cases;
mod chance;
mod compare;
mod exchange;
mod failures;
mod fatal;
mod fidelity;
mod leases;
mod medium;
mod merge;
mod moved;
mod names;
mod plain;
mod ranges;
mod remote;
mod removal;
mod resume;
mod slices;
mod tree;
mod updates;
mod view;
