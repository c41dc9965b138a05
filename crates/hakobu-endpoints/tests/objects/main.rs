//! Tests the endpoints over buckets.

mod conformance;
mod memory_bucket;
mod resume;
