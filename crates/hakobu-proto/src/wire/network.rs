//! The wire format of facts about network devices and TCP.

use hakobu_core::host::{BOND_PORTS_MAX, QUEUES_MAX};

use super::bounded::{BoundedList, BoundedName};
use super::mirror::mirror;

mirror! {
    struct NetworkDevice of hakobu_core::host::NetworkDevice {
        name: BoundedName,
        up: bool,
        hardware: bool,
        speed_bits_per_second: Option<u64>,
        full_duplex: Option<bool>,
        mtu_bytes: u32,
        numa_node: Option<u16>,
        received_packets: u64,
        missed_packets: u64,
        bond: Option<Bond>,
        offloads: Option<Offloads>,
        receive_ring: Option<PacketBuffers>,
        queues: BoundedList<TaskQueue, QUEUES_MAX>,
    }
}

mirror! {
    struct Tcp of hakobu_core::host::Tcp {
        receive_buffer_bytes: Option<[u64; 3]>,
        send_buffer_bytes: Option<[u64; 3]>,
        receive_buffer_grows: Option<bool>,
        window_share: Option<i8>,
        window_scaling: Option<bool>,
        selective_acknowledgements: Option<bool>,
        timestamps: Option<bool>,
        congestion_control: BoundedName,
        segments: Option<(u64, u64)>,
    }
}

mirror! {
    struct WayOut of hakobu_core::host::WayOut {
        device: BoundedName,
        routed: bool,
    }
}

mirror! {
    struct Bond of hakobu_core::host::Bond {
        mode: BoundedName,
        hash: BoundedName,
        ports: BoundedList<BoundedName, BOND_PORTS_MAX>,
        joined_ports: Option<u32>,
    }
}

mirror! {
    struct Offloads of hakobu_core::host::Offloads {
        segmentation: bool,
        late_segmentation: bool,
        receive_joining: bool,
        send_checksums: bool,
        receive_checksums: bool,
    }
}

mirror! {
    struct PacketBuffers of hakobu_core::host::PacketBuffers {
        packets: u32,
        packets_max: u32,
    }
}

mirror! {
    struct TaskQueue of hakobu_core::host::QueueDiscipline {
        kind: BoundedName,
        is_root: bool,
        bytes_per_second: Option<u64>,
        connection_bytes_per_second: Option<u64>,
        packets_max: Option<u32>,
        bytes_max: Option<u32>,
        delay_us: Option<u64>,
        lost_per_million: Option<u32>,
    }
}
