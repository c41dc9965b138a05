//! Tests of the interface over HTTP, with a real server on a real socket.

#![allow(clippy::expect_used, clippy::unwrap_used)]

mod delays;
mod events;
mod http;
mod lists;
mod openapi;
mod rate;
mod roles;
mod secrets;
mod sessions;
mod test_server;
