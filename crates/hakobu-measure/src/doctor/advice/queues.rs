//! Advice on queues in which packets wait before they leave, and which limit the rate, delay packets or lose them.

use hakobu_core::host::{HostFacts, NetworkDevice, QueueDiscipline};
use hakobu_core::units::format_rate;

use super::finding::{Add, ExpectedGain, ExpectedRates, Severity, in_command};
use super::path_ends::{ENOUGH, PathEnds};

/// The identifier of the finding that a queue limits everything that leaves the machine.
pub const SHAPED: &str = "queue-shapes";

/// The bytes of IP and TCP headers with timestamps, and the additional bytes that a queue counts.
const HEADER_BYTES: f64 = 52.0;
const FRAME_BYTES: f64 = 14.0;
/// The first kernel version in which bbr paces by itself.
const PACES_ITSELF: (u16, u16) = (4, 13);
/// The size of a large send with the headers of its packets, in bytes. A queue without room for it never accepts one:
/// ten connections reached 4 of 1000 Mbit/s through a queue of 65 536 bytes, and the full rate through one of 100 000
/// bytes.
const SEND_BYTES: u32 = 70_000;
/// The minimum room in packets: a queue for three packets still reached 0.93 of the rate, one for two almost nothing.
const PACKETS_LEAST: u32 = 3;

/// The rates to which a machine's queues limit outgoing content, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueLimits {
    /// The limit for all connections together.
    pub all: f64,
    /// The limit for each connection.
    pub one: f64,
}

impl QueueLimits {
    /// Returns the limits of the queues of the device that packets leave by.
    pub fn of(facts: &HostFacts) -> Self {
        let least = |rate: fn(&QueueDiscipline) -> Option<u64>| {
            let Some(device) = facts.leaving_device() else { return f64::INFINITY };
            let rates = device.queues.iter().filter(|queue| queue.is_root).filter_map(rate);
            rates.min().map_or(f64::INFINITY, |rate| content(device, rate))
        };
        Self {
            all: least(|queue| queue.bytes_per_second),
            one: least(|queue| queue.connection_bytes_per_second),
        }
    }

    /// Limits a rate that is shared by `connections` connections.
    pub fn bounded(self, rate: f64, connections: u16) -> f64 {
        rate.min(self.one * f64::from(connections)).min(self.all)
    }
}

/// Returns the share of a rate that is content, in bytes per second.
fn content(device: &NetworkDevice, bytes_per_second: u64) -> f64 {
    let mtu = f64::from(device.mtu_bytes.max(1280));
    bytes_per_second as f64 * (mtu - HEADER_BYTES) / (mtu + FRAME_BYTES)
}

/// Judges the queues of one device.
pub(super) fn judge(ends: &PathEnds<'_>, facts: &HostFacts, device: &NetworkDevice, add: &mut Add<'_>) {
    for queue in &device.queues {
        if queue.is_root {
            shaping(ends, device, queue, add);
            pacing(ends, device, queue, add);
            emulating(device, queue, add);
            unpaced(facts, device, queue, add);
        }
        short(device, queue, add);
    }
}

/// Reports a queue that limits everything that leaves.
fn shaping(ends: &PathEnds<'_>, device: &NetworkDevice, queue: &QueueDiscipline, add: &mut Add<'_>) {
    let Some(rate) = queue.bytes_per_second.map(|rate| content(device, rate)) else { return };
    if rate >= ends.wanted() * ENOUGH {
        return;
    }
    let (shown, name) = (device.name.shown(), in_command(&device.name, "DEVICE"));
    let kind = queue.kind.shown();
    let command = match kind.as_str() {
        "cake" => format!("tc qdisc change dev {name} root cake unlimited"),
        _ => format!("tc qdisc del dev {name} root"),
    };
    let words = [
        format!("{kind} holds what leaves by {shown} to {}", format_rate(rate)),
        "no transfer to the other machine gets more; leave it if a line that is slower than the device follows"
            .to_owned(),
        command,
    ];
    let hakobu = ExpectedRates { before: rate, after: ends.devices() };
    let expected = ExpectedGain { hakobu: Some(hakobu), lanes: ends.way.lanes, ..ExpectedGain::default() };
    add(SHAPED, Severity::Limits, words, Some(expected));
}

/// Reports a queue that limits each connection.
fn pacing(ends: &PathEnds<'_>, device: &NetworkDevice, queue: &QueueDiscipline, add: &mut Add<'_>) {
    let Some(rate) = queue.connection_bytes_per_second.map(|rate| content(device, rate)) else { return };
    if rate >= ends.wanted() * ENOUGH {
        return;
    }
    let (shown, name) = (device.name.shown(), in_command(&device.name, "DEVICE"));
    let kind = queue.kind.shown();
    let words = [
        format!("{kind} holds each connection that leaves by {shown} to {}", format_rate(rate)),
        "hakobu gets that with each of its lanes, other tools once".to_owned(),
        format!("tc qdisc replace dev {name} root fq"),
    ];
    let all = ends.capacity().bounded(rate * f64::from(ends.way.lanes.max(1)));
    let change =
        |before| Some(ExpectedRates { before, after: ends.devices().map(|after| after.max(before)) });
    let expected =
        ExpectedGain { connection: change(rate), hakobu: change(all), lanes: ends.way.lanes, times: None };
    add("queue-paces", Severity::Limits, words, Some(expected));
}

/// Reports network emulation that was left over from tests.
fn emulating(device: &NetworkDevice, queue: &QueueDiscipline, add: &mut Add<'_>) {
    let delay = queue.delay_us.map(|us| format!("delays packets by {} ms", us as f64 / 1e3));
    let loss = queue.lost_per_million.map(|lost| format!("loses {} % of them", f64::from(lost) / 1e4));
    let does: Vec<_> = delay.into_iter().chain(loss).collect();
    if does.is_empty() {
        return;
    }
    let words = [
        format!("{} on {} {}", queue.kind.shown(), device.name.shown(), does.join(" and ")),
        "it delays or drops packets, for tests, and every connection suffers from it".to_owned(),
        format!("tc qdisc del dev {} root", in_command(&device.name, "DEVICE")),
    ];
    add("queue-emulates", Severity::Costs, words, None);
}

/// Reports bbr on a kernel that leaves the pacing to the queue.
fn unpaced(facts: &HostFacts, device: &NetworkDevice, queue: &QueueDiscipline, add: &mut Add<'_>) {
    let is_old = facts.kernel.is_some_and(|version| version < PACES_ITSELF);
    // A queue that only distributes to several queues does not pace by itself.
    let paces = ["fq", "mq", "mqprio", "noqueue"].iter().any(|kind| queue.kind.is(kind));
    if !is_old || paces || !facts.tcp.congestion_control.is("bbr") {
        return;
    }
    let words = [
        format!("bbr with {} on {}", queue.kind.shown(), device.name.shown()),
        "before kernel 4.13 only fq sends packets at the rate that bbr wants; else they leave in bursts, which are lost on \
         the way"
            .to_owned(),
        format!("tc qdisc replace dev {} root fq", in_command(&device.name, "DEVICE")),
    ];
    add("queue-without-pacing", Severity::Costs, words, None);
}

/// Reports a queue without room for what is sent at once.
fn short(device: &NetworkDevice, queue: &QueueDiscipline, add: &mut Add<'_>) {
    let room = match (queue.packets_max, queue.bytes_max) {
        (Some(packets), _) if packets < PACKETS_LEAST => format!("{packets} packets"),
        (_, Some(bytes)) if bytes < SEND_BYTES => format!("{bytes} bytes"),
        _ => return,
    };
    let name = in_command(&device.name, "DEVICE");
    let command = match (queue.kind.is("pfifo_fast"), queue.is_root) {
        (true, _) => format!("ip link set dev {name} txqueuelen 1000"),
        (false, true) => format!("tc qdisc del dev {name} root"),
        (false, false) => format!("tc qdisc show dev {name}  # then the same with a larger limit"),
    };
    let words = [
        format!("{} on {} has room for {room}", queue.kind.shown(), device.name.shown()),
        "connections send up to 64 KiB at a time; what has no room is lost, again and again, and next to nothing gets through"
            .to_owned(),
        command,
    ];
    add("queue-short", Severity::Costs, words, None);
}
