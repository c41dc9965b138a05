//! Tests of the interface over HTTP.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod openapi;
