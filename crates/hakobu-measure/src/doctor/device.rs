//! Reads facts about network devices.

use std::net::IpAddr;

use hakobu_core::host::BOND_PORTS_MAX;
use hakobu_core::host::{
    Bond, HostFacts, KernelName, NETWORK_DEVICES_MAX, NetworkDevice, Offloads, PacketBuffers,
    QueueDiscipline, WayOut,
};
use hakobu_sys::ethtool::{self, Feature};

use super::system_root::SystemRoot;
use super::{netlink, queues};

/// Network facts that only the kernel reports, and no file.
pub trait Hardware {
    /// Returns how a connection to an address leaves this machine.
    fn way_out(&self, toward: IpAddr) -> Option<WayOut>;
    /// Returns the queues of a device.
    fn queues(&self, name: &str) -> Vec<QueueDiscipline>;
    /// Returns the operations that the device takes over from the processor.
    fn offloads(&self, name: &[u8]) -> Option<Offloads>;
    /// Returns the size of the ring for received packets.
    fn receive_ring(&self, name: &[u8]) -> Option<PacketBuffers>;
}

/// The kernel that this process runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct NetworkKernel;

impl Hardware for NetworkKernel {
    fn way_out(&self, toward: IpAddr) -> Option<WayOut> {
        let route = netlink::route(toward).ok()?;
        Some(WayOut { device: KernelName::from(route.device.as_str()), routed: route.has_gateway })
    }

    fn queues(&self, name: &str) -> Vec<QueueDiscipline> {
        queues::of(name)
    }

    fn offloads(&self, name: &[u8]) -> Option<Offloads> {
        let is_on = |feature| ethtool::is_on(name, feature).ok();
        Some(Offloads {
            segmentation: is_on(Feature::Segmentation)?,
            late_segmentation: is_on(Feature::LateSegmentation)?,
            receive_joining: is_on(Feature::ReceiveJoining)?,
            send_checksums: is_on(Feature::SendChecksums)?,
            receive_checksums: is_on(Feature::ReceiveChecksums)?,
        })
    }

    fn receive_ring(&self, name: &[u8]) -> Option<PacketBuffers> {
        let (packets, packets_max) = ethtool::receive_ring_packets(name).ok()?;
        Some(PacketBuffers { packets, packets_max })
    }
}

pub(super) fn read(root: &SystemRoot<'_>, hardware: &dyn Hardware, facts: &mut HostFacts) {
    let names = root.names("/sys/class/net");
    if names.is_empty() {
        facts.unread("/sys/class/net: no network devices are to be seen");
    }
    let several_nodes = has_several_nodes(root);
    let devices = names.iter().filter_map(|name| device(root, hardware, name, several_nodes));
    facts.devices = devices.take(NETWORK_DEVICES_MAX).collect();
    // The kernel lists the queues of all devices at once, which may be thousands, so only the relevant device is
    // queried.
    let leaving = facts.leaving_device().map(|device| {
        let ports = device.bond.iter().flat_map(|bond| bond.ports.clone());
        std::iter::once(device.name.clone()).chain(ports).collect::<Vec<_>>()
    });
    let leaving = leaving.unwrap_or_default();
    for device in facts.devices.iter_mut().filter(|device| leaving.contains(&device.name)) {
        device.queues = hardware.queues(&device.name.shown());
        // This queue takes its limit from the device.
        let room = root.number(&format!("/sys/class/net/{}/tx_queue_len", device.name.shown()));
        let plain = device.queues.iter_mut().filter(|queue| queue.kind.is("pfifo_fast"));
        plain.for_each(|queue| queue.packets_max = room);
    }
}

/// Returns true if the machine has several NUMA nodes.
pub(super) fn has_several_nodes(root: &SystemRoot<'_>) -> bool {
    root.has("/sys/devices/system/node/node1")
}

fn device(
    root: &SystemRoot<'_>,
    hardware: &dyn Hardware,
    name: &str,
    several_nodes: bool,
) -> Option<NetworkDevice> {
    let at = |attribute: &str| format!("/sys/class/net/{name}/{attribute}");
    // Files such as `bonding_masters` are not devices.
    let mtu_bytes = root.number(&at("mtu"))?;
    let bond = bond(root, name);
    let is_hardware = root.has(&at("device"));
    let speed_mbit =
        root.number::<i64>(&at("speed")).filter(|speed| *speed > 0 && (is_hardware || bond.is_some()));
    let count = |counter: &str| root.number(&at(&format!("statistics/{counter}"))).unwrap_or(0_u64);
    let node = root.number::<i32>(&at("device/numa_node")).filter(|_| several_nodes);
    Some(NetworkDevice {
        name: KernelName::from(name),
        up: root.text(&at("operstate")).is_some_and(|state| state == "up" || state == "unknown"),
        hardware: is_hardware,
        speed_bits_per_second: speed_mbit.map(|speed| speed.unsigned_abs().saturating_mul(1_000_000)),
        full_duplex: root.text(&at("duplex")).and_then(|duplex| match duplex.as_str() {
            "full" => Some(true),
            "half" => Some(false),
            _ => None,
        }),
        mtu_bytes,
        numa_node: node.and_then(|node| node.try_into().ok()),
        received_packets: count("rx_packets"),
        missed_packets: count("rx_missed_errors").saturating_add(count("rx_fifo_errors")),
        bond,
        offloads: is_hardware.then(|| hardware.offloads(name.as_bytes())).flatten(),
        receive_ring: is_hardware.then(|| hardware.receive_ring(name.as_bytes())).flatten(),
        queues: Vec::new(),
    })
}

fn bond(root: &SystemRoot<'_>, name: &str) -> Option<Bond> {
    let text = |attribute: &str| root.text(&format!("/sys/class/net/{name}/bonding/{attribute}"));
    // The value is a name and its number: `802.3ad 4`.
    let first = |text: String| KernelName::from(text.split_whitespace().next().unwrap_or_default());
    let mode = text("mode").map(first)?;
    let ports = text("slaves").unwrap_or_default();
    Some(Bond {
        mode,
        hash: text("xmit_hash_policy").map(first).unwrap_or_default(),
        ports: ports.split_whitespace().take(BOND_PORTS_MAX).map(KernelName::from).collect(),
        joined_ports: text("ad_num_ports").and_then(|count| count.parse().ok()),
    })
}

#[cfg(test)]
mod tests {
    use super::super::system_root::recorded::facts;
    use super::*;

    #[test]
    fn a_bond_knows_its_ports_and_a_virtual_device_has_no_speed() {
        let found = facts(
            &[
                ("sys/class/net/bonding_masters", "bond0\n"),
                ("sys/class/net/bond0/mtu", "9000\n"),
                ("sys/class/net/bond0/speed", "50000\n"),
                ("sys/class/net/bond0/operstate", "up\n"),
                ("sys/class/net/bond0/bonding/mode", "802.3ad 4\n"),
                ("sys/class/net/bond0/bonding/xmit_hash_policy", "layer2 0\n"),
                ("sys/class/net/bond0/bonding/slaves", "eno1 eno2\n"),
                ("sys/class/net/bond0/bonding/ad_num_ports", "2\n"),
                ("sys/class/net/eno1/mtu", "9000\n"),
                ("sys/class/net/eno1/speed", "25000\n"),
                ("sys/class/net/eno1/duplex", "full\n"),
                ("sys/class/net/eno1/device/numa_node", "1\n"),
                ("sys/class/net/eno1/statistics/rx_packets", "1000\n"),
                ("sys/class/net/eno1/statistics/rx_missed_errors", "3\n"),
                ("sys/class/net/tun0/mtu", "1500\n"),
                ("sys/class/net/tun0/speed", "10\n"),
                ("sys/class/net/down/mtu", "1500\n"),
                ("sys/class/net/down/speed", "-1\n"),
                ("sys/class/net/down/device/vendor", "0x8086\n"),
                ("sys/devices/system/node/node1/cpulist", "4-7\n"),
            ],
            None,
        );
        let device = |name: &str| found.device(&KernelName::from(name)).unwrap();
        assert_eq!(found.devices.len(), 4);
        let bond = device("bond0");
        assert_eq!((bond.up, bond.speed_bits_per_second), (true, Some(50_000_000_000)));
        let made_of = bond.bond.as_ref().unwrap();
        assert!(made_of.mode.is("802.3ad") && made_of.hash.is("layer2"));
        assert_eq!((made_of.ports.len(), made_of.joined_ports), (2, Some(2)));
        let port = device("eno1");
        assert_eq!((port.hardware, port.full_duplex, port.numa_node), (true, Some(true), Some(1)));
        assert_eq!((port.received_packets, port.missed_packets), (1000, 3));
        assert_eq!(device("tun0").speed_bits_per_second, None);
        assert_eq!(device("down").speed_bits_per_second, None);
    }

    #[test]
    fn the_kernel_tells_of_the_loopback_device() {
        let offloads = NetworkKernel.offloads(b"lo").unwrap();
        assert!(offloads.segmentation && offloads.send_checksums, "{offloads:?}");
        assert_eq!(NetworkKernel.receive_ring(b"lo"), None);
    }
}
