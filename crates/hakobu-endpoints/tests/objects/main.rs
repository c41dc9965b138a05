//! Tests the endpoints over buckets.

#![allow(clippy::unwrap_used)]

mod conformance;
mod copies;
mod endless;
mod growth;
mod memory_bucket;
mod ranges;
mod removals;
mod resume;
mod servers;
mod sidecars;
