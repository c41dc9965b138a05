//! Places that can hold data: what the engine reads from and writes to.
//!
//! An endpoint knows no command line and no peer. [`local`] is the file system of this machine, [`block`]
//! its block devices, [`sftp`] what an SFTP server
//! shows. [`store`] makes endpoints of whatever does whole steps on entries: [`memory`] and [`null`].

pub mod block;
pub mod common;

pub mod local;
pub mod memory;
pub mod null;
pub mod open;
pub mod sftp;
pub mod store;
