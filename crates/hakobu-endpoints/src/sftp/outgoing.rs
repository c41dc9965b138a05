//! What has still to be written to a server: segments, so that nothing is moved once it is in one of them.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use rustix::io::{Errno, write};

/// A segment of so many bytes takes no further packet.
const SEGMENT_BYTES: usize = 64 * 1024;
/// How many empty segments are kept for what is to come.
const SPARE_MAX: usize = 32;

/// Bytes on their way out, in order.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// None of them is empty.
    segments: VecDeque<Vec<u8>>,
    /// So much of the first one has been written.
    sent: usize,
    spare: Vec<Vec<u8>>,
}

impl Outgoing {
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// About how many bytes there are.
    pub(super) fn len(&self) -> usize {
        let whole: usize = self.segments.iter().map(Vec::len).sum();
        whole - self.sent
    }

    /// Where the next packet is written behind what is there. Something has to be.
    pub(super) fn end(&mut self) -> &mut Vec<u8> {
        if self.segments.back().is_none_or(|last| last.len() >= SEGMENT_BYTES) {
            self.segments.push_back(self.spare.pop().unwrap_or_default());
        }
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }

    /// Writes as much as the descriptor, which does not block, takes now. Whether it took anything.
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
        let (mut out, mut expected, mut arrived) = (Outgoing::default(), Vec::new(), Vec::<u8>::new());
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
