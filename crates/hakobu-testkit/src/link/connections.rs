//! Limits the rate of each TCP connection, independently of the others: packets wait here for their connection's
//! turn, and continue to the transmitter that all connections share. Has no clock: the time is passed in, in
//! nanoseconds.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::settings::LinkSettings;

/// The number of connections from which the table is searched for idle ones.
const TIDY_AT_LEAST: usize = 256;
/// The memory for the waiting packets of all connections, in bytes.
const WAITING_MOST_BYTES: usize = 256 << 20;

/// One direction of a TCP connection, identified by the addresses and ports in its packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LinkConnection {
    addresses: [u8; 8],
    ports: [u8; 4],
}

impl LinkConnection {
    /// Returns the connection of an IPv4 packet; `None` if it is not TCP, or not the first fragment.
    pub(super) fn of(packet: &[u8]) -> Option<Self> {
        let header = packet.get(..20)?;
        let is_tcp = header[0] >> 4 == 4 && header[9] == 6;
        let is_later_part = header[6] & 0x1f != 0 || header[7] != 0;
        if !is_tcp || is_later_part {
            return None;
        }
        let header_bytes = usize::from(header[0] & 0x0f) * 4;
        Some(Self {
            addresses: header[12..20].try_into().ok()?,
            ports: packet.get(header_bytes..header_bytes + 4)?.try_into().ok()?,
        })
    }
}

/// A waiting packet. Packets are ordered by the time at which they continue, then by arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingPacket {
    goes_at_ns: u64,
    number: u64,
    slot: usize,
    length: usize,
}

/// The connections of one direction of a link.
#[derive(Debug)]
pub(super) struct Connections {
    rate_bits_per_second: Option<u64>,
    queue_limit_bytes: u64,
    packet_most_bytes: usize,
    /// The time at which each connection's transmitter will have sent everything.
    free_at_ns: HashMap<LinkConnection, u64>,
    tidy_at: usize,
    waiting: BinaryHeap<Reverse<WaitingPacket>>,
    count: u64,
    /// The slots for packets of the maximum size, and the offsets of the free ones.
    bytes: Vec<u8>,
    free: Vec<usize>,
}

impl Connections {
    pub(super) fn new(settings: &LinkSettings) -> Self {
        Self {
            rate_bits_per_second: settings.connection_rate_bits_per_second,
            queue_limit_bytes: settings.connection_queue_limit_bytes(),
            packet_most_bytes: settings.mtu as usize,
            free_at_ns: HashMap::new(),
            tidy_at: TIDY_AT_LEAST,
            waiting: BinaryHeap::new(),
            count: 0,
            bytes: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Applies rate and queue size to future packets.
    pub(super) fn change(&mut self, settings: &LinkSettings) {
        self.rate_bits_per_second = settings.connection_rate_bits_per_second;
        self.queue_limit_bytes = settings.connection_queue_limit_bytes();
    }

    /// Returns true if connections have a rate limit.
    pub(super) fn are_limited(&self) -> bool {
        self.rate_bits_per_second.is_some()
    }

    /// Accepts a packet that arrived at `now_ns`. Returns false if its connection's queue has no room for it; such a
    /// packet takes no transmission time.
    pub(super) fn take(&mut self, now_ns: u64, connection: LinkConnection, packet: &[u8]) -> bool {
        let Some(rate) = self.rate_bits_per_second else { return false };
        let start_ns = self.free_at_ns.get(&connection).map_or(now_ns, |free| now_ns.max(*free));
        let waiting_ns = start_ns - now_ns;
        let waiting_bytes = u128::from(waiting_ns) * u128::from(rate) / 8_000_000_000;
        // An idle transmitter accepts any packet, however small the queue.
        if waiting_ns > 0 && waiting_bytes + packet.len() as u128 > u128::from(self.queue_limit_bytes) {
            return false;
        }
        let Some(slot) = self.place(packet) else { return false };
        let duration_ns = (packet.len() as u128 * 8_000_000_000).div_ceil(u128::from(rate));
        let goes_at_ns = start_ns.saturating_add(duration_ns as u64);
        self.free_at_ns.insert(connection, goes_at_ns);
        self.waiting.push(Reverse(WaitingPacket {
            goes_at_ns,
            number: self.count,
            slot,
            length: packet.len(),
        }));
        self.count += 1;
        self.tidy(now_ns);
        true
    }

    /// Returns the time at which the next packet continues.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.waiting.peek().map(|Reverse(next)| next.goes_at_ns)
    }

    /// Returns the next packet if it continues by `now_ns`, with its time.
    pub(super) fn front(&self, now_ns: u64) -> Option<(u64, &[u8])> {
        let Reverse(next) = self.waiting.peek()?;
        let packet = self.bytes.get(next.slot..next.slot + next.length)?;
        (next.goes_at_ns <= now_ns).then_some((next.goes_at_ns, packet))
    }

    /// Removes the next packet.
    pub(super) fn pop(&mut self) {
        if let Some(Reverse(gone)) = self.waiting.pop() {
            self.free.push(gone.slot);
        }
    }

    fn place(&mut self, packet: &[u8]) -> Option<usize> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.bytes.len() + self.packet_most_bytes > WAITING_MOST_BYTES => return None,
            None => {
                let slot = self.bytes.len();
                self.bytes.resize(slot + self.packet_most_bytes, 0);
                slot
            }
        };
        self.bytes.get_mut(slot..slot + packet.len())?.copy_from_slice(packet);
        Some(slot)
    }

    /// Forgets idle connections. They accumulate no credit, so they are equivalent to new ones.
    fn tidy(&mut self, now_ns: u64) {
        if self.free_at_ns.len() >= self.tidy_at {
            self.free_at_ns.retain(|_, free| *free > now_ns);
            self.tidy_at = (self.free_at_ns.len() * 2).max(TIDY_AT_LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    /// 1000 bytes per millisecond for each connection, of which 4000 may wait.
    fn connections() -> Connections {
        Connections::new(&LinkSettings {
            connection_rate_bits_per_second: Some(8_000_000),
            queue_bytes: Some(4000),
            ..LinkSettings::with_rtt(Duration::from_millis(20))
        })
    }

    /// A TCP packet from this port.
    fn packet(port: u16, length: usize) -> Vec<u8> {
        let mut packet = vec![0; length];
        (packet[0], packet[9]) = (0x45, 6);
        packet[12..20].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        packet[20..22].copy_from_slice(&port.to_be_bytes());
        packet
    }

    fn port_of(packet: &[u8]) -> u16 {
        u16::from_be_bytes([packet[20], packet[21]])
    }

    #[test]
    fn each_connection_gets_its_rate_and_no_more() {
        let mut connections = connections();
        let mut passed = HashMap::<u16, u64>::new();
        // For a second, three connections want twice their rate, and a fourth wants half of it.
        for tick in 0..1000 {
            for (port, every) in [(1, 1), (2, 1), (3, 1), (4, 4)] {
                for _ in 0..if tick % every == 0 { 2 } else { 0 } {
                    let packet = packet(port, 1000);
                    let connection = LinkConnection::of(&packet).unwrap();
                    connections.take(tick * MS, connection, &packet);
                }
            }
            while let Some((at_ns, packet)) = connections.front(tick * MS) {
                assert!(at_ns <= tick * MS);
                *passed.entry(port_of(packet)).or_default() += packet.len() as u64;
                connections.pop();
            }
        }
        for port in 1..=3 {
            assert_eq!(passed[&port], 999_000, "port {port}");
        }
        assert_eq!(passed[&4], 500_000);
    }

    #[test]
    fn a_connection_keeps_its_order_and_a_full_queue_drops() {
        let mut connections = connections();
        let one = LinkConnection::of(&packet(1, 100)).unwrap();
        let lengths = [1000, 200, 1500, 40, 1200];
        let taken = lengths.map(|length| connections.take(0, one, &packet(1, length)));
        assert_eq!(taken, [true; 5]);
        assert!(!connections.take(0, one, &packet(1, 1000)), "3940 bytes wait already");
        let two = LinkConnection::of(&packet(2, 100)).unwrap();
        assert!(connections.take(0, two, &packet(2, 1000)), "another has a queue of its own");
        let mut left = Vec::new();
        while let Some((_, packet)) = connections.front(u64::MAX) {
            left.extend((port_of(packet) == 1).then_some(packet.len()));
            connections.pop();
        }
        assert_eq!(left, lengths);
        assert_eq!(connections.next_ns(), None);
    }

    #[test]
    fn quiet_connections_are_forgotten_and_places_used_again() {
        let mut connections = connections();
        for port in 0..10_000_u16 {
            let packet = packet(port, 1000);
            let now_ns = u64::from(port) * 10 * MS;
            assert!(connections.take(now_ns, LinkConnection::of(&packet).unwrap(), &packet));
            assert_eq!(connections.next_ns(), Some(now_ns + MS));
            connections.pop();
        }
        assert!(connections.free_at_ns.len() <= TIDY_AT_LEAST, "{}", connections.free_at_ns.len());
        assert_eq!(connections.bytes.len(), 1500);
    }

    #[test]
    fn only_tcp_has_connections() {
        let tcp = packet(7, 60);
        assert!(LinkConnection::of(&tcp).is_some());
        assert_ne!(LinkConnection::of(&tcp), LinkConnection::of(&packet(8, 60)));
        let with = |at: usize, byte: u8| {
            let mut other = tcp.clone();
            other[at] = byte;
            LinkConnection::of(&other)
        };
        assert_eq!(with(9, 17), None, "UDP");
        assert_eq!(with(0, 0x60), None, "IPv6");
        assert_eq!(with(7, 1), None, "a later part");
        assert_eq!(LinkConnection::of(&tcp[..21]), None);
        assert_eq!(LinkConnection::of(&[]), None);
    }
}
