//! Measures how fast data can be read at a path: its files, or the device.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::num::NonZero;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use hakobu_core::probe::{MeasuredWork, ReadAsk, ReadFigures, ReadHow};
use rustix::fs::{Advice, OFlags, SeekFrom, fadvise, fstatfs, seek};
use rustix::io::{ReadWriteFlags, preadv2};

use super::clock::{WorkEnd, median_ns, on_threads};
use super::content::{ALIGNMENT, ContentBuffer};
use super::load::Load;
use super::scan::{BLOCK_BYTES, scan};

/// The sizes in bytes of the range that a thread takes at a time, and of one read.
const CHUNK_BYTES: u64 = 4 << 20;
const PIECE_BYTES: usize = 256 << 10;
const DIRECT_BYTES: usize = 1 << 20;
/// The time limits for reading content, listing, reading small files and measuring the latency.
const CONTENT_LIMIT: Duration = Duration::from_millis(1200);
const SCAN_LIMIT: Duration = Duration::from_millis(2500);
const SMALL_LIMIT: Duration = Duration::from_millis(700);
const LATENCY_LIMIT: Duration = Duration::from_millis(300);
/// The number of pages that are tested to find out how much of a file is cached, and the number that are read for the
/// latency.
const PAGES_ASKED: u64 = 64;
const PAGES_READ: u64 = 24;
const PAGE_BYTES: u64 = 4096;
/// The share of cached pages, in thousandths, from which content counts as cached.
const MOSTLY_PERMILLE: u16 = 500;

/// Measures a path that will be read. Nothing changes except the content of the page cache.
///
/// # Errors
/// If nothing can be read.
pub fn source(ask: &ReadAsk, cancel: &AtomicBool) -> io::Result<ReadFigures> {
    let path = Path::new(std::ffi::OsStr::from_bytes(&ask.path));
    let found = std::fs::symlink_metadata(path)?;
    let load = Load { gentle: ask.gentle, lanes: ask.lanes };
    let mut figures = ReadFigures::default();
    if found.is_dir() {
        directory(path, load, &mut figures, cancel);
    } else if found.file_type().is_block_device() {
        device(path, load, &mut figures, cancel)?;
    } else if found.is_file() {
        figures.size_bytes = found.len();
        figures.allocated_bytes = found.blocks().saturating_mul(BLOCK_BYTES).min(found.len());
        content(&[(found.len(), path.to_owned())], load, &mut figures, cancel);
    } else {
        let words = "only files, directories and block devices can be read";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, words));
    }
    Ok(figures)
}

fn directory(path: &Path, load: Load, figures: &mut ReadFigures, cancel: &AtomicBool) {
    let found = scan(path, load.threads(), load.limit(SCAN_LIMIT), cancel);
    figures.tree = Some(found.tree);
    if found.unread > 0 {
        figures.remark(&format!("{} directories could not be read", found.unread));
    }
    if let (denied @ 1.., Some(path)) = found.denied {
        figures.denied = denied;
        figures.remark(&denied_words(&path));
    }
    if !found.small.is_empty() {
        small(&found.small, load, figures, cancel);
    }
    if !found.large.is_empty() {
        content(&found.large, load, figures, cancel);
    }
}

/// Reads small files in their current state, cached or not, as a run would find them.
fn small(paths: &[PathBuf], load: Load, figures: &mut ReadFigures, cancel: &AtomicBool) {
    let until = WorkEnd::after(load.limit(SMALL_LIMIT), cancel);
    let (next, denied, one_denied) = (AtomicU64::new(0), AtomicU64::new(0), OnceLock::new());
    let work = on_threads(load.threads(), |_| {
        let (mut count, mut bytes) = (0, 0);
        let mut buffer = vec![0; PIECE_BYTES];
        while !until.is_over() {
            let Some(path) = paths.get(next.fetch_add(1, Relaxed) as usize) else { break };
            let file = match open(path, OFlags::empty()) {
                Ok(file) => file,
                Err(error) => {
                    if error.kind() == io::ErrorKind::PermissionDenied {
                        denied.fetch_add(1, Relaxed);
                        let _first = one_denied.set(path);
                    }
                    continue;
                }
            };
            let _looked = file.metadata();
            let mut offset = 0;
            while let Ok(read @ 1..) = file.read_at(&mut buffer, offset) {
                offset += read as u64;
            }
            count += 1;
            bytes += offset;
        }
        (count, bytes)
    });
    figures.small = (work.count > 0).then_some(work);
    figures.denied += denied.into_inner();
    if let Some(path) = one_denied.into_inner() {
        figures.remark(&denied_words(path));
    }
}

fn denied_words(path: &Path) -> String {
    format!("{}: this user may not read it", path.display())
}

/// Opens a file without following a symbolic link, and without blocking on a named pipe.
fn open(path: &Path, more: OFlags) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | more).bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    Ok(file)
}

/// Reads large files, the largest first, each up to the remaining number of bytes.
fn content(files: &[(u64, PathBuf)], load: Load, figures: &mut ReadFigures, cancel: &AtomicBool) {
    let mut left = load.bytes_max();
    let (mut opened, mut first) = (Vec::new(), None);
    let (mut asked, mut cached) = (0, 0);
    for (size_bytes, path) in files {
        let file = match open(path, OFlags::empty()) {
            Ok(file) if left > 0 => file,
            Ok(_) => break,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                figures.denied += 1;
                figures.remark(&denied_words(path));
                continue;
            }
            Err(error) => {
                figures.remark(&format!("{}: {error}", path.display()));
                continue;
            }
        };
        // A copy does not read a hole either.
        let begin = seek(&file, SeekFrom::Data(0)).unwrap_or(0).min(*size_bytes);
        let length = (size_bytes - begin).min(left);
        let (of_this, in_memory) = pages_in_memory(&file, begin, length);
        asked += of_this;
        cached += in_memory;
        left -= length;
        first = first.or(Some(path));
        opened.push((file, begin, length));
    }
    if asked == 0 {
        return;
    }
    figures.cached_permille = Some((cached * 1000 / asked) as u16);
    for (file, begin, length) in &opened {
        let _ = fadvise(file, *begin, NonZero::new(*length), Advice::DontNeed);
        let _ = fadvise(file, 0, None, Advice::Sequential);
    }
    let (mut asked, mut left_over) = (0, 0);
    for (file, begin, length) in &opened {
        let (of_this, in_memory) = pages_in_memory(file, *begin, *length);
        asked += of_this;
        left_over += in_memory;
    }
    figures.how = if left_over * 2 > asked { ReadHow::Memory } else { ReadHow::Dropped };
    if opened.iter().all(|(file, ..)| lies_in_memory(file)) {
        // Such a file system does not report its pages as cached, although all of them are.
        (figures.how, figures.cached_permille) = (ReadHow::Memory, Some(1000));
    }
    figures.content = in_order(&opened, load, PIECE_BYTES, cancel);
    if figures.cached_permille.is_some_and(|permille| permille < MOSTLY_PERMILLE) {
        for (file, begin, length) in &opened {
            let _ = fadvise(file, *begin, NonZero::new(*length), Advice::DontNeed);
        }
    }
    if let Some((file, begin, length)) = opened.first() {
        // Direct I/O, if the file system supports it.
        let direct = first.and_then(|path| open(path, OFlags::DIRECT).ok());
        figures.latency_ns = latency(direct.as_ref().unwrap_or(file), *begin, *length, load, cancel);
    }
}

fn device(path: &Path, load: Load, figures: &mut ReadFigures, cancel: &AtomicBool) -> io::Result<()> {
    let file = open(path, OFlags::DIRECT)?;
    let size_bytes = seek(&file, SeekFrom::End(0))?;
    figures.size_bytes = size_bytes;
    figures.how = ReadHow::Direct;
    let most = load.bytes_max();
    let length = size_bytes.min(most) / DIRECT_BYTES as u64 * DIRECT_BYTES as u64;
    let opened = [(file, 0, length)];
    figures.content = in_order(&opened, load, DIRECT_BYTES, cancel);
    figures.latency_ns = latency(&opened[0].0, 0, size_bytes, load, cancel);
    Ok(())
}

/// Reads sequentially, as the lanes of a copy do: each takes the next chunk.
fn in_order(
    files: &[(File, u64, u64)],
    load: Load,
    at_once: usize,
    cancel: &AtomicBool,
) -> Option<MeasuredWork> {
    let until = WorkEnd::after(load.limit(CONTENT_LIMIT), cancel);
    let next = AtomicU64::new(0);
    let work = on_threads(load.threads(), |_| {
        let (mut count, mut bytes) = (0, 0);
        let mut buffer = ContentBuffer::new(at_once);
        while let Some((file, begin, end)) = chunk(files, next.fetch_add(1, Relaxed)) {
            let mut offset = begin;
            while offset < end && !until.is_over() {
                let room = (end - offset).min(at_once as u64) as usize;
                match file.read_at(&mut buffer.bytes_mut()[..room], offset) {
                    Ok(read @ 1..) => offset += read as u64,
                    _ => break,
                }
            }
            count += 1;
            bytes += offset - begin;
            if until.is_over() {
                break;
            }
            if load.gentle {
                // A pause as long as the work would be too long on a fast disk.
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        (count, bytes)
    });
    (work.bytes > 0).then_some(work)
}

/// Returns the chunk with this number, counted over all files.
fn chunk(files: &[(File, u64, u64)], mut number: u64) -> Option<(&File, u64, u64)> {
    for (file, begin, length) in files {
        let chunks = length.div_ceil(CHUNK_BYTES);
        if number < chunks {
            let from = begin + number * CHUNK_BYTES;
            return Some((file, from, (from + CHUNK_BYTES).min(begin + length)));
        }
        number -= chunks;
    }
    None
}

/// Returns the number of pages that were tested, and the number that were cached.
fn pages_in_memory(file: &File, begin: u64, length: u64) -> (u64, u64) {
    let pages = length.div_ceil(PAGE_BYTES).min(PAGES_ASKED);
    let mut byte = [0];
    let mut cached = 0;
    for page in 0..pages {
        let offset = begin + length / pages * page;
        // Returns nothing if it would block.
        let read = preadv2(file, &mut [IoSliceMut::new(&mut byte)], offset, ReadWriteFlags::NOWAIT);
        cached += u64::from(matches!(read, Ok(1)));
    }
    (pages, cached)
}

/// Returns true if a file is in a memory file system: tmpfs, or ramfs (`linux/magic.h`).
fn lies_in_memory(file: &File) -> bool {
    const KINDS: [u64; 2] = [0x0102_1994, 0x8584_58f6];
    fstatfs(file).is_ok_and(|found| KINDS.contains(&(found.f_type as u64)))
}

/// Returns the median time to read one page at scattered offsets.
fn latency(file: &File, begin: u64, length: u64, load: Load, cancel: &AtomicBool) -> Option<u64> {
    let until = WorkEnd::after(load.limit(LATENCY_LIMIT), cancel);
    let pages = length / PAGE_BYTES;
    let mut page = ContentBuffer::new(ALIGNMENT);
    let mut times = Vec::new();
    for number in 0..PAGES_READ.min(pages) {
        // A stride that is not a power of two defeats read-ahead.
        let at = (number.wrapping_mul(7_919) * 1_013) % pages;
        let begin = begin / PAGE_BYTES * PAGE_BYTES;
        let began = Instant::now();
        if file.read_at(page.bytes_mut(), begin + at * PAGE_BYTES).is_err() || until.is_over() {
            break;
        }
        times.push(began.elapsed());
    }
    median_ns(&times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(path: &Path) -> ReadFigures {
        let ask = ReadAsk { path: path.as_os_str().as_bytes().to_vec(), gentle: true, lanes: 2 };
        source(&ask, &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn files_and_trees_are_measured_and_left_as_they_are() {
        let place = tempfile::tempdir().unwrap();
        let large = place.path().join("large");
        std::fs::write(&large, vec![7; 9 << 20]).unwrap();
        let file = measured(&large);
        assert_eq!(file.size_bytes, 9 << 20);
        assert!(file.content.unwrap().bytes > 0 && file.how != ReadHow::Unread && file.tree.is_none());
        std::fs::create_dir(place.path().join("below")).unwrap();
        std::fs::write(place.path().join("below/small"), "content").unwrap();
        let tree = measured(place.path());
        let held = tree.tree.unwrap();
        assert_eq!((held.files, held.small_files, held.complete), (2, 1, true));
        assert_eq!((tree.small.unwrap().count, tree.small.unwrap().bytes), (1, 7));
        assert!(tree.content.unwrap().bytes > 0);
    }

    #[test]
    fn what_lies_in_memory_is_not_dropped_from_it() {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        std::fs::write(place.path().join("large"), vec![7; 9 << 20]).unwrap();
        let file = measured(&place.path().join("large"));
        assert_eq!((file.how, file.cached_permille), (ReadHow::Memory, Some(1000)));
    }

    #[test]
    fn what_has_no_content_has_no_figures_of_it() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("empty"), "").unwrap();
        let file = measured(&place.path().join("empty"));
        assert_eq!((file.content, file.cached_permille, file.latency_ns), (None, None, None));
        let empty = measured(place.path());
        assert_eq!((empty.content, empty.small, empty.tree.unwrap().files), (None, None, 1));
        let ask = ReadAsk { path: b"/dev/null".to_vec(), gentle: true, lanes: 2 };
        assert!(source(&ask, &AtomicBool::new(false)).is_err());
    }
}
