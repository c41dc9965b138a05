//! The settings of TCP and of network devices.

use super::KernelName;

/// The kernel's TCP settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// `tcp_rmem`: the minimum, initial and maximum receive buffer in bytes.
    pub receive_buffer_bytes: Option<[u64; 3]>,
    /// `tcp_wmem`: the minimum, initial and maximum send buffer in bytes.
    pub send_buffer_bytes: Option<[u64; 3]>,
    /// `tcp_moderate_rcvbuf`: true if receive buffers grow automatically.
    pub receive_buffer_grows: Option<bool>,
    /// `tcp_adv_win_scale`: the share of a receive buffer that is used as the window. Ignored by kernels from 6.6 on.
    pub window_share: Option<i8>,
    /// `tcp_window_scaling`: true if windows may exceed 65 535 bytes.
    pub window_scaling: Option<bool>,
    /// `tcp_sack`: true if a receiver reports which packets it has.
    pub selective_acknowledgements: Option<bool>,
    /// `tcp_timestamps`.
    pub timestamps: Option<bool>,
    /// `tcp_congestion_control`.
    pub congestion_control: KernelName,
    /// TCP segments sent since the machine started, and how many of them were retransmissions.
    pub segments: Option<(u64, u64)>,
}

/// The route of packets to another machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WayOut {
    /// The device.
    pub device: KernelName,
    /// True if they go through a router first.
    pub routed: bool,
}

/// Several network devices that are used as one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bond {
    /// The bonding mode, such as `802.3ad`.
    pub mode: KernelName,
    /// The transmit hash policy that spreads connections over the devices, such as `layer2`.
    pub hash: KernelName,
    /// The devices.
    pub ports: Vec<KernelName>,
    /// The number of devices that have joined the switch's aggregate, for `802.3ad`.
    pub joined_ports: Option<u32>,
}

/// The work that a device takes off the processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// The device splits large sends into packets.
    pub segmentation: bool,
    /// The kernel splits large sends late, if the device does not.
    pub late_segmentation: bool,
    /// Received packets are merged before TCP sees them.
    pub receive_joining: bool,
    /// The device computes checksums.
    pub send_checksums: bool,
    /// The device verifies checksums.
    pub receive_checksums: bool,
}

/// The packet buffers of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketBuffers {
    /// The configured number of packets.
    pub packets: u32,
    /// The maximum number of packets.
    pub packets_max: u32,
}

/// A queueing discipline, in which packets wait before a device sends them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueDiscipline {
    /// The name, such as `fq`.
    pub kind: KernelName,
    /// True if it is the device's root discipline, and not a part of another one.
    pub is_root: bool,
    /// The limit for all packets together, in bytes per second.
    pub bytes_per_second: Option<u64>,
    /// The limit for each connection, in bytes per second.
    pub connection_bytes_per_second: Option<u64>,
    /// The maximum number of waiting packets, if that is limited.
    pub packets_max: Option<u32>,
    /// The maximum number of waiting bytes, if that is limited.
    pub bytes_max: Option<u32>,
    /// The added delay in microseconds, if it emulates a network path.
    pub delay_us: Option<u64>,
    /// The packet loss in parts per million, if it emulates a network path.
    pub lost_per_million: Option<u32>,
}
