//! A queue of bytes to be written to a server, in segments, so that queued bytes are never moved.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::{Errno, write};

/// The size in bytes from which a segment accepts no further packet.
const SEGMENT_BYTES: usize = 64 * 1024;
/// The maximum number of empty segments that are kept for reuse.
const SPARE_MAX: usize = 32;

/// Bytes to be written, in order.
#[derive(Debug, Default)]
pub(super) struct OutgoingBytes {
    /// The segments, none of which is empty.
    segments: VecDeque<Vec<u8>>,
    /// The number of bytes of the first segment that have been written.
    sent: usize,
    spare: Vec<Vec<u8>>,
}

impl OutgoingBytes {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns the number of bytes in the queue.
    pub(super) fn len(&self) -> usize {
        let whole: usize = self.segments.iter().map(Vec::len).sum();
        whole - self.sent
    }

    /// Returns the buffer for the next packet. The caller must append at least one byte.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        if self.segments.back().is_none_or(|last| last.len() >= SEGMENT_BYTES) {
            self.segments.push_back(self.spare.pop().unwrap_or_default());
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Writes as much as the non-blocking descriptor accepts now. Returns true if it accepted anything.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write_to(&mut self, descriptor: impl AsFd) -> Result<bool, Errno> {
        let mut took = false;
        while let Some(first) = self.segments.front() {
            match write(&descriptor, &first[self.sent..]) {
                Ok(written) => {
                    took = true;
                    self.sent += written;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(errno) => return Err(errno),
            }
            if self.sent == first.len() {
                self.sent = 0;
                self.recycle();
            }
        }
        Ok(took)
    }

    fn recycle(&mut self) {
        let Some(mut first) = self.segments.pop_front() else { return };
        if self.spare.len() < SPARE_MAX {
            first.clear();
            self.spare.push(first);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn all_of_it_arrives_in_order_however_little_is_taken_at_a_time() {
        let (near, mut far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let (mut out, mut expected, mut arrived) = (OutgoingBytes::default(), Vec::new(), Vec::<u8>::new());
        let mut room = vec![0; 70_000];
        for length in [1, 300_000, 5, 64 * 1024, 64 * 1024 - 1, 7, 900_000] {
            let packet: Vec<u8> = (0..length).map(|at| (at * 31 % 251) as u8).collect();
            out.end().extend(&packet);
            expected.extend(packet);
            out.write_to(&near).unwrap();
        }
        assert!(!out.is_empty());
        while arrived.len() < expected.len() {
            let got = far.read(&mut room).unwrap();
            arrived.extend(&room[..got]);
            out.write_to(&near).unwrap();
        }
        assert!(arrived == expected && out.is_empty() && !out.write_to(&near).unwrap());
        drop(far);
        out.end().push(1);
        assert_eq!(out.write_to(&near), Err(Errno::PIPE));
    }
}
