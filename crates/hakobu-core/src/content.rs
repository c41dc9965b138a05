//! The checksum of a small file's content, computed where the file is read and where it is written. It covers every
//! range at its offset and the length, so it detects content that is written at a different offset, twice, or not at
//! all.

use crate::checksum::Crc64;
use crate::zeros::ZEROS;

/// A content checksum that is being computed.
#[derive(Debug, Default)]
pub struct ContentSum {
    crc: Crc64,
    end: u64,
    is_out_of_order: bool,
}

impl ContentSum {
    /// Adds a range that was read or written at `offset`. Ranges come in order; gaps between them count as zeros.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        if offset < self.end {
            self.is_out_of_order = true;
            return;
        }
        self.add_zeros_until(offset);
        self.crc.update(bytes);
        self.end += bytes.len() as u64;
    }

    /// Returns the end offset of the last range.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the checksum for a file of `size_bytes` bytes. `None` if a range came twice or out of order, or ends
    /// beyond the file's end.
    pub fn value(mut self, size_bytes: u64) -> Option<u64> {
        if self.is_out_of_order || self.end > size_bytes {
            return None;
        }
        self.add_zeros_until(size_bytes);
        self.crc.update(&size_bytes.to_le_bytes());
        Some(self.crc.value())
    }

    fn add_zeros_until(&mut self, offset: u64) {
        while self.end < offset {
            let step = (offset - self.end).min(ZEROS.len() as u64);
            self.crc.update(&ZEROS[..step as usize]);
            self.end += step;
        }
    }
}

/// Returns the checksum of a file whose whole content is in `bytes`.
pub fn content_sum(bytes: &[u8]) -> u64 {
    let mut crc = Crc64::default();
    crc.update(bytes);
    crc.update(&(bytes.len() as u64).to_le_bytes());
    crc.value()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(ranges: &[(u64, &[u8])], size_bytes: u64) -> Option<u64> {
        let mut sum = ContentSum::default();
        ranges.iter().for_each(|(offset, bytes)| sum.add(*offset, bytes));
        sum.value(size_bytes)
    }

    #[test]
    fn the_value_is_that_of_the_bytes_at_their_places() {
        let whole = content_sum(b"abc\0\0\0\0xyz\0");
        assert_eq!(sum(&[(0, b"abc\0\0\0\0xyz\0")], 11), Some(whole));
        assert_eq!(sum(&[(0, b"ab"), (2, b"c\0"), (7, b"x"), (8, b"yz")], 11), Some(whole));
        assert_eq!(sum(&[], 0), Some(content_sum(b"")));
        assert_eq!(sum(&[], 3 << 20), Some(content_sum(&vec![0; 3 << 20])));
    }

    #[test]
    fn another_place_length_or_number_of_times_is_another_value() {
        let whole = sum(&[(0, b"abc"), (7, b"xyz")], 11);
        for (ranges, size_bytes) in [
            (&[(1, &b"abc"[..]), (7, b"xyz")][..], 11),
            (&[(0, b"abc"), (6, b"xyz")], 11),
            (&[(0, b"abc")], 11),
            (&[(7, b"xyz")], 11),
            (&[(0, b"abc"), (3, b"xyz")], 11),
            (&[(0, b"abc"), (7, b"xyz")], 10),
            (&[(0, b"abc"), (7, b"xyz")], 12),
        ] {
            assert_ne!(sum(ranges, size_bytes), whole, "{ranges:?}");
        }
        assert_eq!(sum(&[(0, b"abc"), (0, b"abc")], 11), None);
        assert_eq!(sum(&[(7, b"xyz"), (0, b"abc")], 11), None);
        assert_eq!(sum(&[(0, b"abc")], 2), None);
    }
}
