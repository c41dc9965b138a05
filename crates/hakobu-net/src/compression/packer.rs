//! The sending half: compresses a lane's content if that pays.

use std::time::{Duration, Instant};

use crate::thread_time::thread_time;
use hakobu_core::compression::{Compression, CompressionStats, LEVEL_MAX, LEVEL_MIN};
use hakobu_core::counters::{FarTime, ThreadTime};
use hakobu_core::digest::Digest;
use hakobu_proto::compressed::CompressedHead;
use zstd::bulk::Compressor;

use super::pilot::{LevelPilot, PeerThreadShares, Window};

/// The interval at which the level is reconsidered.
const WINDOW: Duration = Duration::from_millis(200);
/// The interval at first, until a level was chosen: copying small files may take only a few seconds.
const FIRST_WINDOWS: Duration = Duration::from_millis(50);
/// The length of a connection's initial phase, at both ends.
pub const FIRST: Duration = Duration::from_secs(1);
/// The least length in bytes of content that is compressed.
const CONTENT_BYTES_MIN: usize = 512;
/// The number of parts of the content in a sample, and the bytes of each.
const SAMPLE_PARTS: usize = 4;
const SAMPLE_PART_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = SAMPLE_PARTS * SAMPLE_PART_BYTES;
/// The level for samples: it takes 3 µs to see that nothing shrinks.
const SAMPLE_LEVEL: i8 = -5;
/// The lowest level that uses entropy coding, and not only repetitions. Where nothing repeats, as in text of many
/// words, the levels below gain nothing.
const ENTROPY_LEVEL: i8 = 1;
/// The most payloads that are sent without a sample after one that did not shrink.
const UNSEEN_MAX: u32 = 7;

/// Compresses what one lane sends. Its contexts and buffers are reused.
pub struct Packer {
    pub(super) pilot: LevelPilot,
    compressor: Option<Compressor<'static>>,
    /// The level that the compressor is set to.
    level: i8,
    sampler: Option<Compressor<'static>>,
    sample: Vec<u8>,
    out: Vec<u8>,
    /// True if the last payload shrank.
    shrinks: bool,
    /// True if only [`ENTROPY_LEVEL`] and higher levels make the content smaller.
    by_entropy: bool,
    /// The number of payloads still to be sent without a sample, and its value after the last sample.
    unseen: (u32, u32),
    compressed: CompressionStats,
    made: Instant,
    began: WindowMarks,
    content_bytes: u64,
}

/// The counters at the beginning of a window.
struct WindowMarks {
    at: Instant,
    thread: ThreadTime,
    output_waited: Duration,
    far: FarTime,
    compressed: CompressionStats,
}

impl Packer {
    /// Creates a packer, or none if nothing is ever compressed. `on_a_long_way`: the round trip is long. Connections
    /// then need time to reach the rate of the network path, so compression starts at once, and stops if it does not
    /// pay.
    pub fn new(compression: Compression, on_a_long_way: bool) -> Option<Self> {
        let compression = match compression {
            Compression::None => return None,
            Compression::Level(level) => Compression::Level(level.clamp(LEVEL_MIN, LEVEL_MAX)),
            compression => compression,
        };
        let began = WindowMarks {
            at: Instant::now(),
            thread: thread_time(),
            output_waited: Duration::ZERO,
            far: FarTime::default(),
            compressed: CompressionStats::default(),
        };
        let mut pilot = LevelPilot::new(compression, on_a_long_way);
        let compressed = CompressionStats { choice: pilot.choose_at_once(), ..CompressionStats::default() };
        Some(Self {
            pilot,
            compressor: None,
            level: 0,
            sampler: None,
            sample: Vec::new(),
            out: Vec::new(),
            shrinks: false,
            by_entropy: false,
            unseen: (0, 0),
            compressed,
            made: Instant::now(),
            began,
            content_bytes: 0,
        })
    }

    /// Returns the totals of everything compressed so far.
    pub fn compressed(&self) -> CompressionStats {
        self.compressed
    }

    /// Returns the compressed payload for `content`, or none if it is sent as it is. `digest`: the digest that the
    /// content is checked against on a sealed connection.
    pub fn pack(&mut self, content: &[u8], digest: Option<Digest>) -> Option<&[u8]> {
        self.content_bytes += content.len() as u64;
        let level = self.pilot.level()?;
        if content.len() < CONTENT_BYTES_MIN || self.passes_unseen() {
            return None;
        }
        let began = Instant::now();
        let mut packed = (self.shrinks || self.sample_shrinks(content))
            .then(|| self.compress(content, self.fitting(level), digest))
            .flatten();
        if let (Some(now_bytes), Some(candidate)) = (packed, self.pilot.candidate()) {
            // Either payload is correct, so this one replaces the other.
            packed = self.compress(content, self.fitting(candidate), digest);
            let choice = self.pilot.compare(now_bytes, packed.unwrap_or(content.len()));
            self.compressed.choice = choice.or(self.compressed.choice);
        }
        self.compressed.time_ns += u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shrinks = packed.is_some();
        let bytes = packed?;
        self.compressed.content_bytes += content.len() as u64;
        self.compressed.sent_bytes += bytes as u64;
        self.compressed.levels.insert(self.level);
        Some(&self.out[..bytes])
    }

    /// Returns true if it is time to reconsider the level.
    pub fn is_due(&self) -> bool {
        let is_first = self.compressed.choice.is_none() && self.made.elapsed() < FIRST;
        let window = if is_first { FIRST_WINDOWS } else { WINDOW };
        self.pilot.adapts() && self.began.at.elapsed() >= window
    }

    /// Reconsiders the level. `output_waited`: the time since its creation for which the connection could not take
    /// more; `far`: the times that the peer last reported.
    pub fn think(&mut self, output_waited: Duration, far: FarTime) {
        let now = WindowMarks {
            at: Instant::now(),
            thread: thread_time(),
            output_waited,
            far,
            compressed: self.compressed,
        };
        let Some(window) = window(&self.began, &now, self.content_bytes) else { return };
        if let Some(choice) = self.pilot.judge(&window) {
            self.compressed.choice = Some(choice);
        }
        (self.began, self.content_bytes) = (now, 0);
    }

    /// Returns true if this payload is sent uncompressed without a sample, because those before it did not shrink.
    fn passes_unseen(&mut self) -> bool {
        let passes = !self.shrinks && self.unseen.0 > 0;
        self.unseen.0 -= u32::from(passes);
        passes
    }

    /// Returns true if a sample of the content shrinks.
    fn sample_shrinks(&mut self, content: &[u8]) -> bool {
        if content.len() < 2 * SAMPLE_BYTES {
            return true;
        }
        self.sample.clear();
        let last = (content.len() - SAMPLE_PART_BYTES) / SAMPLE_PART_BYTES;
        for part in 0..SAMPLE_PARTS {
            let at = last * part / (SAMPLE_PARTS - 1) * SAMPLE_PART_BYTES;
            self.sample.extend_from_slice(&content[at..at + SAMPLE_PART_BYTES]);
        }
        self.out.resize(self.out.len().max(shrunk(SAMPLE_BYTES)), 0);
        let shrinks = self.sample_shrinks_at(SAMPLE_LEVEL);
        self.by_entropy = !shrinks && self.fitting_may_differ() && self.sample_shrinks_at(ENTROPY_LEVEL);
        let shrinks = shrinks || self.by_entropy;
        let (_, unseen) = self.unseen;
        let next = if shrinks { 0 } else { (2 * unseen + 1).min(UNSEEN_MAX) };
        self.unseen = (next, next);
        shrinks
    }

    fn sample_shrinks_at(&mut self, level: i8) -> bool {
        let sampler = match &mut self.sampler {
            Some(sampler) => sampler,
            none => match Compressor::new(level.into()) {
                Ok(sampler) => none.insert(sampler),
                Err(_) => return false,
            },
        };
        sampler.set_compression_level(level.into()).is_ok()
            && sampler.compress_to_buffer(&self.sample, &mut self.out[..shrunk(SAMPLE_BYTES)]).is_ok()
    }

    /// Returns true if another level than the pilot's may be used. A level below [`ENTROPY_LEVEL`] that the user chose
    /// is kept.
    fn fitting_may_differ(&self) -> bool {
        self.pilot.adapts() || self.pilot.level().is_some_and(|level| level >= ENTROPY_LEVEL)
    }

    /// Returns the level for content like this, given the pilot's `level`.
    fn fitting(&self, level: i8) -> i8 {
        if self.by_entropy { level.max(ENTROPY_LEVEL) } else { level }
    }

    /// Compresses into `out`. Returns the length of the payload in bytes, or none if it does not shrink enough.
    fn compress(&mut self, content: &[u8], level: i8, digest: Option<Digest>) -> Option<usize> {
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(level.into()).ok()?),
        };
        if self.level != level {
            compressor.set_compression_level(level.into()).ok()?;
            self.level = level;
        }
        let content_bytes = u32::try_from(content.len()).ok()?;
        let (head, head_bytes) = CompressedHead { content_bytes, digest }.encode();
        let most = shrunk(content.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let (before, behind) = self.out[..most].split_at_mut_checked(head_bytes)?;
        before.copy_from_slice(&head[..head_bytes]);
        // If the output does not fit, the content has not shrunk enough.
        let packed = compressor.compress_to_buffer(content, behind).ok()?;
        Some(head_bytes + packed)
    }
}

/// Returns the most that may be left of `bytes` for compression to be worth it.
fn shrunk(bytes: usize) -> usize {
    bytes - bytes / 16
}

/// Returns what happened between two moments, or none if nothing was sent.
fn window(began: &WindowMarks, now: &WindowMarks, content_bytes: u64) -> Option<Window> {
    let wall = now.at.saturating_duration_since(began.at).as_nanos() as f64;
    if content_bytes == 0 || wall <= 0.0 {
        return None;
    }
    let share = |ns: f64| (ns / wall).clamp(0.0, 1.0) as f32;
    let busy = |time: ThreadTime| time.processor_ns.saturating_add(time.queued_ns);
    let far_ns = now.far.all_ns.saturating_sub(began.far.all_ns);
    let far_share = |ns: u64| (ns as f64 / far_ns as f64).clamp(0.0, 1.0) as f32;
    let far_busy = |far: FarTime| far.processor_ns.saturating_add(far.queued_ns);
    let in_bytes = now.compressed.content_bytes - began.compressed.content_bytes;
    let out_bytes = now.compressed.sent_bytes - began.compressed.sent_bytes;
    Some(Window {
        bytes_per_second: content_bytes as f64 * 1e9 / wall,
        blocked: share(now.output_waited.saturating_sub(began.output_waited).as_nanos() as f64),
        processor: share(busy(now.thread).saturating_sub(busy(began.thread)) as f64),
        compressing: share((now.compressed.time_ns - began.compressed.time_ns) as f64),
        shrank_to: (in_bytes > 0).then(|| (out_bytes as f64 / in_bytes as f64) as f32),
        far: (far_ns > 0).then(|| PeerThreadShares {
            input: far_share(now.far.input_ns.saturating_sub(began.far.input_ns)),
            processor: far_share(far_busy(now.far).saturating_sub(far_busy(began.far))),
        }),
    })
}
