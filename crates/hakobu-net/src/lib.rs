//! Data connections between two hosts, and the operations that travel on them.
//!
//! A [`connection`] is a TCP connection with TLS 1.3, pinned to a certificate of one run. [`remote_target`] is the target as the
//! engine sees it when it is on another host, [`target_server`] carries out the engine's operations on the host that has it.
//! [`channel`] frames control messages on any stream.
//!
//! This crate must not know ssh, nor how connections are agreed on: it is given sockets, fingerprints and limits.

pub mod acceptor;
pub mod channel;
pub mod cipher;
pub mod compression;
pub mod connection;
pub mod connection_time;
pub mod data_path;
pub mod joined_socket;
pub mod pending_handshakes;
pub mod pool;
pub mod remote_target;
pub mod stop;
pub mod target_server;
pub mod thread_time;
