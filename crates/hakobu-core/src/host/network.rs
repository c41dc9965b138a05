//! What decides how fast TCP gets, and what network devices do.

use super::Name;

/// The kernel's settings of TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// `tcp_rmem`: the least, the first and the largest receive buffer in bytes.
    pub receive_buffer_bytes: Option<[u64; 3]>,
    /// `tcp_wmem`: the same of the send buffer.
    pub send_buffer_bytes: Option<[u64; 3]>,
    /// `tcp_moderate_rcvbuf`: whether receive buffers grow.
    pub receive_buffer_grows: Option<bool>,
    /// `tcp_adv_win_scale`: how much of a receive buffer is the window. Kernels from 6.6 on take no notice of it.
    pub window_share: Option<i8>,
    /// `tcp_window_scaling`: whether windows may be larger than 65 535 bytes.
    pub window_scaling: Option<bool>,
    /// `tcp_sack`: whether a receiver tells which packets it has.
    pub selective_acknowledgements: Option<bool>,
    /// `tcp_timestamps`.
    pub timestamps: Option<bool>,
    /// `tcp_congestion_control`.
    pub congestion_control: Name,
    /// Packets of TCP sent since the machine started, and how many of them again.
    pub segments: Option<(u64, u64)>,
}

/// How packets leave toward another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayOut {
    /// The device.
    pub device: Name,
    /// Whether they go to a router first.
    pub routed: bool,
}

/// Several devices used as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bond {
    /// How they are used, such as `802.3ad`.
    pub mode: Name,
    /// By what connections are spread over them, such as `layer2`.
    pub hash: Name,
    /// The devices.
    pub ports: Vec<Name>,
    /// How many of them the switch takes part with, for `802.3ad`.
    pub joined_ports: Option<u32>,
}

/// What a device does in the processor's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// It cuts large sends into packets.
    pub segmentation: bool,
    /// The kernel cuts large sends late, where the device does not.
    pub late_segmentation: bool,
    /// What is received is joined before TCP sees it.
    pub receive_joining: bool,
    /// It makes checksums.
    pub send_checksums: bool,
    /// It checks checksums.
    pub receive_checksums: bool,
}

/// Room for packets in a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ring {
    /// How many it has room for.
    pub packets: u32,
    /// How many it could have room for.
    pub packets_max: u32,
}

/// What packets wait in before a device sends them: a queueing discipline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Its name, such as `fq`.
    pub kind: Name,
    /// Whether it is the device's own, and not a part of another one.
    pub is_root: bool,
    /// What it holds all packets to, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// What it holds each connection to, in bytes per second.
    pub connection_bytes_per_second: Option<u64>,
    /// So many packets wait at most, where that is what it counts.
    pub packets_max: Option<u32>,
    /// So many bytes wait at most, where that is what it counts.
    pub bytes_max: Option<u32>,
    /// How much later packets leave, in microseconds, where it emulates a way.
    pub delay_us: Option<u64>,
    /// How many of a million packets it loses, where it emulates a way.
    pub lost_per_million: Option<u32>,
}
