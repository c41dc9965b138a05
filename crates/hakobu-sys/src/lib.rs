//! Safe functions around the system calls and memory operations that need `unsafe`. This crate must not make
//! decisions.

pub mod block;
pub mod durable;
pub mod ethtool;
pub mod extended;
pub mod memory;
pub mod mode;
pub mod netns;
pub mod process;
pub mod processor;
pub mod signal;
pub mod standard;
pub mod tcp_info;
pub mod terminal;
pub mod tun;
