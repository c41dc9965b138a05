//! Stores the packets in transit in one block of memory that is allocated once.

use std::collections::VecDeque;

/// The packets in the order in which they leave. Each is contiguous in a circular block of bytes, so small packets
/// take little space.
#[derive(Debug)]
pub(super) struct PacketRing {
    bytes: Box<[u8]>,
    packets: VecDeque<RingSlot>,
    packets_most: usize,
    /// The offset for the next packet.
    head: usize,
    /// The maximum size of a packet in bytes.
    packet_most_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct RingSlot {
    due_ns: u64,
    start: usize,
    length: usize,
}

impl PacketRing {
    /// Creates a ring with `memory_bytes` for packets of up to `packet_most_bytes`.
    pub(super) fn new(memory_bytes: usize, packet_most_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.max(2 * packet_most_bytes);
        Self {
            bytes: vec![0; memory_bytes].into_boxed_slice(),
            packets: VecDeque::with_capacity(1024),
            // An acknowledgement has at least 40 bytes.
            packets_most: memory_bytes / 40,
            head: 0,
            packet_most_bytes,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns a slot for one packet of the maximum size, or `None` if the ring is full. [`push`](Self::push)
    /// occupies it; until then the same slot is returned.
    pub(super) fn space(&mut self) -> Option<&mut [u8]> {
        let wanted = self.packet_most_bytes;
        let Some(oldest) = self.packets.front().map(|slot| slot.start) else {
            // When empty, start at the beginning, so that an idle link uses few pages.
            self.head = 0;
            return self.bytes.get_mut(..wanted);
        };
        if self.packets.len() >= self.packets_most {
            return None;
        }
        if self.head > oldest && self.bytes.len() - self.head < wanted {
            self.head = 0;
        }
        // With packets inside, `head == oldest` would mean a full ring. Requiring one more byte than wanted avoids
        // that state.
        if self.head <= oldest && oldest - self.head <= wanted {
            return None;
        }
        self.bytes.get_mut(self.head..self.head + wanted)
    }

    /// Adds a packet: the first `length` bytes of the latest [`space`](Self::space).
    pub(super) fn push(&mut self, length: usize, due_ns: u64) {
        let length = length.min(self.packet_most_bytes);
        self.packets.push_back(RingSlot { due_ns, start: self.head, length });
        self.head += length;
    }

    /// Returns the time at which the oldest packet is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.packets.front().map(|slot| slot.due_ns)
    }

    /// Returns the oldest packet, with its time.
    pub(super) fn front(&self) -> Option<(u64, &[u8])> {
        let slot = self.packets.front()?;
        let packet = self.bytes.get(slot.start..slot.start + slot.length)?;
        Some((slot.due_ns, packet))
    }

    /// Removes the oldest packet.
    pub(super) fn pop(&mut self) {
        self.packets.pop_front();
    }

    /// Returns a ring of `memory_bytes` with the same packets. Those that do not fit are dropped.
    pub(super) fn resized(&self, memory_bytes: usize) -> Self {
        let mut other = Self::new(memory_bytes, self.packet_most_bytes);
        for slot in &self.packets {
            let packet = &self.bytes[slot.start..slot.start + slot.length];
            if let Some(space) = other.space() {
                space[..slot.length].copy_from_slice(packet);
                other.push(slot.length, slot.due_ns);
            }
        }
        other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(ring: &mut PacketRing, number: u64, length: usize) -> bool {
        let Some(space) = ring.space() else {
            return false;
        };
        space[..length].fill(number as u8);
        ring.push(length, number);
        true
    }

    fn take(ring: &mut PacketRing, length: usize) -> Option<u64> {
        let (due_ns, packet) = ring.front()?;
        assert_eq!(packet, vec![due_ns as u8; length], "packet {due_ns}");
        ring.pop();
        Some(due_ns)
    }

    /// Fills and empties the ring in uneven steps, so that head and tail wrap at every offset. Each packet must come
    /// out unchanged.
    #[test]
    fn packets_survive_going_round() {
        let mut ring = PacketRing::new(1000, 100);
        let length = |number: u64| (number * 37 % 100 + 1) as usize;
        let (mut next, mut oldest) = (0, 0);
        for step in 0..5000 {
            for _ in 0..step % 17 {
                if put(&mut ring, next, length(next)) {
                    next += 1;
                }
            }
            for _ in 0..step % 13 {
                if let Some(number) = take(&mut ring, length(oldest)) {
                    assert_eq!(number, oldest);
                    oldest += 1;
                }
            }
        }
        assert!(oldest > 5000, "only {oldest} packets went through");
    }

    #[test]
    fn a_full_ring_takes_no_more_and_recovers() {
        let mut ring = PacketRing::new(1000, 100);
        let mut count = 0;
        while put(&mut ring, count, 100) {
            count += 1;
        }
        assert!((8..=10).contains(&count), "{count} packets of 100 in 1000");
        assert_eq!(take(&mut ring, 100), Some(0));
        assert_eq!(take(&mut ring, 100), Some(1));
        assert!(put(&mut ring, count, 100));
    }

    #[test]
    fn resizing_keeps_packets() {
        let mut ring = PacketRing::new(1000, 100);
        for number in 0..5 {
            assert!(put(&mut ring, number, 80));
        }
        take(&mut ring, 80);
        let mut larger = ring.resized(5000);
        for number in 1..5 {
            assert_eq!(take(&mut larger, 80), Some(number));
        }
        assert_eq!(larger.next_due_ns(), None);
    }
}
