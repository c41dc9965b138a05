//! The packets on their way, in one block of memory that is allocated once.

use std::collections::VecDeque;

/// Packets in the order they leave. Each lies in one piece in a circular block
/// of bytes, so small packets take little of it.
#[derive(Debug)]
pub(super) struct Ring {
    bytes: Box<[u8]>,
    packets: VecDeque<Slot>,
    packets_most: usize,
    /// Where the next packet goes.
    head: usize,
    /// The longest packet.
    packet_most_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    due_ns: u64,
    start: usize,
    length: usize,
}

impl Ring {
    /// Room for `memory_bytes` of packets of up to `packet_most_bytes`.
    pub(super) fn new(memory_bytes: usize, packet_most_bytes: usize) -> Self {
        let memory_bytes = memory_bytes.max(2 * packet_most_bytes);
        Self {
            bytes: vec![0; memory_bytes].into_boxed_slice(),
            packets: VecDeque::with_capacity(1024),
            // An acknowledgement has 40 bytes and more.
            packets_most: memory_bytes / 40,
            head: 0,
            packet_most_bytes,
        }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// A place for one packet of the longest size, or `None` when full. It is
    /// taken by [`push`](Self::push), and given again otherwise.
    pub(super) fn space(&mut self) -> Option<&mut [u8]> {
        let wanted = self.packet_most_bytes;
        let Some(oldest) = self.packets.front().map(|slot| slot.start) else {
            // Empty: begin anew, so that a quiet link keeps to a few pages.
            self.head = 0;
            return self.bytes.get_mut(..wanted);
        };
        if self.packets.len() >= self.packets_most {
            return None;
        }
        if self.head > oldest && self.bytes.len() - self.head < wanted {
            self.head = 0;
        }
        // `head == oldest` with packets inside would be a full ring: kept from
        // happening by asking for one byte more than wanted.
        if self.head <= oldest && oldest - self.head <= wanted {
            return None;
        }
        self.bytes.get_mut(self.head..self.head + wanted)
    }

    /// Keeps the first `length` bytes of the last [`space`](Self::space).
    pub(super) fn push(&mut self, length: usize, due_ns: u64) {
        let length = length.min(self.packet_most_bytes);
        self.packets.push_back(Slot { due_ns, start: self.head, length });
        self.head += length;
    }

    /// When the oldest packet is due.
    pub(super) fn next_due_ns(&self) -> Option<u64> {
        self.packets.front().map(|slot| slot.due_ns)
    }

    /// The oldest packet, with its time.
    pub(super) fn front(&self) -> Option<(u64, &[u8])> {
        let slot = self.packets.front()?;
        let packet = self.bytes.get(slot.start..slot.start + slot.length)?;
        Some((slot.due_ns, packet))
    }

    /// Gives up the oldest packet.
    pub(super) fn pop(&mut self) {
        self.packets.pop_front();
    }

    /// A ring of `memory_bytes` with the same packets; those that do not fit
    /// are left out.
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

    fn put(ring: &mut Ring, number: u64, length: usize) -> bool {
        let Some(space) = ring.space() else {
            return false;
        };
        space[..length].fill(number as u8);
        ring.push(length, number);
        true
    }

    fn take(ring: &mut Ring, length: usize) -> Option<u64> {
        let (due_ns, packet) = ring.front()?;
        assert_eq!(packet, vec![due_ns as u8; length], "packet {due_ns}");
        ring.pop();
        Some(due_ns)
    }

    /// Fills and empties by uneven steps, so that head and tail pass the end at
    /// every offset; each packet must come out as it went in.
    #[test]
    fn packets_survive_going_round() {
        let mut ring = Ring::new(1000, 100);
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
        let mut ring = Ring::new(1000, 100);
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
        let mut ring = Ring::new(1000, 100);
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
