//! Generates the content of a disk or disk image.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{io, thread};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::content::derive;
use super::threads::available_threads;
use super::{Pattern, SeededText};
use crate::MeasureError;
use crate::MeasureResult;

/// The size of a piece in bytes, which is either all zeros or all content.
pub const PIECE_BYTES: u64 = 256 * 1024;

/// The size of one `write` in bytes. The buffer stays in the core's L2 cache between being filled and being copied by
/// the kernel.
pub(super) const WRITE_BYTES: usize = 256 * 1024;
/// The range in bytes that a thread takes at a time. It is large enough for the device to see sequential writes.
pub(super) const CHUNK_BYTES: u64 = 8 * 1024 * 1024;
/// The size of one write with direct I/O, where each is a command to the device.
const DIRECT_BYTES: usize = 1024 * 1024;
/// The alignment of memory, offsets and lengths for direct I/O.
const ALIGNMENT: usize = 4096;
/// The purpose passed to [`derive`]. Those of trees are small numbers.
const PURPOSE_ZEROS: u64 = 0x7a65_726f;

/// The specification of a disk's content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskSpec {
    /// The number of bytes to write, from the start of the disk.
    pub size_bytes: u64,
    /// The seed of the content.
    pub seed: u64,
    /// The compressibility of the content that is not zeros, from 0.0 (random) to 1.0; see [`Pattern::new`].
    pub compressibility: f64,
    /// True for [`SeededText`] instead of a pattern.
    pub text: bool,
    /// The share of pieces that are all zeros, from 0.0 to 1.0.
    pub zeros: f64,
    /// The number of writing threads; 0 means 1.
    pub threads: usize,
}

impl Default for DiskSpec {
    /// An empty disk of random content, written on all cores.
    fn default() -> Self {
        Self {
            size_bytes: 0,
            seed: 1,
            compressibility: 0.0,
            text: false,
            zeros: 0.0,
            threads: available_threads(),
        }
    }
}

/// The content of a disk at any offset.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DiskPattern {
    pattern: Pattern,
    text: Option<SeededText>,
    seed: u64,
    zeros: f64,
}

impl DiskPattern {
    /// Creates the content for `spec`.
    #[must_use]
    pub fn new(spec: &DiskSpec) -> Self {
        let pattern = Pattern::new(spec.seed, spec.compressibility);
        let text = spec.text.then(|| SeededText::new(spec.seed));
        Self { pattern, text, seed: spec.seed, zeros: spec.zeros.clamp(0.0, 1.0) }
    }

    /// Returns true if the piece with this number is all zeros.
    #[must_use]
    pub fn is_zeros(&self, piece: u64) -> bool {
        let bits = derive(self.seed, PURPOSE_ZEROS, piece) >> 11;
        (bits as f64) < self.zeros * (1_u64 << 53) as f64
    }

    /// Fills `buffer` with the content at `offset`, a multiple of [`PIECE_BYTES`].
    pub fn fill(&self, offset: u64, buffer: &mut [u8]) {
        let pieces = (offset / PIECE_BYTES..).zip(buffer.chunks_mut(PIECE_BYTES as usize));
        for (piece, part) in pieces {
            match self.text {
                _ if self.is_zeros(piece) => part.fill(0),
                Some(text) => text.fill(piece * PIECE_BYTES, part),
                None => self.pattern.fill(piece * PIECE_BYTES, part),
            }
        }
    }
}

/// The output of the generated content.
#[derive(Debug)]
pub struct Output<'a> {
    /// An open file or block device.
    pub file: &'a File,
    /// The path, for error messages.
    pub path: &'a Path,
    /// True if all of it already reads as zeros, so that zeros need not be written.
    pub is_empty: bool,
    /// True if it is a block device, which is written with direct I/O.
    pub is_device: bool,
    /// Stops the work when it is set by another thread.
    pub stop: &'a AtomicBool,
    /// The number of bytes done, including zeros.
    pub done_bytes: &'a AtomicU64,
}

/// Writes the content of a disk to stable storage. Returns the number of bytes that are zeros.
///
/// # Errors
/// [`MeasureError::Stopped`] if a stop was requested; [`MeasureError::Io`] for system errors. Data that was written remains.
pub fn disk(output: &Output<'_>, spec: &DiskSpec) -> MeasureResult<u64> {
    let written = write(output, spec).and_then(|zeros| output.file.sync_all().map(|()| zeros));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => MeasureError::Stopped,
        _ => MeasureError::io("write", output.path)(error),
    })
}

/// Writes like [`disk`], without waiting for stable storage. A stop returns the error `Interrupted`.
pub(super) fn write(output: &Output<'_>, spec: &DiskSpec) -> io::Result<u64> {
    let writer = DiskWriter { output, pattern: DiskPattern::new(spec), size_bytes: spec.size_bytes };
    writer.write_with(spec.threads)
}

struct DiskWriter<'a> {
    output: &'a Output<'a>,
    pattern: DiskPattern,
    size_bytes: u64,
}

impl DiskWriter<'_> {
    fn write_with(&self, threads: usize) -> io::Result<u64> {
        let chunks = self.size_bytes.div_ceil(CHUNK_BYTES);
        let threads = (threads.max(1) as u64).min(chunks);
        let (next, zeros) = (AtomicU64::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            let writers: Vec<_> =
                (0..threads).map(|_| scope.spawn(|| self.write_chunks(&next, &zeros))).collect();
            writers
                .into_iter()
                .try_for_each(|writer| writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })?;
        Ok(zeros.into_inner())
    }

    fn write_chunks(&self, next: &AtomicU64, zeros: &AtomicU64) -> io::Result<()> {
        let mut buffer = WriteBuffer::new(self.output);
        loop {
            let start = next.fetch_add(1, Ordering::Relaxed).saturating_mul(CHUNK_BYTES);
            if start >= self.size_bytes {
                return Ok(());
            }
            let end = self.size_bytes.min(start + CHUNK_BYTES);
            let mut at = start;
            while at < end {
                let done = match self.output.stop.load(Ordering::Relaxed) {
                    true => Err(io::ErrorKind::Interrupted.into()),
                    false => self.write_run(at, end, &mut buffer, zeros),
                };
                match done {
                    Ok(length) => at += length,
                    Err(error) => {
                        // Stops the other threads at their next chunk.
                        next.store(u64::MAX / 2, Ordering::Relaxed);
                        return Err(error);
                    }
                }
            }
        }
    }

    /// Writes as many pieces of one kind, starting at `at`, as fit into the buffer. Returns their size in bytes.
    fn write_run(&self, at: u64, end: u64, buffer: &mut WriteBuffer, zeros: &AtomicU64) -> io::Result<u64> {
        let most = end - at;
        let kind = self.pattern.is_zeros(at / PIECE_BYTES);
        let pieces = (at / PIECE_BYTES..).take_while(|piece| self.pattern.is_zeros(*piece) == kind);
        let room = (buffer.length as u64).div_ceil(PIECE_BYTES);
        let length = (pieces.take(room as usize).count() as u64 * PIECE_BYTES).min(most);
        if kind {
            zeros.fetch_add(length, Ordering::Relaxed);
            if !self.output.is_empty {
                buffer.zero(self.output, at, length)?;
            }
        } else {
            let part = &mut buffer.bytes()[..length as usize];
            self.pattern.fill(at, part);
            buffer.write(self.output, at, length as usize)?;
        }
        self.output.done_bytes.fetch_add(length, Ordering::Relaxed);
        Ok(length)
    }
}

/// The write buffer of one thread.
struct WriteBuffer {
    storage: Vec<u8>,
    begin: usize,
    length: usize,
    /// The device opened for direct I/O, if available.
    direct: Option<File>,
}

impl WriteBuffer {
    fn new(output: &Output<'_>) -> Self {
        let direct = if output.is_device { open_direct(output.file) } else { None };
        let length = if direct.is_some() { DIRECT_BYTES } else { WRITE_BYTES };
        let storage = vec![0; length + ALIGNMENT];
        let begin = storage.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        Self { storage, begin, length, direct }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.storage[self.begin..self.begin + self.length]
    }

    fn write(&self, output: &Output<'_>, at: u64, length: usize) -> io::Result<()> {
        let bytes = &self.storage[self.begin..self.begin + length];
        // A tail that is not a multiple of the sector size goes through the page cache.
        let whole = if self.direct.is_some() { length / ALIGNMENT * ALIGNMENT } else { 0 };
        if let Some(direct) = &self.direct {
            direct.write_all_at(&bytes[..whole], at)?;
        }
        output.file.write_all_at(&bytes[whole..], at + whole as u64)
    }

    fn zero(&mut self, output: &Output<'_>, at: u64, length: u64) -> io::Result<()> {
        if output.is_device && hakobu_sys::block::zero_out(output.file, at, length).is_ok() {
            return Ok(());
        }
        self.bytes()[..length as usize].fill(0);
        self.write(output, at, length as usize)
    }
}

/// Opens the same device for direct I/O; `None` if that is not possible.
fn open_direct(file: &File) -> Option<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::CLOEXEC;
    openat(CWD, path, flags, Mode::empty()).ok().map(File::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn written(spec: &DiskSpec, is_empty: bool) -> (File, u64) {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        if is_empty {
            file.set_len(spec.size_bytes).unwrap();
        } else {
            file.write_all_at(&vec![0xaa; spec.size_bytes as usize], 0).unwrap();
        }
        let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
        let output = Output {
            path: Path::new("t"),
            file: &file,
            is_empty,
            is_device: false,
            stop: &stop,
            done_bytes: &done,
        };
        let zeros = disk(&output, spec).unwrap();
        assert_eq!(done.into_inner(), spec.size_bytes);
        (file, zeros)
    }

    #[test]
    fn content_follows_from_the_seed_and_zeros_are_holes() {
        let size_bytes = 5 * CHUNK_BYTES + 3 * PIECE_BYTES + 77;
        for threads in [1, 3] {
            let spec = DiskSpec { size_bytes, seed: 3, zeros: 0.4, threads, ..DiskSpec::default() };
            let mut expected = vec![0xff; size_bytes as usize];
            DiskPattern::new(&spec).fill(0, &mut expected);
            for is_empty in [true, false] {
                let (file, zeros) = written(&spec, is_empty);
                let mut found = vec![0; size_bytes as usize];
                file.read_exact_at(&mut found, 0).unwrap();
                assert!(found == expected);
                let all = expected.chunks(PIECE_BYTES as usize);
                let of_zeros = all.filter(|piece| piece.iter().all(|byte| *byte == 0));
                assert_eq!(zeros, of_zeros.map(<[u8]>::len).sum::<usize>() as u64);
                let share = zeros as f64 / size_bytes as f64;
                assert!((0.25..0.55).contains(&share), "{share}");
                let allocated = file.metadata().unwrap().blocks() * 512;
                assert!(!is_empty || allocated <= size_bytes - zeros + 4096, "{allocated}");
            }
        }
    }

    #[test]
    fn all_or_nothing_is_zeros() {
        for (zeros, expected) in [(0.0, 0), (1.0, CHUNK_BYTES)] {
            let spec = DiskSpec { size_bytes: CHUNK_BYTES, zeros, ..DiskSpec::default() };
            assert_eq!(written(&spec, true).1, expected);
        }
        let other = DiskSpec { size_bytes: PIECE_BYTES, seed: 2, ..DiskSpec::default() };
        let (mut one, mut two) = ([0; 64], [0; 64]);
        DiskPattern::new(&other).fill(0, &mut one);
        DiskPattern::new(&DiskSpec { seed: 3, ..other }).fill(0, &mut two);
        assert_ne!(one, two);
    }

    #[test]
    fn a_stop_ends_it() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        let (stop, done) = (AtomicBool::new(true), AtomicU64::new(0));
        let output = Output {
            path: Path::new("t"),
            file: &file,
            is_empty: true,
            is_device: false,
            stop: &stop,
            done_bytes: &done,
        };
        let spec = DiskSpec { size_bytes: CHUNK_BYTES, ..DiskSpec::default() };
        assert!(matches!(disk(&output, &spec), Err(MeasureError::Stopped)));
        assert_eq!(done.into_inner(), 0);
    }
}
