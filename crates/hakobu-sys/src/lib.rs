//! placeholder
pub mod netns;
pub mod process;
pub mod tcp_info;
pub mod tun;
