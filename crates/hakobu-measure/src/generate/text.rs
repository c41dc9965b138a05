//! Generates words as in logs, tables and source code, which compressors reduce to about half with some effort.
//!
//! Random bytes with zeros between them shrink as well, but cost a compressor almost nothing.

use super::content::{BLOCK_BYTES, derive, mix};

const BLOCK: usize = BLOCK_BYTES as usize;
/// The purpose passed to [`derive`].
const PURPOSE_TEXT: u64 = 0x7465_7874;
/// The number of words; the first ones are the most frequent.
const WORDS: u64 = 1 << 12;
/// The number of phrases, and of words in each. They produce longer matches.
const PHRASES: u64 = 1 << 10;
const PHRASE_WORDS: u64 = 4;
/// One letter for each six-bit value, with frequencies similar to English.
const LETTERS: &[u8; 64] = b"eeeeeeetttttaaaaaoooooiiiiinnnnnsssshhhhrrrrddddllluuccmmwfgypbv";

/// The text that belongs to a seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeededText {
    seed: u64,
}

impl SeededText {
    /// Creates the text of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Fills `buffer` with the text at `offset` bytes.
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let mut block = [0; BLOCK];
        let (mut at, mut rest) = (offset, buffer);
        while !rest.is_empty() {
            let within = (at % BLOCK_BYTES) as usize;
            let length = rest.len().min(BLOCK - within);
            let (part, behind) = rest.split_at_mut(length);
            self.write_block(at / BLOCK_BYTES, &mut block);
            part.copy_from_slice(&block[within..within + length]);
            at = at.wrapping_add(length as u64);
            rest = behind;
        }
    }

    fn write_block(&self, index: u64, block: &mut [u8; BLOCK]) {
        let mut state = derive(self.seed, PURPOSE_TEXT, index);
        let mut rest = &mut block[..];
        while !rest.is_empty() {
            state = mix(state.wrapping_add(1));
            rest = match state >> 60 {
                0..5 => number(state, rest),
                5..8 => {
                    let phrase = WORDS + (state & (PHRASES - 1)) * PHRASE_WORDS;
                    (phrase..phrase + PHRASE_WORDS).fold(rest, |rest, number| word(number, rest))
                }
                _ => {
                    // The square of numbers below one favours small values.
                    let even = state & 0xffff;
                    word((even * even * WORDS) >> 32, rest)
                }
            };
        }
    }
}

/// Writes the word with this number, 2 to 9 letters and a space, as far as it fits. Returns the remaining room.
fn word(number: u64, room: &mut [u8]) -> &mut [u8] {
    let bits = mix(number);
    let (letters, rest) = room.split_at_mut(room.len().min(3 + (bits >> 61) as usize));
    for (place, letter) in letters.iter_mut().enumerate() {
        *letter = LETTERS[(bits >> (6 * place) & 63) as usize];
    }
    if let Some(last) = letters.last_mut() {
        *last = b' ';
    }
    rest
}

/// Writes eight digits and a line end, as far as they fit. Returns the remaining room.
fn number(bits: u64, room: &mut [u8]) -> &mut [u8] {
    let (digits, rest) = room.split_at_mut(room.len().min(9));
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b'0' + (bits >> (5 * place) & 31) as u8 % 10;
    }
    if let Some(last) = digits.last_mut() {
        *last = b'\n';
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_part_is_that_of_the_whole() {
        let text = SeededText::new(7);
        let mut whole = vec![0; 5 * BLOCK];
        text.fill(0, &mut whole);
        for (offset, length) in [(0, 1), (4095, 2), (5000, 9000), (BLOCK, BLOCK)] {
            let mut part = vec![0; length];
            text.fill(offset as u64, &mut part);
            assert_eq!(part, whole[offset..offset + length]);
        }
        let mut other = vec![0; 5 * BLOCK];
        SeededText::new(8).fill(0, &mut other);
        assert_ne!(whole, other);
    }

    #[test]
    fn it_is_words_and_numbers() {
        let mut text = vec![0; 16 * BLOCK];
        SeededText::new(1).fill(0, &mut text);
        assert!(text.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b' ' | b'\n')));
        let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
        assert!((text.len() / 8..text.len() / 3).contains(&digits), "{digits}");
    }
}
