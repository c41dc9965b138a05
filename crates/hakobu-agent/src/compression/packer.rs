//! The sending half: what a lane sends, smaller where that pays.

use std::time::{Duration, Instant};

use hakobu_core::compression::{Compressed, Compression, LEVEL_MAX, LEVEL_MIN};
use hakobu_core::counters::{FarTime, ThreadTime};
use hakobu_core::digest::Digest;
use hakobu_measure::process::thread_time;
use hakobu_proto::compressed::Head;
use zstd::bulk::Compressor;

use super::pilot::{FarShares, Pilot, Window};

/// How often the level is thought about.
const WINDOW: Duration = Duration::from_millis(200);
/// The same at first, as long as nothing was chosen: small files may be over in some seconds.
const FIRST_WINDOWS: Duration = Duration::from_millis(50);
/// So long after a connection is made is at first, at both ends.
pub(crate) const FIRST: Duration = Duration::from_secs(1);
/// Shorter content is not worth a frame of its own.
const CONTENT_BYTES_MIN: usize = 512;
/// A sample is so many parts of the content, of so many bytes each.
const SAMPLE_PARTS: usize = 4;
const SAMPLE_PART_BYTES: usize = 4096;
const SAMPLE_BYTES: usize = SAMPLE_PARTS * SAMPLE_PART_BYTES;
/// The level that samples are tried with: it takes 3 µs to see that nothing shrinks.
const SAMPLE_LEVEL: i8 = -5;
/// The lowest level that packs by how often each byte comes, and not only what comes again: where nothing does, as in text of
/// many words, those below it gain nothing.
const ENTROPY_LEVEL: i8 = 1;
/// At most so much content passes unseen after a sample that did not shrink.
const UNSEEN_MAX: u32 = 7;

/// Packs what one lane sends; its contexts and buffers are used again.
pub(crate) struct Packer {
    pub(super) pilot: Pilot,
    compressor: Option<Compressor<'static>>,
    /// The level that it is set to.
    level: i8,
    sampler: Option<Compressor<'static>>,
    sample: Vec<u8>,
    out: Vec<u8>,
    /// Whether what was packed last shrank.
    shrinks: bool,
    /// Whether only [`ENTROPY_LEVEL`] and those above it make it smaller.
    by_entropy: bool,
    /// So much content passes unseen yet, and did after the last sample.
    unseen: (u32, u32),
    compressed: Compressed,
    made: Instant,
    began: Marks,
    content_bytes: u64,
}

/// What was known when the window began.
struct Marks {
    at: Instant,
    thread: ThreadTime,
    output_waited: Duration,
    far: FarTime,
    compressed: Compressed,
}

impl Packer {
    /// None where nothing is ever compressed. `on_a_long_way`: connections need their time to find out what the way
    /// carries, so compressing pays at once, and is left off if it does not.
    pub fn new(compression: Compression, on_a_long_way: bool) -> Option<Self> {
        let compression = match compression {
            Compression::None => return None,
            Compression::Level(level) => Compression::Level(level.clamp(LEVEL_MIN, LEVEL_MAX)),
            compression => compression,
        };
        let began = Marks {
            at: Instant::now(),
            thread: thread_time(),
            output_waited: Duration::ZERO,
            far: FarTime::default(),
            compressed: Compressed::default(),
        };
        let mut pilot = Pilot::new(compression, on_a_long_way);
        let compressed = Compressed { choice: pilot.choose_at_once(), ..Compressed::default() };
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

    /// What was compressed so far.
    pub fn compressed(&self) -> Compressed {
        self.compressed
    }

    /// The payload that stands for `content`, if it is smaller and smaller is wanted. `digest`: what the content is
    /// checked by, where the connection is sealed.
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
            // Its payload takes the place of the other: both are right.
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

    /// Whether the time has come to think about the level.
    pub fn is_due(&self) -> bool {
        let is_first = self.compressed.choice.is_none() && self.made.elapsed() < FIRST;
        let window = if is_first { FIRST_WINDOWS } else { WINDOW };
        self.pilot.adapts() && self.began.at.elapsed() >= window
    }

    /// Thinks about the level. `output_waited`: for how long the connection could not take more, since it was made;
    /// `far`: what the far end said last of its time.
    pub fn think(&mut self, output_waited: Duration, far: FarTime) {
        let now = Marks {
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

    /// Whether this one is let pass, since others before it did not shrink.
    fn passes_unseen(&mut self) -> bool {
        let passes = !self.shrinks && self.unseen.0 > 0;
        self.unseen.0 -= u32::from(passes);
        passes
    }

    /// Whether a sample of the content shrinks.
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

    /// Whether the level may be another than that at work. What was asked for stays.
    fn fitting_may_differ(&self) -> bool {
        self.pilot.adapts() || self.pilot.level().is_some_and(|level| level >= ENTROPY_LEVEL)
    }

    /// The level for content like this, where `level` is at work.
    fn fitting(&self, level: i8) -> i8 {
        if self.by_entropy { level.max(ENTROPY_LEVEL) } else { level }
    }

    /// How long the payload in `out` is, if it is smaller by enough to be worth it.
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
        let (head, head_bytes) = Head { content_bytes, digest }.encode();
        let most = shrunk(content.len());
        if self.out.len() < most {
            self.out.resize(most, 0);
        }
        let (before, behind) = self.out[..most].split_at_mut_checked(head_bytes)?;
        before.copy_from_slice(&head[..head_bytes]);
        // What does not fit has not shrunk enough.
        let packed = compressor.compress_to_buffer(content, behind).ok()?;
        Some(head_bytes + packed)
    }
}

/// What is left of so many bytes at most, if compressing them was worth it.
fn shrunk(bytes: usize) -> usize {
    bytes - bytes / 16
}

/// What happened from one moment to the other; none where nothing was sent, or too little is known.
fn window(began: &Marks, now: &Marks, content_bytes: u64) -> Option<Window> {
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
        far: (far_ns > 0).then(|| FarShares {
            input: far_share(now.far.input_ns.saturating_sub(began.far.input_ns)),
            processor: far_share(far_busy(now.far).saturating_sub(far_busy(began.far))),
        }),
    })
}
