//! Measures how fast a device can be written without changing it: data is read and written back to the same offset.
//! So the content is the same before, after, and if the process is killed at any time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hakobu_core::probe::{MeasuredWork, WriteAsk, WriteFigures, WriteHow};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, fcntl_setfl, fdatasync, seek};

use super::clock::{WorkEnd, median_ns, on_threads};
use super::content::{ALIGNMENT, ContentBuffer};
use super::load::Load;

/// The size of one read or write in bytes, and the number of pieces in memory at a time.
const PIECE_BYTES: usize = 1 << 20;
const PIECES: usize = 128;
/// The target duration of all writes, and the time limit for the reads before each turn.
const WRITE_TIME: Duration = Duration::from_millis(1300);
const READ_LIMIT: Duration = Duration::from_millis(600);
const TURNS: usize = 8;
const LATENCY_LIMIT: Duration = Duration::from_millis(250);
const WRITES: u64 = 24;

/// Measures a device that nothing else has open.
///
/// # Errors
/// If the device does not support direct I/O, or rejects the data that it held.
pub fn device(file: &File, ask: &WriteAsk, cancel: &AtomicBool) -> io::Result<WriteFigures> {
    let load = Load { gentle: ask.gentle, lanes: ask.lanes };
    // Data that others wrote may be only in the page cache. Without this, direct reads would return older data, which
    // would then be written over it.
    fdatasync(file)?;
    fcntl_setfl(file, fcntl_getfl(file)? | OFlags::DIRECT)?;
    let size_bytes = seek(file, SeekFrom::End(0))?;
    let end = size_bytes.min(load.bytes_max()) / PIECE_BYTES as u64 * PIECE_BYTES as u64;
    let mut figures = WriteFigures { how: WriteHow::WrittenBack, ..WriteFigures::default() };
    let (mut begin, mut all) = (0, None::<MeasuredWork>);
    for _ in 0..TURNS {
        let pieces = read(file, begin, end, load, &mut figures, cancel);
        if pieces.is_empty() || cancel.load(Relaxed) {
            break;
        }
        let turn = written_back(file, begin, &pieces, load)?;
        begin += (pieces.len() * PIECE_BYTES) as u64;
        all = Some(all.map_or(turn, |all| sum(all, turn)));
        if all.is_some_and(|all| Duration::from_nanos(all.elapsed_ns) >= load.limit(WRITE_TIME)) {
            break;
        }
    }
    (figures.content, figures.in_memory) = (all, all);
    figures.latency_ns = latency(file, size_bytes, load, cancel)?;
    Ok(figures)
}

/// Reads as many pieces as fit into memory and the time. A read error ends the loop, since such an area would change
/// when it is written.
fn read(
    file: &File,
    begin: u64,
    end: u64,
    load: Load,
    figures: &mut WriteFigures,
    cancel: &AtomicBool,
) -> Vec<ContentBuffer> {
    let until = WorkEnd::after(load.limit(READ_LIMIT), cancel);
    let mut pieces = Vec::new();
    let mut offset = begin;
    while offset < end && pieces.len() < PIECES && !until.is_over() {
        let mut piece = ContentBuffer::new(PIECE_BYTES);
        if let Err(error) = file.read_exact_at(piece.bytes_mut(), offset) {
            figures.remark(&format!("reading it at {offset}: {error}"));
            break;
        }
        pieces.push(piece);
        offset += PIECE_BYTES as u64;
    }
    pieces
}

/// Writes pieces back to their offsets, and waits until they are on stable storage.
fn written_back(file: &File, begin: u64, pieces: &[ContentBuffer], load: Load) -> io::Result<MeasuredWork> {
    let (next, failed) = (AtomicU64::new(0), Mutex::new(None));
    let began = Instant::now();
    let work = on_threads(load.threads(), |_| {
        let mut bytes = 0;
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(piece) = pieces.get(number as usize) else { return (0, bytes) };
            if let Err(error) = file.write_all_at(piece.bytes(), begin + number * PIECE_BYTES as u64) {
                *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                return (0, bytes);
            }
            bytes += PIECE_BYTES as u64;
        }
    });
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    fdatasync(file)?;
    Ok(MeasuredWork { elapsed_ns: began.elapsed().as_nanos() as u64, ..work })
}

fn sum(one: MeasuredWork, other: MeasuredWork) -> MeasuredWork {
    MeasuredWork {
        bytes: one.bytes + other.bytes,
        elapsed_ns: one.elapsed_ns + other.elapsed_ns,
        processor_ns: one.processor_ns + other.processor_ns,
        queued_ns: one.queued_ns + other.queued_ns,
        ..one
    }
}

/// Returns the median time to make one page stable, at scattered offsets. Each page is written with its own content.
fn latency(file: &File, size_bytes: u64, load: Load, cancel: &AtomicBool) -> io::Result<Option<u64>> {
    let until = WorkEnd::after(load.limit(LATENCY_LIMIT), cancel);
    let pages = size_bytes / ALIGNMENT as u64;
    let mut page = ContentBuffer::new(ALIGNMENT);
    let mut times = Vec::new();
    for number in 0..WRITES.min(pages) {
        let at = number.wrapping_mul(7_919 * 1_013) % pages * ALIGNMENT as u64;
        if until.is_over() || file.read_exact_at(page.bytes_mut(), at).is_err() {
            break;
        }
        let began = Instant::now();
        file.write_all_at(page.bytes(), at)?;
        fdatasync(file)?;
        times.push(began.elapsed());
    }
    Ok(median_ns(&times))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file stands for the device, on a file system that supports direct I/O.
    #[test]
    fn what_is_written_is_what_was_there() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("disk");
        let content: Vec<u8> = (0..(5 << 20) + 4096 + 512).map(|at: u32| (at ^ at >> 9) as u8).collect();
        std::fs::write(&path, &content).unwrap();
        let open = || File::options().read(true).write(true).open(&path).unwrap();
        let ask = WriteAsk { write: true, lanes: 4, ..WriteAsk::default() };
        let figures = device(&open(), &ask, &AtomicBool::new(false)).unwrap();
        assert_eq!((figures.how, figures.content.unwrap().bytes), (WriteHow::WrittenBack, 5 << 20));
        assert!(figures.latency_ns.is_some() && figures.small.is_none());
        assert!(std::fs::read(&path).unwrap() == content);
        let stopped = device(&open(), &ask, &AtomicBool::new(true)).unwrap();
        assert_eq!((stopped.content, stopped.latency_ns), (None, None));
        let empty = File::create_new(place.path().join("empty")).unwrap();
        assert!(device(&empty, &ask, &AtomicBool::new(false)).is_ok_and(|none| none.content.is_none()));
    }
}
