//! Endpoints: the places that hold data, which the engine reads from and writes to.
//!
//! This crate must not know the command line or a peer. [`local`] is the file system of this machine, [`block`] its
//! block devices, and [`sftp`] a directory on an SFTP server. [`store`] makes endpoints of stores that perform whole
//! operations on entries: [`memory`] and [`null`]. [`object`] are object stores.

pub mod block;
pub mod common;

pub mod local;
pub mod memory;
pub mod null;
pub mod object;
pub mod open;
pub mod sftp;
pub mod store;
