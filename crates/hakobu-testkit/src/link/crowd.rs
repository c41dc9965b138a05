//! Counts the active connections on a link, and computes the rate that remains with them. Has no clock: the time is
//! passed in, in nanoseconds.

use std::collections::HashMap;

use super::connections::LinkConnection;
use super::settings::{Crowding, LinkSettings};

/// The time without data after which a connection is idle.
const QUIET_NS: u64 = 500_000_000;
/// The interval at which connections are counted.
const COUNT_EVERY_NS: u64 = 50_000_000;
/// The minimum size of packets with data. Shorter ones are acknowledgements, keepalives and requests.
const DATA_LEAST_BYTES: usize = 500;
/// The minimum share of the rate that remains, with any number of connections.
const LEFT_LEAST: f64 = 0.1;

/// The connections of one direction of a link.
#[derive(Debug)]
pub(super) struct Crowd {
    crowding: Option<Crowding>,
    /// The time at which each connection last sent data.
    seen_ns: HashMap<LinkConnection, u64>,
    counted_ns: u64,
}

impl Crowd {
    pub(super) fn new(settings: &LinkSettings) -> Self {
        Self { crowding: settings.crowding, seen_ns: HashMap::new(), counted_ns: 0 }
    }

    /// Applies the cost of connections from now on.
    pub(super) fn change(&mut self, settings: &LinkSettings) {
        self.crowding = settings.crowding;
    }

    /// Returns true if the number of connections matters.
    pub(super) fn counts(&self) -> bool {
        self.crowding.is_some()
    }

    /// Records a packet. Returns the remaining share of the rate if the connections were counted again.
    pub(super) fn see(&mut self, now_ns: u64, packet: &[u8]) -> Option<f64> {
        let crowding = self.crowding?;
        if packet.len() >= DATA_LEAST_BYTES
            && let Some(connection) = LinkConnection::of(packet)
        {
            self.seen_ns.insert(connection, now_ns);
        }
        if now_ns < self.counted_ns.saturating_add(COUNT_EVERY_NS) {
            return None;
        }
        self.counted_ns = now_ns;
        self.seen_ns.retain(|_, seen_ns| now_ns.saturating_sub(*seen_ns) < QUIET_NS);
        let more = self.seen_ns.len().saturating_sub(usize::from(crowding.free));
        Some((1.0 - crowding.share * more as f64).max(LEFT_LEAST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// A TCP packet from this port.
    fn packet(port: u16, length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        (packet[0], packet[9]) = (0x45, 6);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet
    }

    #[test]
    fn each_connection_too_many_costs_as_long_as_it_is_at_work() {
        let crowding = Some(Crowding { free: 2, share: 0.2 });
        let mut crowd = Crowd::new(&LinkSettings { crowding, ..LinkSettings::default() });
        let mut left = 1.0;
        for tick in 0..1000_u64 {
            // Four connections send data in the first second, then only one. A fifth only acknowledges.
            for port in 0..if tick < 500 { 4 } else { 1 } {
                left = crowd.see(tick * 2 * MS, &packet(port, 1000)).unwrap_or(left);
            }
            left = crowd.see(tick * 2 * MS, &packet(9, 60)).unwrap_or(left);
            if tick == 499 {
                assert!((left - 0.6_f64).abs() < 1e-9, "{left}");
            }
        }
        assert!((left - 1.0_f64).abs() < 1e-9, "{left}");
    }

    #[test]
    fn something_is_always_left() {
        let crowding = Some(Crowding { free: 0, share: 0.5 });
        let mut crowd = Crowd::new(&LinkSettings { crowding, ..LinkSettings::default() });
        for port in 0..100 {
            crowd.see(1, &packet(port, 1000));
        }
        assert_eq!(crowd.see(100 * MS, &packet(0, 1000)), Some(LEFT_LEAST));
    }
}
