//! Detection of content that moved within a file: blocks of the old version, found at any offset of the new one.
//!
//! The idea is rsync's (Tridgell, "Efficient Algorithms for Sorting and Synchronization", 1999, chapter 3): one side
//! sums the blocks of the old file, the other rolls a sum over the new file byte by byte. The sum is CRC-64/NVME:
//! processors compute it for a block at memory speed, and it can be rolled. It is linear, so the contribution of a byte
//! that leaves the window can be removed. No second, stronger sum is sent: what is assembled from old blocks is checked
//! as a whole.

use crate::checksum::crc64;
use crate::extent::CHUNK_BYTES;

/// The maximum number of blocks of a file that are summed.
pub const BLOCKS_MAX: u64 = 1 << 20;
/// The maximum number of ranges of the old file that one operation copies from.
pub const COPIES_MAX: usize = 256;
/// The minimum block size in bytes.
const BLOCK_BYTES_MIN: u64 = 4096;
/// The maximum block size in bytes for files of up to 64 GiB.
const BLOCK_BYTES_USUAL: u64 = 64 * 1024;
/// The number of blocks that is sufficient for a small file.
const BLOCKS_USUAL: u64 = 1 << 14;
/// The bit-reversed polynomial of CRC-64/NVME, from the catalogue of parametrised CRC algorithms.
const POLYNOMIAL: u64 = 0x9a6c_9329_ac4b_c9b5;

/// A range of the old file and its place in the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The offset in the range that is assembled.
    pub at: u32,
    /// The length in bytes.
    pub length: u32,
    /// The offset in the old file.
    pub from: u64,
}

impl Copied {
    /// Returns the end offset in the range that is assembled.
    pub fn end(&self) -> u64 {
        u64::from(self.at) + u64::from(self.length)
    }
}

/// Returns the block size for an old file of this size, a power of two. `None` if there would be more than
/// [`BLOCKS_MAX`] blocks, which is the case above 4 TiB.
pub fn block_bytes(old_bytes: u64) -> Option<u64> {
    let shared = |blocks: u64| old_bytes.div_ceil(blocks).max(1).checked_next_power_of_two();
    let usual = shared(BLOCKS_USUAL)?.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_USUAL);
    Some(usual.max(shared(BLOCKS_MAX)?)).filter(|bytes| *bytes <= CHUNK_BYTES)
}

/// Returns true if this is a valid block size: a power of two within the limits. A peer's value must be checked too.
pub fn is_block_length(bytes: u64) -> bool {
    bytes.is_power_of_two() && (BLOCK_BYTES_MIN..=CHUNK_BYTES).contains(&bytes)
}

/// Returns the sums of the complete blocks in `bytes`, in order.
pub fn sums(bytes: &[u8], block_bytes: usize) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(block_bytes).map(crc64)
}

/// The blocks of an old file, indexed by their sums.
#[derive(Debug)]
pub struct BlockTable {
    block_bytes: usize,
    /// The sums by block number, each without `constant`.
    sums: Vec<u64>,
    /// Block numbers by sum: open addressing, at most half full.
    slots: Vec<u32>,
    /// One bit for each value of a sum's leading bits, so that most sums need no lookup in the table.
    seen: Vec<u64>,
    /// The sum of a block of zeros. A CRC starts with all ones and is inverted at the end; without this constant, which
    /// results from both, it is linear.
    constant: u64,
    /// The contribution to the sum of a byte that leaves the window, by its value.
    leaves: Box<[u64; 256]>,
}

/// The number of bits of [`BlockTable::seen`] per block. Of sums without a block, one in 32 to 64 passes this filter.
const SEEN_BITS: usize = 32;
/// Marks an empty slot.
const EMPTY: u32 = u32::MAX;

impl BlockTable {
    /// Creates a table of blocks of the same size. Among blocks with equal sums, the first one is found.
    pub fn new(block_bytes: usize, sums: Vec<u64>) -> Self {
        let slots = vec![EMPTY; (2 * sums.len()).next_power_of_two().max(2)];
        let seen = vec![0; (SEEN_BITS * sums.len()).next_power_of_two().max(64) / 64];
        let constant = crc64(&vec![0; block_bytes]);
        let mut sums = sums;
        sums.iter_mut().for_each(|sum| *sum ^= constant);
        let mut table =
            Self { block_bytes, sums: Vec::new(), slots, seen, constant, leaves: leaves(block_bytes) };
        let mask = table.slots.len() - 1;
        for (number, sum) in (0..EMPTY).zip(&sums) {
            let bit = table.bit(*sum);
            table.seen[bit / 64] |= 1 << (bit % 64);
            let mut slot = *sum as usize & mask;
            while table.slots[slot] != EMPTY && sums[table.slots[slot] as usize] != *sum {
                slot = (slot + 1) & mask;
            }
            if table.slots[slot] == EMPTY {
                table.slots[slot] = number;
            }
        }
        table.sums = sums;
        table
    }

    /// Returns the block size in bytes.
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn bit(&self, sum: u64) -> usize {
        (sum >> 32) as usize & (self.seen.len() * 64 - 1)
    }

    /// Returns the block with this sum, preferably `next`.
    fn find(&self, sum: u64, next: Option<usize>) -> Option<usize> {
        let bit = self.bit(sum);
        if self.seen[bit / 64] & 1 << (bit % 64) == 0 {
            return None;
        }
        if next.is_some_and(|next| self.sums.get(next) == Some(&sum)) {
            return next;
        }
        let mask = self.slots.len() - 1;
        let mut slot = sum as usize & mask;
        while self.slots[slot] != EMPTY {
            let number = self.slots[slot] as usize;
            if self.sums[number] == sum {
                return Some(number);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    /// Finds non-overlapping blocks in `window` and adds them to `found`, joined where they are adjacent in both files.
    /// `first` is the offset in the old file at which the window would begin if it had moved by the same distance as
    /// the last find; that position is tried before all others.
    pub fn search(&self, window: &[u8], first: Option<i64>, found: &mut Vec<Copied>) {
        let length = self.block_bytes;
        let Some(last) = window.len().checked_sub(length) else { return };
        let whole = |at: usize| crc64(&window[at..at + length]) ^ self.constant;
        let (mut at, mut next) = (0, None);
        if let Some((begin, number)) = first.and_then(|first| self.first_block(first))
            && begin < length
            && begin <= last
            && self.sums.get(number) == Some(&whole(begin))
        {
            (at, next) = (begin, Some(number));
        }
        let mut sum = whole(at);
        loop {
            if let Some(number) = self.find(sum, next) {
                add(found, at, length, (number * length) as u64);
                (at, next) = (at + length, Some(number + 1));
                if at > last {
                    return;
                }
                sum = whole(at);
                continue;
            }
            next = None;
            let rolled = self.roll(window, at, sum);
            let Some((further, there)) = rolled else { return };
            (at, sum) = (further, there);
        }
    }

    /// Rolls on to the next position that may have a block. Returns the position and its sum.
    fn roll(&self, window: &[u8], at: usize, mut sum: u64) -> Option<(usize, u64)> {
        let pairs = window[at..].iter().zip(&window[at + self.block_bytes..]);
        for (rolled, (leaving, coming)) in (at + 1..).zip(pairs) {
            let step = STEPS[usize::from(sum as u8 ^ coming)];
            sum = step ^ (sum >> 8 ^ self.leaves[usize::from(*leaving)]);
            let bit = self.bit(sum);
            if self.seen[bit / 64] & 1 << (bit % 64) != 0 {
                return Some((rolled, sum));
            }
        }
        None
    }

    /// Returns the first block that begins inside a window at offset `first` of the old file: its position in the
    /// window and its number.
    fn first_block(&self, first: i64) -> Option<(usize, usize)> {
        let length = i64::try_from(self.block_bytes).ok()?;
        let number = first.max(0).checked_add(length - 1)? / length;
        let begin = number.checked_mul(length)?.checked_sub(first)?;
        Some((usize::try_from(begin).ok()?, usize::try_from(number).ok()?))
    }
}

/// Adds a block. It is joined to the last range if it continues that.
fn add(found: &mut Vec<Copied>, at: usize, length: usize, from: u64) {
    match found.last_mut() {
        Some(last) if last.end() == at as u64 && last.from + u64::from(last.length) == from => {
            last.length += length as u32;
        }
        _ => found.push(Copied { at: at as u32, length: length as u32, from }),
    }
}

/// The effect of one byte on a sum.
static STEPS: [u64; 256] = {
    let mut steps = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ POLYNOMIAL } else { sum >> 1 };
            bit += 1;
        }
        steps[byte] = sum;
        byte += 1;
    }
    steps
};

/// Returns, for each byte value, its contribution to the sum of itself followed by a whole block.
fn leaves(block_bytes: usize) -> Box<[u64; 256]> {
    let mut bytes = vec![0; block_bytes + 1];
    let constant = crc64(&bytes);
    let mut leaves = Box::new([0; 256]);
    for bit in 0..8 {
        bytes[0] = 1 << bit;
        let one = crc64(&bytes) ^ constant;
        let with_it = (0..256).filter(|byte| byte >> bit & 1 == 1);
        with_it.for_each(|byte: usize| leaves[byte] ^= one);
    }
    leaves
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bytes without any pattern.
    fn noise(length: usize, seed: u64) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    fn table(old: &[u8], block: usize) -> BlockTable {
        BlockTable::new(block, sums(old, block).collect())
    }

    fn found(old: &[u8], new: &[u8], block: usize) -> Vec<Copied> {
        let mut found = Vec::new();
        table(old, block).search(new, None, &mut found);
        for copied in &found {
            let (at, from, length) = (copied.at as usize, copied.from as usize, copied.length as usize);
            assert_eq!(new[at..at + length], old[from..from + length]);
        }
        found
    }

    #[test]
    fn a_sum_that_rolls_is_the_sum_of_where_it_is() {
        let (bytes, block) = (noise(9000, 1), 4096);
        let mut table = table(&bytes, block);
        // Every position may have a block.
        table.seen.fill(u64::MAX);
        let linear = |at: usize| crc64(&bytes[at..at + block]) ^ table.constant;
        for at in 0..bytes.len() - block {
            assert_eq!(table.roll(&bytes, at, linear(at)), Some((at + 1, linear(at + 1))), "{at}");
        }
        let end = bytes.len() - block;
        assert_eq!(table.roll(&bytes, end, linear(end)), None);
    }

    #[test]
    fn what_moved_is_found_wherever_it_is() {
        let old = noise(10 * 4096, 2);
        let copied = |at, length, from| Copied { at, length, from };
        let shifted = [b"x", &old[..]].concat();
        assert_eq!(found(&old, &shifted, 4096), [copied(1, 10 * 4096, 0)]);
        assert_eq!(found(&old, &old[100..], 4096), [copied(3996, 9 * 4096, 4096)]);
        // Two halves exchanged, with other data between them.
        let new = [&old[5 * 4096..], &noise(777, 3), &old[..5 * 4096]].concat();
        let (half, second) = (5 * 4096, 5 * 4096 + 777);
        assert_eq!(found(&old, &new, 4096), [copied(0, half, u64::from(half)), copied(second, half, 0)]);
        assert_eq!(found(&old, &noise(50_000, 4), 4096), []);
        assert_eq!(found(&old, &old[..4095], 4096), []);
        assert_eq!(found(&old[..4095], &old, 4096), []);
    }

    #[test]
    fn of_equal_blocks_the_one_that_follows_is_taken() {
        // Three blocks, the first of which is repeated before a different successor.
        let (a, b, c) = (noise(4096, 1), noise(4096, 2), noise(4096, 3));
        let old = [&a[..], &b, &a, &c].concat();
        let new = [&b[..], &a, &c].concat();
        assert_eq!(found(&old, &new, 4096), [Copied { at: 0, length: 3 * 4096, from: 4096 }]);
    }

    #[test]
    fn what_moved_as_before_is_looked_at_first() {
        let old = noise(8 * 4096, 5);
        let table = table(&old, 4096);
        let mut copied = Vec::new();
        // The window begins in the middle of a block.
        table.search(&old[6000..], Some(6000), &mut copied);
        assert_eq!(copied, [Copied { at: 2192, length: 6 * 4096, from: 8192 }]);
        // A wrong hint does no harm; nor does one that is impossible or would skip something.
        for wrong in [0, 7, -5000, i64::MAX, i64::MIN] {
            copied.clear();
            table.search(&old[6000..], Some(wrong), &mut copied);
            assert_eq!(copied, [Copied { at: 2192, length: 6 * 4096, from: 8192 }], "{wrong}");
        }
        // The old file's beginning is in the middle of the window, and its end precedes that.
        let exchanged = [&old[4 * 4096..], &old[..4096]].concat();
        copied.clear();
        table.search(&exchanged, Some(-4 * 4096), &mut copied);
        assert_eq!(copied.len(), 2);
    }

    #[test]
    fn blocks_grow_with_the_file_and_there_is_an_end() {
        let (kib, gib) = (1 << 10, 1 << 30);
        for (old_bytes, bytes) in [
            (0, Some(4 * kib)),
            (64 << 20, Some(4 * kib)),
            (gib, Some(64 * kib)),
            (64 * gib, Some(64 * kib)),
            (1024 * gib, Some(1024 * kib)),
            (4096 * gib, Some(4096 * kib)),
            (4096 * gib + 1, None),
            (u64::MAX, None),
        ] {
            assert_eq!(block_bytes(old_bytes), bytes, "{old_bytes}");
            assert!(bytes.is_none_or(is_block_length));
        }
        assert!(!is_block_length(2048) && !is_block_length(5000) && !is_block_length(8 << 20));
    }
}
