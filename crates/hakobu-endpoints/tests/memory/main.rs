//! Tests of the engine between stores in memory.

#![allow(clippy::unwrap_used)]

mod bench;
mod conformance;
mod examined;
mod exchange;
mod million;
mod objects;
mod pages;
mod plain;
mod torture;
