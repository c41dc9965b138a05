//! Tests the endpoints over buckets.

#![allow(clippy::unwrap_used)]

mod attributes;
mod conformance;
mod endless;
mod growth;
mod memory_bucket;
mod resume;
mod servers;
mod sidecars;
