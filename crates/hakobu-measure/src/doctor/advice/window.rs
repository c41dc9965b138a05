//! Advice on TCP windows: they limit the data in flight on a connection, and thereby its rate on a long network path.
//!
//! Both ends limit the data in flight: the kernel derives the window from a share of the receive buffer, and the send
//! buffer holds unacknowledged data. The shares are measured (`docs/book/doctor.md`).

use hakobu_core::host::{HostFacts, Tcp};

use super::finding::{ExpectedGain, ExpectedRates, Finding, FindingHost, Severity};
use super::path_ends::{Capacity, ENOUGH, PathEnds};
use super::queues::QueueLimits;

/// The share of a receive buffer that becomes the window in kernels since 6.6, which derive it for each connection
/// from the size of the packets: 0.59 at an MTU of 1500 and 0.70 at 9000 were measured.
const RECEIVE_SHARE: f64 = 0.62;
/// The share of a send buffer that is in flight: a writer is woken when a third is free. 0.70 to 0.81 were measured.
const SEND_SHARE: f64 = 0.75;
/// The largest window without scaling, in bytes: 16 bits in the TCP header.
const UNSCALED_BYTES: f64 = 65_535.0;
/// The default maximum sizes of receive and send buffers.
const RECEIVE_DEFAULT_BYTES: u64 = 6 << 20;
const SEND_DEFAULT_BYTES: u64 = 4 << 20;
/// The largest buffer that is suggested, since each connection may use that much memory.
const BUFFER_BYTES_MAX: u64 = 64 << 20;

/// Returns the share of a receive buffer that becomes the window.
pub(super) fn receive_share(facts: &HostFacts) -> f64 {
    match (facts.kernel, facts.tcp.window_share) {
        (Some(version), Some(share)) if version < (6, 6) => match share.clamp(-31, 31) {
            share if share > 0 => 1.0 - 0.5_f64.powi(share.into()),
            share => 0.5_f64.powi((-share).into()),
        },
        _ => RECEIVE_SHARE,
    }
}

/// A setting that limits the data in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Setting {
    Scaling,
    Growth,
    ReceiveBuffer,
    SendBuffer,
}

/// The limit that one setting at one end imposes.
struct WindowLimit {
    whose: FindingHost,
    setting: Setting,
    /// The resulting limit of data in flight, in bytes.
    under_way: f64,
    /// The limit after the suggested change, and the new value of the setting.
    advised: Option<(f64, u64)>,
}

/// One direction of the network path.
struct PathDirection {
    words: &'static str,
    bounds: Vec<WindowLimit>,
    /// The limits of the sender's queues, if the sender is known.
    queues: Option<QueueLimits>,
}

impl PathDirection {
    fn now(&self) -> f64 {
        self.bounds.iter().map(|bound| bound.under_way).fold(f64::INFINITY, f64::min)
    }

    fn then(&self) -> f64 {
        let advised = |bound: &WindowLimit| bound.advised.map_or(bound.under_way, |(under_way, _)| under_way);
        self.bounds.iter().map(advised).fold(f64::INFINITY, f64::min)
    }
}

/// Judges both directions.
pub(super) fn judge(ends: &PathEnds<'_>, findings: &mut Vec<Finding>) {
    let here = (FindingHost::Here, ends.here);
    let there = ends.there.map(|facts| (FindingHost::There, facts));
    let directions = [
        direction(ends, "to the other machine", Some(here), there),
        direction(ends, "from the other machine", there, Some(here)),
    ];
    let mut found = Vec::new();
    for direction in &directions {
        for bound in direction.bounds.iter().filter(|bound| bound.advised.is_some()) {
            found.push(finding(ends, direction, bound));
        }
    }
    // Window scaling concerns both directions: the one with the larger gain is reported.
    for finding in found {
        let known = findings.iter_mut().find(|known| known.id == finding.id && known.whose == finding.whose);
        let most = |finding: &Finding| finding.expected.map_or(0.0, |expected| expected.most());
        match known {
            Some(known) if most(known) < most(&finding) => *known = finding,
            Some(_) => {}
            None => findings.push(finding),
        }
    }
}

fn direction(
    ends: &PathEnds<'_>,
    words: &'static str,
    sender: Option<(FindingHost, &HostFacts)>,
    receiver: Option<(FindingHost, &HostFacts)>,
) -> PathDirection {
    let mut bounds = Vec::new();
    if let Some((whose, facts)) = receiver {
        receiving(ends, whose, facts, &mut bounds);
    }
    if let Some((whose, facts)) = sender
        && let Some([.., most]) = facts.tcp.send_buffer_bytes
    {
        bounds.push(buffer_bound(ends, whose, Setting::SendBuffer, most, SEND_SHARE));
    }
    // Windows are scaled only if both ends support it.
    for (whose, facts) in [sender, receiver].into_iter().flatten() {
        if facts.tcp.window_scaling == Some(false) {
            let advised = is_held(ends, UNSCALED_BYTES, true).then_some((f64::INFINITY, 1));
            bounds.push(WindowLimit { whose, setting: Setting::Scaling, under_way: UNSCALED_BYTES, advised });
        }
    }
    PathDirection { words, bounds, queues: sender.map(|(_, facts)| QueueLimits::of(facts)) }
}

fn receiving(ends: &PathEnds<'_>, whose: FindingHost, facts: &HostFacts, bounds: &mut Vec<WindowLimit>) {
    let Some([_, first, most]) = facts.tcp.receive_buffer_bytes else { return };
    let share = receive_share(facts);
    if facts.tcp.receive_buffer_grows == Some(false) {
        let under_way = first as f64 * share;
        let advised = is_held(ends, under_way, true).then_some((f64::INFINITY, 1));
        bounds.push(WindowLimit { whose, setting: Setting::Growth, under_way, advised });
    }
    bounds.push(buffer_bound(ends, whose, Setting::ReceiveBuffer, most, share));
}

fn buffer_bound(
    ends: &PathEnds<'_>,
    whose: FindingHost,
    setting: Setting,
    bytes: u64,
    share: f64,
) -> WindowLimit {
    let default = match setting {
        Setting::SendBuffer => SEND_DEFAULT_BYTES,
        _ => RECEIVE_DEFAULT_BYTES,
    };
    let under_way = bytes as f64 * share;
    let advised = is_held(ends, under_way, bytes < default)
        .then(|| enough_bytes(ends, share, default))
        .filter(|enough| *enough > bytes)
        .map(|enough| (enough as f64 * share, enough));
    WindowLimit { whose, setting, under_way, advised }
}

/// Returns true if this amount of data in flight slows transfers down: those of hakobu with all its lanes, or those
/// of one connection if the setting was `lowered` from its default. A single connection on a long network path is
/// limited everywhere, which is no fault.
fn is_held(ends: &PathEnds<'_>, under_way: f64, lowered: bool) -> bool {
    let rate = under_way / ends.way.round_trip_s();
    let enough = ends.wanted() * ENOUGH;
    let lanes = f64::from(ends.way.lanes.max(1));
    rate * lanes < enough || (lowered && rate < enough)
}

/// Returns a sufficient buffer size: for one connection if the capacity is known, otherwise for all lanes together.
fn enough_bytes(ends: &PathEnds<'_>, share: f64, default: u64) -> u64 {
    let product = ends.wanted() * ends.way.round_trip_s() / share;
    let wanted = match ends.capacity() {
        Capacity::Measured(_) => product,
        Capacity::Devices(_) if ends.way.measured => product,
        _ => product / f64::from(ends.way.lanes.max(1)),
    };
    (wanted.min(BUFFER_BYTES_MAX as f64) as u64).next_power_of_two().clamp(default, BUFFER_BYTES_MAX)
}

fn expected(ends: &PathEnds<'_>, direction: &PathDirection) -> ExpectedGain {
    let capacity = ends.capacity();
    let lanes = ends.way.lanes.max(1);
    let rate = |under_way: f64, connections: u16| {
        capacity.bounded(under_way / ends.way.round_trip_s() * f64::from(connections))
    };
    // If no end limits it any more and nothing else is known, at least the kernel's defaults apply.
    let then = match direction.then() {
        then if then.is_finite() => then,
        _ => RECEIVE_DEFAULT_BYTES as f64 * RECEIVE_SHARE,
    };
    let change = |connections| {
        let now = rate(direction.now(), connections);
        let before = direction.queues.map_or(now, |queues| queues.bounded(now, connections));
        ExpectedRates { before, after: Some(rate(then, connections)) }
    };
    ExpectedGain { connection: Some(change(1)), hakobu: Some(change(lanes)), lanes, times: None }
}

fn finding(ends: &PathEnds<'_>, direction: &PathDirection, bound: &WindowLimit) -> Finding {
    let facts = match (bound.whose, ends.there) {
        (FindingHost::There, Some(there)) => there,
        _ => ends.here,
    };
    let (id, fact, command) = words(&facts.tcp, bound);
    let rate = bound.under_way / ends.way.round_trip_s();
    let way = match ends.way.measured {
        true => format!("the round trip takes {}", ends.way.shown()),
        false => format!("on a way of {}", ends.way.shown()),
    };
    let why = format!(
        "{} may be under way on one connection, {way}, so one connection {} gets {} at most",
        hakobu_core::units::format_bytes(bound.under_way as u64),
        direction.words,
        hakobu_core::units::format_rate(rate),
    );
    let expected = Some(expected(ends, direction));
    Finding { id, whose: bound.whose, severity: Severity::Limits, fact, why, command, expected }
}

fn words(tcp: &Tcp, bound: &WindowLimit) -> (&'static str, String, String) {
    let advised = bound.advised.map_or(0, |(_, value)| value);
    let buffer = |name: &str, values: Option<[u64; 3]>| {
        let [least, first, most] = values.unwrap_or_default();
        let fact = format!("net.ipv4.{name} lets a buffer grow to {most} bytes");
        (fact, format!("sysctl -w net.ipv4.{name}=\"{least} {first} {advised}\""))
    };
    match bound.setting {
        Setting::Scaling => (
            "tcp-window-scaling-off",
            "net.ipv4.tcp_window_scaling is 0: windows have 65535 bytes at most".to_owned(),
            "sysctl -w net.ipv4.tcp_window_scaling=1".to_owned(),
        ),
        Setting::Growth => (
            "tcp-receive-buffer-fixed",
            "net.ipv4.tcp_moderate_rcvbuf is 0: receive buffers do not grow".to_owned(),
            "sysctl -w net.ipv4.tcp_moderate_rcvbuf=1".to_owned(),
        ),
        Setting::ReceiveBuffer => {
            let (fact, command) = buffer("tcp_rmem", tcp.receive_buffer_bytes);
            ("tcp-receive-buffer-small", fact, command)
        }
        Setting::SendBuffer => {
            let (fact, command) = buffer("tcp_wmem", tcp.send_buffer_bytes);
            ("tcp-send-buffer-small", fact, command)
        }
    }
}
