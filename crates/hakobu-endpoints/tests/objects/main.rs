//! Tests the endpoints over buckets.

#![allow(clippy::unwrap_used)]

mod conformance;
mod memory_bucket;
mod resume;
mod sidecars;
