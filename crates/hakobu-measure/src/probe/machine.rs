//! Measures one core of this host: copying, hashing, compressing. Each is timed for some milliseconds, and the fastest
//! turn counts, because other load can only slow a turn down.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use hakobu_core::host::KernelName;
use hakobu_core::probe::{CompressorFigures, MachineFigures};

use super::quota;

/// The bytes copied per turn, more than fits in any cache.
const COPIED_BYTES: usize = 32 << 20;
/// The bytes hashed at once: a piece, as in a run.
const HASHED_BYTES: usize = 256 << 10;
const HASHED_PIECES: usize = 16;
/// The bytes compressed per turn.
const PACKED_BYTES: usize = 1 << 20;
const TURNS: u32 = 5;
const LIMIT: Duration = Duration::from_millis(60);
/// The levels of zstd that are fast enough for a network link.
const LEVELS: [i32; 4] = [-5, -1, 1, 3];

/// Measures this host; a gentle measurement takes one turn each.
pub fn figures(gentle: bool, boot_id: String, processors: u16) -> MachineFigures {
    let turns = if gentle { 1 } else { TURNS };
    MachineFigures {
        boot_id: KernelName::new(boot_id),
        processors,
        quota_permille: quota::permille(Path::new("/")),
        copied_bytes_per_second: copied(turns),
        hashed_bytes_per_second: hashed(turns),
        compressors: packed(turns),
    }
}

fn copied(turns: u32) -> u64 {
    let (source, mut target) = (vec![1_u8; COPIED_BYTES], vec![0_u8; COPIED_BYTES]);
    best(COPIED_BYTES, turns, || {
        target.copy_from_slice(black_box(&source));
        black_box(&target);
    })
}

fn hashed(turns: u32) -> u64 {
    let content = vec![0x5a; HASHED_BYTES];
    best(HASHED_BYTES * HASHED_PIECES, turns, || {
        (0..HASHED_PIECES).for_each(|_| {
            black_box(blake3::hash(black_box(&content)));
        });
    })
}

fn packed(turns: u32) -> Vec<CompressorFigures> {
    let text = text();
    let mut packed = vec![0; zstd::zstd_safe::compress_bound(text.len())];
    let of = |level: i32| {
        let mut packer = zstd::bulk::Compressor::new(level).ok()?;
        let mut length = 0;
        let bytes_per_second = best(text.len(), turns, || {
            length = packer.compress_to_buffer(black_box(&text), &mut packed).unwrap_or(0);
        });
        let packed_permille = (length * 1000 / text.len().max(1)) as u32;
        (length > 0).then(|| CompressorFigures {
            name: KernelName::new(format!("zstd {level}")),
            bytes_per_second,
            packed_permille,
        })
    };
    LEVELS.into_iter().filter_map(of).collect()
}

/// Returns text of recurring words, as in logs and source code. It compresses to about a third.
fn text() -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "connection",
        "the",
        "of",
        "error",
        "=",
        "and",
        "source",
        "target",
        "while",
        "reading",
        "0x",
        "return",
        "if",
        "bytes",
        "from",
        "warning:",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut text = Vec::with_capacity(PACKED_BYTES + 64);
    while text.len() < PACKED_BYTES {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = state >> 33;
        text.extend_from_slice(WORDS[(number % 16) as usize].as_bytes());
        match number >> 4 & 7 {
            0 => text.extend_from_slice(format!(" {}\n", number >> 8).as_bytes()),
            1 => text.extend_from_slice(format!("_{:x}(", number & 0xfff).as_bytes()),
            _ => text.push(b' '),
        }
    }
    text.truncate(PACKED_BYTES);
    text
}

/// Returns the bytes per second of the fastest turn. If there are several, a first one is not counted, because it may
/// touch new memory.
fn best(bytes: usize, turns: u32, mut work: impl FnMut()) -> u64 {
    let began = Instant::now();
    let mut least = Duration::MAX;
    if turns > 1 {
        work();
    }
    for turn in 0..turns {
        let turn_began = Instant::now();
        work();
        least = least.min(turn_began.elapsed());
        if turn > 0 && began.elapsed() > LIMIT {
            break;
        }
    }
    (bytes as f64 / least.as_secs_f64().max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_measured_and_text_packs() {
        let figures = figures(false, "boot".to_owned(), 2);
        assert!(figures.processors > 0 && !figures.boot_id.as_bytes().is_empty());
        for rate in [figures.copied_bytes_per_second, figures.hashed_bytes_per_second] {
            assert!((1_000_000..1_000_000_000_000).contains(&rate), "{rate}");
        }
        assert_eq!(figures.compressors.len(), LEVELS.len());
        for packed in figures.compressors {
            assert!((50..700).contains(&packed.packed_permille) && packed.bytes_per_second > 0, "{packed:?}");
        }
    }
}
