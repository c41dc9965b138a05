//! System calls and memory that need `unsafe`, each behind a safe function. Nothing is decided here.

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
