//! Advice on network devices, and on TCP settings that concern packet loss.

use std::time::Duration;

use hakobu_core::host::{Bond, HostFacts, NetworkDevice};
use hakobu_core::units::format_rate;

use super::finding::{Add, ExpectedGain, ExpectedRates, Finding, FindingHost, Severity, in_command};
use super::path_ends::PathEnds;
use super::queues;

const GIGABIT: u64 = 1_000_000_000;
/// The device speed from which the packet processing keeps a processor busy if the device does not do it.
const FAST_BITS_PER_SECOND: u64 = 10 * GIGABIT;
/// The device speed from which memory on another NUMA node is reported.
const VERY_FAST_BITS_PER_SECOND: u64 = 40 * GIGABIT;
/// The speed at or below which a current device probably has a bad cable or port.
const SLOW_BITS_PER_SECOND: u64 = 100_000_000;
/// The MTU in bytes below which packets are small.
const SMALL_MTU_BYTES: u32 = 1280;
/// The share of packets dropped by the device for lack of room that is considered regular, not incidental.
const MISSED_SHARE: f64 = 1e-5;
/// The minimum number of packets for a conclusion.
const PACKETS_MIN: u64 = 100_000;
/// The round-trip time from which loss recovery matters.
const LONG: Duration = Duration::from_millis(10);
/// The congestion controls that do not suit long network paths, or that yield to all others.
const SLOW_CONTROLS: [&str; 4] = ["reno", "lp", "vegas", "yeah"];

pub(super) fn judge(ends: &PathEnds<'_>, whose: FindingHost, facts: &HostFacts, findings: &mut Vec<Finding>) {
    let device = facts.leaving_device();
    let mut add = |id, severity, words: [String; 3], expected| {
        let [fact, why, command] = words;
        findings.push(Finding { id, whose, severity, fact, why, command, expected });
    };
    settings(ends, facts, &mut add);
    let Some(device) = device else { return };
    if let Some(bond) = &device.bond {
        bonding(ends, facts, device, bond, &mut add);
    }
    let ports = device.bond.iter().flat_map(|bond| &bond.ports).filter_map(|port| facts.device(port));
    let devices: Vec<_> = std::iter::once(device).chain(ports).collect();
    devices.iter().for_each(|device| queues::judge(ends, facts, device, &mut add));
    for device in devices.iter().filter(|device| device.hardware) {
        link(device, &mut add);
        room(device, &mut add);
        offloads(device, &mut add);
    }
    nodes(facts, device, &mut add);
}

fn settings(ends: &PathEnds<'_>, facts: &HostFacts, add: &mut Add<'_>) {
    let tcp = &facts.tcp;
    if tcp.selective_acknowledgements == Some(false) {
        let lost = match tcp.segments {
            Some((sent, again)) if sent >= PACKETS_MIN => {
                format!(
                    "; since it started {:.3} % of its packets were sent again",
                    again as f64 / sent as f64 * 100.0
                )
            }
            _ => String::new(),
        };
        let why =
            format!("where several packets are lost, they are sent again one for each round trip{lost}");
        let words = ["net.ipv4.tcp_sack is 0".to_owned(), why, "sysctl -w net.ipv4.tcp_sack=1".to_owned()];
        add("tcp-sack-off", Severity::Costs, words, None);
    }
    let faster_than_a_gigabit = ends.capacity().known().is_some_and(|rate| rate > GIGABIT as f64 / 8.0);
    if tcp.timestamps == Some(false) && faster_than_a_gigabit {
        let why = "above 1 Gbit/s TCP's numbers come round within 34 s, and without timestamps a late packet cannot be \
                   told from a new one"
            .to_owned();
        let words = [
            "net.ipv4.tcp_timestamps is 0".to_owned(),
            why,
            "sysctl -w net.ipv4.tcp_timestamps=1".to_owned(),
        ];
        add("tcp-timestamps-off", Severity::Costs, words, None);
    }
    let control = &tcp.congestion_control;
    if ends.way.round_trip >= LONG && SLOW_CONTROLS.iter().any(|slow| control.is(slow)) {
        let why = "after a loss a connection grows by one packet for each round trip, which takes minutes on a fast \
            link with a long round trip, or it yields to all others"
            .to_owned();
        let words = [
            format!("net.ipv4.tcp_congestion_control is {}", control.shown()),
            why,
            "sysctl -w net.ipv4.tcp_congestion_control=cubic".to_owned(),
        ];
        add("tcp-congestion-control", Severity::Costs, words, None);
    }
}

/// Reports a bond on which all connections between two machines use one port of several.
fn bonding(ends: &PathEnds<'_>, facts: &HostFacts, device: &NetworkDevice, bond: &Bond, add: &mut Add<'_>) {
    let name = in_command(&device.name, "DEVICE");
    let ports = bond.ports.len();
    let spreads = bond.mode.is("802.3ad") || bond.mode.is("balance-xor");
    if ports < 2 || !spreads {
        return;
    }
    if bond.joined_ports == Some(1) {
        let words = [
            format!("{} has {ports} ports, of which the switch uses one", device.name.shown()),
            "the others carry nothing until the switch has them in the same LACP group".to_owned(),
            format!("cat /proc/net/bonding/{name}  # then set up LACP for these ports on the switch"),
        ];
        return add("bond-ports-idle", Severity::Costs, words, None);
    }
    if bond.hash.is("layer3+4") || bond.hash.is("encap3+4") {
        return;
    }
    let speeds = bond.ports.iter().filter_map(|port| facts.device(port)?.speed_bits_per_second);
    let port = speeds.max().map(|bits| bits as f64 / 8.0);
    let all = ends.capacity().known();
    let lanes = ends.way.lanes.max(1);
    let rates = port.zip(all).map(|(port, all)| (port, all.min(port * f64::from(lanes))));
    let change = rates.map(|(before, after)| ExpectedRates { before, after: Some(after) });
    // The other end may not exceed the rate of one port.
    if rates.is_some_and(|(before, after)| after <= before * 1.1) || lanes < 2 {
        return;
    }
    let why = match port {
        Some(port) => {
            format!("all connections between two machines take one port, {} at most", format_rate(port))
        }
        None => "all connections between two machines take one port".to_owned(),
    };
    let words = [
        format!("{} spreads connections over {ports} ports by {}", device.name.shown(), bond.hash.shown()),
        why,
        format!("ip link set {name} type bond xmit_hash_policy layer3+4  # and the same on the switch"),
    ];
    let severity = if change.is_some() { Severity::Limits } else { Severity::Costs };
    let expected =
        change.map(|hakobu| ExpectedGain { hakobu: Some(hakobu), lanes, ..ExpectedGain::default() });
    add("bond-hash", severity, words, expected);
}

/// Judges the cable and the link partner.
fn link(device: &NetworkDevice, add: &mut Add<'_>) {
    let (shown, name) = (device.name.shown(), in_command(&device.name, "DEVICE"));
    if device.full_duplex == Some(false) {
        let words = [
            format!("{shown} runs at half duplex"),
            "it cannot send while it receives, and collisions cost most of the rate".to_owned(),
            format!("ethtool -s {name} autoneg on  # and the same at the switch's port"),
        ];
        add("device-half-duplex", Severity::Costs, words, None);
    }
    if let Some(bits) = device.speed_bits_per_second.filter(|bits| *bits <= SLOW_BITS_PER_SECOND) {
        let rate = bits as f64 / 8.0;
        let change = Some(ExpectedRates { before: rate, after: Some(GIGABIT as f64 / 8.0) });
        let expected = ExpectedGain { connection: change, hakobu: change, lanes: 1, times: None };
        let words = [
            format!("{shown} runs at {} Mbit/s", bits / 1_000_000),
            "devices of today have ten times that and more; a cable with a broken pair, or the port of the switch, is \
             the usual reason"
                .to_owned(),
            format!("ethtool {name}  # shows what both sides can; then another cable"),
        ];
        add("device-slow", Severity::Limits, words, Some(expected));
    }
    if device.mtu_bytes > 0 && device.mtu_bytes < SMALL_MTU_BYTES {
        let words = [
            format!("{shown} has an MTU of {}", device.mtu_bytes),
            format!("each packet costs the same, and takes {:.1} times as many as with 1500", {
                1448.0 / f64::from(device.mtu_bytes.saturating_sub(52).max(1))
            }),
            format!("ip link set {name} mtu 1500"),
        ];
        add("device-mtu-small", Severity::Costs, words, None);
    }
}

/// Judges the room for packets.
fn room(device: &NetworkDevice, add: &mut Add<'_>) {
    let share = device.missed_packets as f64 / device.received_packets.max(1) as f64;
    let Some(ring) = device.receive_ring.filter(|ring| ring.packets < ring.packets_max) else { return };
    if device.received_packets < PACKETS_MIN || share < MISSED_SHARE {
        return;
    }
    let words = [
        format!(
            "{} had no room for {} of {} packets, and has room for {} where {} are possible",
            device.name.shown(),
            device.missed_packets,
            device.received_packets,
            ring.packets,
            ring.packets_max
        ),
        "each of these was lost, and a connection slows down for each loss".to_owned(),
        format!("ethtool -G {} rx {}", in_command(&device.name, "DEVICE"), ring.packets_max),
    ];
    add("device-ring-small", Severity::Costs, words, None);
}

fn offloads(device: &NetworkDevice, add: &mut Add<'_>) {
    let is_fast = device.speed_bits_per_second.is_some_and(|bits| bits >= FAST_BITS_PER_SECOND);
    let Some(offloads) = device.offloads.filter(|_| is_fast) else { return };
    let all = [
        (offloads.segmentation, "tso", "it cuts no large sends into packets"),
        (offloads.late_segmentation, "gso", "the kernel cuts them early"),
        (offloads.receive_joining, "gro", "packets received are not joined"),
        (offloads.send_checksums, "tx", "it makes no checksums"),
        (offloads.receive_checksums, "rx", "it checks no checksums"),
    ];
    let off: Vec<_> = all.iter().filter(|(on, _, _)| !on).collect();
    if off.is_empty() {
        return;
    }
    let names: Vec<_> = off.iter().map(|(_, name, _)| *name).collect();
    let why: Vec<_> = off.iter().map(|(_, _, why)| *why).collect();
    let turn_on: Vec<_> = names.iter().map(|name| format!("{name} on")).collect();
    let words = [
        format!("{} has {} turned off", device.name.shown(), names.join(", ")),
        format!("{}: the processor does that for each packet", why.join(", ")),
        format!("ethtool -K {} {}", in_command(&device.name, "DEVICE"), turn_on.join(" ")),
    ];
    add("device-offloads-off", Severity::Costs, words, None);
}

/// Reports a device on another NUMA node than all fast disks.
fn nodes(facts: &HostFacts, device: &NetworkDevice, add: &mut Add<'_>) {
    let is_fast = device.speed_bits_per_second.is_some_and(|bits| bits >= VERY_FAST_BITS_PER_SECOND);
    let ports =
        device.bond.iter().flat_map(|bond| &bond.ports).filter_map(|port| facts.device(port)?.numa_node);
    let Some(node) = device.numa_node.or_else(|| ports.min()).filter(|_| is_fast) else { return };
    let disks = facts.disks.iter().filter(|disk| !disk.rotational);
    let others: Vec<_> = disks.filter_map(|disk| disk.numa_node).collect();
    if others.is_empty() || others.contains(&node) {
        return;
    }
    let words = [
        format!("{} is on NUMA node {node}, and the disks are on others", device.name.shown()),
        "each byte crosses between processors; which node is better depends on which of the two is slower"
            .to_owned(),
        format!("numactl --cpunodebind={node} --membind={node} hakobu copy …"),
    ];
    add("numa-device-and-disks", Severity::Costs, words, None);
}
