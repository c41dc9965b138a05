//! Detects contents that no known signature identifies, such as an encrypted disk without a header, or a database or an
//! archive written straight to the device.

use super::medium::ReadableMedium;

/// The number of bytes read at the beginning and at the end.
const EDGE_BYTES: u64 = 1 << 20;
/// The number of evenly spaced samples between them. On a rotating disk each costs one revolution.
const PIECES: u64 = 30;
/// The size of each sample in bytes.
const PIECE_BYTES: u64 = 4096;

/// Returns the offset of the first byte in samples of the range that differs from the first byte read. A wiped disk
/// repeats one byte, whichever it is, and counts as blank. Returns `None` also if nothing can be read. The range begins
/// at `start_bytes`, and the offset is relative to it.
pub fn first_content(medium: &dyn ReadableMedium, start_bytes: u64, size_bytes: u64) -> Option<u64> {
    let start_bytes = start_bytes.min(medium.size_bytes());
    let size_bytes = size_bytes.min(medium.size_bytes() - start_bytes);
    let head = (0, EDGE_BYTES.min(size_bytes));
    let tail = (size_bytes.saturating_sub(EDGE_BYTES), size_bytes.min(EDGE_BYTES));
    let step = (size_bytes / (PIECES + 1)) & !(PIECE_BYTES - 1);
    let between = (1..=PIECES).map(|number| (number * step, PIECE_BYTES.min(size_bytes)));
    let mut buffer = vec![0; EDGE_BYTES as usize];
    let mut blank = None;
    for (offset_bytes, length_bytes) in [head].into_iter().chain(between).chain([tail]) {
        let sample = &mut buffer[..length_bytes as usize];
        if sample.is_empty() || !medium.read(start_bytes + offset_bytes, sample) {
            continue;
        }
        let blank = *blank.get_or_insert(sample[0]);
        if let Some(at) = sample.iter().position(|byte| *byte != blank) {
            return Some(offset_bytes + at as u64);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::tests::Image;
    use super::*;

    const DISK: u64 = 64 << 20;

    fn of_whole(image: &Image) -> Option<u64> {
        first_content(image, 0, image.size_bytes())
    }

    #[test]
    fn a_part_is_looked_at_by_itself() {
        let image = Image::new(DISK).with(DISK / 2 + 5, [1]);
        assert_eq!(first_content(&image, DISK / 2, DISK / 2), Some(5));
        assert_eq!(first_content(&image, 0, DISK / 2), None);
        assert_eq!(first_content(&image, 2 * DISK, DISK), None);
    }

    #[test]
    fn one_byte_over_and_over_is_blank() {
        for size_bytes in [0, 1, 511, 4096, EDGE_BYTES, EDGE_BYTES + 512, DISK] {
            assert_eq!(of_whole(&Image::new(size_bytes)), None, "{size_bytes}");
            let wiped = Image::new(size_bytes).with(0, vec![0xff; size_bytes as usize]);
            assert_eq!(of_whole(&wiped), None, "{size_bytes}");
        }
    }

    #[test]
    fn content_is_seen_at_both_ends_and_between() {
        let step = (DISK / (PIECES + 1)) & !(PIECE_BYTES - 1);
        for at in [0, EDGE_BYTES - 1, step, 7 * step + 11, DISK - EDGE_BYTES, DISK - 1] {
            let seen = of_whole(&Image::new(DISK).with(at, [1]));
            // A change of the very first byte shows at the second one.
            assert_eq!(seen, Some(at.max(1)), "{at}");
        }
    }
}
